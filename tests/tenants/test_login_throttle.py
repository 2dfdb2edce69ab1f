from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import Client
from pytest_django import Settings

from guardops.tenants.models import Throttle, User
from guardops.tenants.throttle import Guess
from tests.factories import PASSWORD, make_user

pytestmark = pytest.mark.django_db

URL = "/login/"
FREE = Guess.PASSWORD.value.pair.free


def log_in(client: Client, password: str = "wrong", *, username: str = "mara", **more: str):  # type: ignore[no-untyped-def]
    headers = {"X-Forwarded-For": more.pop("forwarded")} if "forwarded" in more else {}
    return client.post(URL, {"username": username, "password": password, **more}, headers=headers)


def use_up(client: Client, **more: str) -> None:
    for _ in range(FREE):
        assert log_in(client, **more).status_code == 200


def test_too_many_wrong_passwords_are_answered_with_when_to_try_again(client: Client) -> None:
    make_user("mara")
    use_up(client)
    answer = log_in(client, next="/runs/?range=7d")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 30
    page = answer.content.decode()
    assert "Too many tries" in page
    assert answer.context["until"] > datetime.now(UTC)
    assert 'href="/login/?next=%2Fruns%2F%3Frange%3D7d"' in page
    assert "no-store" in answer["Cache-Control"]


def test_the_right_password_is_not_looked_at_while_it_is_too_early(client: Client) -> None:
    make_user("mara")
    use_up(client)
    assert log_in(client, PASSWORD).status_code == 429
    assert "_auth_user_id" not in client.session


def test_the_right_password_counts_after_the_wait(client: Client) -> None:
    make_user("mara")
    use_up(client)
    Throttle.objects.update(open_at=datetime.now(UTC))
    assert log_in(client, PASSWORD).status_code == 302


def test_an_unknown_name_is_held_up_in_the_same_way(client: Client) -> None:
    make_user("mara")
    answers = {}
    for name in ("mara", "nobody-of-that-name"):
        use_up(client, username=name)
        answers[name] = log_in(client, username=name)
    assert {answer.status_code for answer in answers.values()} == {429}
    assert len({answer["Retry-After"] for answer in answers.values()}) == 1


def test_a_success_leaves_all_tries(client: Client) -> None:
    make_user("mara")
    for _ in range(FREE * 2):
        assert log_in(client, PASSWORD).status_code == 302
        client.logout()


@pytest.mark.parametrize(("behind", "status"), [(True, 200), (False, 429)])
def test_the_proxys_word_on_the_address_counts_only_behind_one(
    client: Client, settings: Settings, behind: bool, status: int
) -> None:
    settings.BEHIND_PROXY = behind
    use_up(client, forwarded="192.0.2.1")
    assert log_in(client, forwarded="192.0.2.2").status_code == status


def test_what_the_client_adds_to_the_proxys_word_is_no_way_around(client: Client, settings: Settings) -> None:
    settings.BEHIND_PROXY = True
    for number in range(FREE):
        log_in(client, forwarded=f"10.0.0.{number}, 192.0.2.1")
    assert log_in(client, forwarded="10.9.9.9, 192.0.2.1").status_code == 429


@pytest.mark.parametrize("name", ["a\0b", "x" * 100_000, "\u202emara"])
def test_garbage_is_counted_and_crashes_nothing(client: Client, name: str) -> None:
    use_up(client, username=name)
    assert log_in(client, username=name).status_code == 429


def test_a_closed_account_is_held_up_like_any_other(client: Client) -> None:
    make_user("gone")
    User.objects.update(is_active=False)
    for _ in range(FREE):
        assert log_in(client, PASSWORD, username="gone").status_code == 200
    assert log_in(client, PASSWORD, username="gone").status_code == 429
