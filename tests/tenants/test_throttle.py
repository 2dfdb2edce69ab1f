from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from guardops.tenants.errors import TooManyTries
from guardops.tenants.models import Throttle
from guardops.tenants.throttle import KEPT_FAILURES, KEPT_SUCCESSES, Guess, know, sweep, take_try
from tests.factories import NOW

pytestmark = pytest.mark.django_db

PAIR, ADDRESS, NAME = Guess.PASSWORD.value


def fail(name: str = "mara", address: str = "192.0.2.1", *, now: datetime = NOW, times: int = 1) -> None:
    for _ in range(times):
        take_try(Guess.PASSWORD, name=name, address=address, now=now)


def refused_until(name: str = "mara", address: str = "192.0.2.1", *, now: datetime = NOW) -> datetime | None:
    try:
        fail(name, address, now=now)
    except TooManyTries as error:
        return error.until
    return None


def test_the_first_tries_of_a_name_from_an_address_are_free() -> None:
    fail(times=PAIR.free)
    assert refused_until() == NOW + PAIR.first


def test_the_wait_doubles_and_has_an_end() -> None:
    fail(times=PAIR.free)
    now, waits = NOW, []
    for _ in range(8):
        until = refused_until(now=now)
        assert until is not None
        waits.append(until - now)
        now = until
        fail(now=now)
    assert waits[1] == 2 * waits[0]
    assert waits == sorted(waits)
    assert waits[-1] <= PAIR.longest


def test_a_refused_try_makes_the_wait_no_longer() -> None:
    fail(times=PAIR.free)
    assert {refused_until() for _ in range(10)} == {NOW + PAIR.first}


def test_tries_are_forgotten_with_time() -> None:
    fail(times=PAIR.free)
    later = NOW + PAIR.leak * PAIR.free
    fail(now=later, times=PAIR.free)
    assert refused_until(now=later) == later + PAIR.first


def test_a_success_forgets_the_tries_from_there() -> None:
    fail(times=PAIR.free - 1)
    take_try(Guess.PASSWORD, name="mara", address="192.0.2.1", now=NOW).succeeded(NOW)
    fail(times=PAIR.free)
    assert refused_until() is not None


def test_many_names_from_one_address_are_held_up() -> None:
    for number in range(ADDRESS.free):
        fail(f"name-{number}")
    assert refused_until("another") == NOW + ADDRESS.first
    assert refused_until("another", "192.0.2.2") is None


def test_ones_own_success_gives_an_address_no_more_tries() -> None:
    for number in range(ADDRESS.free - 1):
        fail(f"name-{number}")
    take_try(Guess.PASSWORD, name="mine", address="192.0.2.1", now=NOW).succeeded(NOW)
    fail("another")
    assert refused_until("one-more") == NOW + ADDRESS.first


def test_one_name_from_many_addresses_is_held_up_shortly() -> None:
    for number in range(NAME.free):
        fail(address=f"198.51.100.{number}")
    until = refused_until(address="203.0.113.1")
    assert until is not None
    assert until - NOW <= NAME.longest


def test_strangers_do_not_lock_the_owner_out_of_a_place_of_theirs() -> None:
    take_try(Guess.PASSWORD, name="mara", address="192.0.2.1", now=NOW).succeeded(NOW)
    for number in range(NAME.free):
        fail(address=f"198.51.100.{number}")
    assert refused_until(address="203.0.113.1") is not None
    assert refused_until(address="192.0.2.1") is None


def test_who_is_proved_by_a_link_has_a_place_of_theirs() -> None:
    fail(times=PAIR.free)
    know(Guess.PASSWORD, name="mara", address="192.0.2.1", now=NOW)
    assert refused_until() is None


@pytest.mark.parametrize("other", ["MARA", " mara ", "Mara", "\uff4d\uff41\uff52\uff41", "\U0001d426ara"])
def test_spellings_of_one_name_are_counted_together(other: str) -> None:
    fail(times=PAIR.free)
    assert refused_until(other) is not None


def test_an_address_is_counted_as_its_look_up_compares_it() -> None:
    fail("mike@example.com", times=PAIR.free)
    assert refused_until("m\u0131ke@example.com") is not None


def test_requests_for_a_link_are_counted_apart() -> None:
    fail(times=PAIR.free)
    take_try(Guess.RESET, name="mara", address="192.0.2.1", now=NOW)


def test_no_name_and_no_address_is_kept() -> None:
    fail("mara", "192.0.2.1")
    kept = b" ".join(bytes(row.digest) for row in Throttle.objects.all())
    assert b"mara" not in kept
    assert b"192.0.2.1" not in kept


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 100_000, "\u202emara"])
def test_any_text_is_a_name_to_count_by(name: str) -> None:
    fail(name)
    assert Throttle.objects.count() == 3


def test_the_sweep_deletes_what_is_old_and_keeps_known_places() -> None:
    take_try(Guess.PASSWORD, name="mara", address="192.0.2.1", now=NOW).succeeded(NOW)
    fail("other", "192.0.2.9")
    assert sweep(NOW) == 0
    sweep(NOW + KEPT_FAILURES)
    kept = Throttle.objects.get()
    assert kept.succeeded_at == NOW
    assert sweep(NOW + KEPT_SUCCESSES) == 1


def test_the_sweep_bounds_the_rows_and_takes_the_oldest() -> None:
    for number in range(10):
        fail(f"name-{number}", f"198.51.100.{number}", now=NOW + timedelta(seconds=number))
    sweep(NOW + timedelta(seconds=10), max_rows=6)
    assert Throttle.objects.count() == 6
    assert min(Throttle.objects.values_list("tried_at", flat=True)) == NOW + timedelta(seconds=8)
