from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from guardops.tenants.actors import acting
from guardops.tenants.models import Tenant, TenantEvent, User
from guardops.tenants.trail.entries import Entry
from guardops.tenants.trail.kinds import kinds
from guardops.tenants.trail.reading import Asked, Place, read_all
from guardops.tenants.trail.scope import trail_scope
from tests.factories import make_key, make_operator, make_tenant, make_user

from .conftest import Read, sentence

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> User:
    operator = make_operator("root")
    for _ in range(4):
        make_key(make_tenant())  # rows of four kinds, all of one moment: the test's transaction's
    return operator


def lines(entries: list[Entry]) -> list[str]:
    return [f"{sentence(entry)} {entry.kind.slug}" for entry in entries]


def everything(user: User) -> list[str]:
    return lines(list(read_all(trail_scope(user), Asked())))


def test_pages_together_hold_each_row_once_in_order(read: Read, operator: User) -> None:
    found, place = [], None
    while True:
        page = read(operator, size=3, after=place)
        found += page.entries
        if page.older is None:
            break
        place = page.older
    assert lines(found) == everything(operator)
    assert len(set(lines(found))) == len(found) > 12


def test_the_way_back_shows_the_same_pages(read: Read, operator: User) -> None:
    first = read(operator, size=3)
    second = read(operator, size=3, after=first.older)
    third = read(operator, size=3, after=second.older)
    assert lines(read(operator, size=3, before=third.newer).entries) == lines(second.entries)
    back = read(operator, size=3, before=second.newer)
    assert lines(back.entries) == lines(first.entries)
    assert (first.newer, back.newer) == (None, None)


def test_a_row_added_meanwhile_moves_no_page(read: Read, operator: User) -> None:
    first = read(operator, size=3)
    second = lines(read(operator, size=3, after=first.older).entries)
    make_tenant()
    assert lines(read(operator, size=3, after=first.older).entries) == second


def test_a_range_leaves_older_rows_out(read: Read, operator: User) -> None:
    now = datetime.now(UTC)
    assert read(operator, since=now - timedelta(hours=1)).entries
    assert read(operator, since=now + timedelta(hours=1)).entries == []


def test_rows_of_one_actor_are_found_by_name(read: Read, operator: User) -> None:
    mara = make_user("mara")
    with acting(mara):
        Tenant.objects.update(name="Mara's")
    assert {entry.actor for entry in read(operator, who="mara").entries} == {"mara"}
    assert len(read(operator, who="mara").entries) == Tenant.objects.count()
    assert read(operator, who="mar").entries == []


def test_rows_of_one_tenant_are_found(read: Read, operator: User) -> None:
    key, _ = make_key(make_tenant("main"))
    found = read(operator, tenant=Tenant.objects.get(slug="main")).entries
    assert {entry.kind.slug for entry in found} == {"tenant", "key", "key-tenant"}
    assert all("main" in entry.name or key.prefix in entry.name for entry in found)


def test_a_page_takes_a_query_a_kind_and_one_a_table_it_names(
    read: Read, operator: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for tenant in Tenant.objects.all():
        with acting(operator):
            Tenant.objects.filter(pk=tenant.pk).update(name="Again")
    with django_assert_max_num_queries(len(kinds()) + 9):  # and tenants, rows before, named tables
        read(operator)


def test_a_place_survives_the_address() -> None:
    place = Place(datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=UTC), "key-tenant", 17)
    assert Place.parse(str(place)) == place


@pytest.mark.parametrize(
    "text", ["", "x", "20261301000000000000.key.1", "20260314150926535897.key.9999999999", "\0", "٢" * 20]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Place.parse(text)


def test_the_audit_tables_have_the_indexes_that_reading_uses() -> None:
    names = {index.name for index in TenantEvent._meta.indexes}
    assert names == {f"tenant_trail{what}" for what in ("", "_actor", "_action", "_before")}
