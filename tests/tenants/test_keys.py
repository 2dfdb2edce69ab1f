from __future__ import annotations

import hashlib
import hmac
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.errors import Forbidden, InvalidKey, Unauthenticated
from guardops.tenants.models import ApiKey, ApiKeyEvent
from tests.factories import NOW, make_key, make_organisation, make_tenant, make_user

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _forget() -> None:
    keys.forget()


def refusal(header: str | None, now: Any = NOW) -> str:
    with pytest.raises(Unauthenticated) as caught:
        keys.authenticate(header, now)
    return caught.value.code


def test_a_key_is_stored_as_a_digest_alone() -> None:
    key, plain = make_key(make_tenant())
    assert re.fullmatch(r"go_[0-9a-f]{12}_[0-9a-f]{64}", plain)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(k)::text, digest FROM tenants_apikey k WHERE id = %s", [key.pk])
        row, digest = cursor.fetchone()
    assert plain.rpartition("_")[2] not in row
    assert bytes(digest) == hashlib.sha256(plain.encode()).digest()


def test_a_good_key_says_who_it_is_and_what_it_may() -> None:
    organisation = make_organisation()
    one, two = make_tenant("one", organisation=organisation), make_tenant("two", organisation=organisation)
    key, plain = make_key(two, one, scopes=[Scope.BUDGETS])
    holder = keys.authenticate(f"Bearer {plain}", NOW)
    assert (holder.key_id, holder.organisation_id) == (key.pk, organisation.pk)
    assert holder.tenants == {"one": one.pk, "two": two.pk}
    assert holder.scopes == {"budgets"}


def test_the_scheme_may_be_written_in_any_case() -> None:
    _, plain = make_key(make_tenant())
    assert keys.authenticate(f"bearer {plain}", NOW)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer go_",
        "Basic dTpw",
        "Bearer go_0123456789ab_short",
        "Bearer " + "x" * 100_000,
        "Bearer go_" + "٣" * 12 + "_" + "a" * 64,
        "Bearer go_\0" + "a" * 11 + "_" + "a" * 64,
    ],
)
def test_what_is_no_key_is_refused_without_a_query(
    header: str | None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert refusal(header) == "unauthenticated"


def test_a_wrong_secret_or_an_unknown_prefix_is_refused_alike() -> None:
    _, plain = make_key(make_tenant())
    wrong_secret = plain[:-1] + ("0" if plain[-1] != "0" else "1")
    unknown = "go_" + "0" * 12 + "_" + "0" * 64
    with pytest.raises(Unauthenticated) as first:
        keys.authenticate(f"Bearer {wrong_secret}", NOW)
    with pytest.raises(Unauthenticated) as second:
        keys.authenticate(f"Bearer {unknown}", NOW)
    assert (first.value.code, first.value.message) == (second.value.code, second.value.message)


def test_every_look_up_compares_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plain = make_key(make_tenant())
    compared = []

    def compare(stored: bytes, given: bytes) -> bool:
        compared.append((len(stored), len(given)))
        return hmac.compare_digest(stored, given)

    monkeypatch.setattr(
        "guardops.tenants.keys.hmac", type("Spy", (), {"compare_digest": staticmethod(compare)})
    )
    keys.authenticate(f"Bearer {plain}", NOW)
    refusal("Bearer go_" + "0" * 12 + "_" + "0" * 64)
    assert compared == [(32, 32), (32, 32)]


def test_a_revoked_key_is_refused_after_five_seconds_at_the_latest() -> None:
    key, plain = make_key(make_tenant())
    keys.authenticate(f"Bearer {plain}", NOW)
    keys.revoke_key(key, actor=SYSTEM, now=NOW)
    assert keys.authenticate(f"Bearer {plain}", NOW + timedelta(seconds=4.9))
    assert refusal(f"Bearer {plain}", NOW + timedelta(seconds=5)) == "key_revoked"


def test_a_remembered_key_costs_no_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    _, plain = make_key(make_tenant())
    with django_assert_num_queries(1):
        keys.authenticate(f"Bearer {plain}", NOW)
        keys.authenticate(f"Bearer {plain}", NOW + SECOND)


def test_a_clock_that_is_set_back_prolongs_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    _, plain = make_key(make_tenant())
    keys.authenticate(f"Bearer {plain}", NOW)
    with django_assert_num_queries(1):
        keys.authenticate(f"Bearer {plain}", NOW - timedelta(hours=1))


def test_a_refusal_is_remembered_for_a_moment(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    unknown = "Bearer go_" + "0" * 12 + "_" + "0" * 64
    with django_assert_num_queries(1):
        refusal(unknown)
        refusal(unknown, NOW + SECOND)
    with django_assert_num_queries(1):
        refusal(unknown, NOW + timedelta(seconds=5))


def test_guesses_push_out_no_good_key(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plain = make_key(make_tenant())
    keys.authenticate(f"Bearer {plain}", NOW)
    monkeypatch.setattr(keys._refusals, "_size", 3)
    for guess in range(10):
        refusal(f"Bearer go_{guess:012x}_{guess:064x}")
    assert len(keys._refusals) == 3
    with CaptureQueriesContext(connection) as queries:
        keys.authenticate(f"Bearer {plain}", NOW)
    assert len(queries) == 0


def test_an_expired_key_is_refused_even_while_remembered() -> None:
    _, plain = make_key(make_tenant(), expires_at=NOW + SECOND)
    assert keys.authenticate(f"Bearer {plain}", NOW)
    assert refusal(f"Bearer {plain}", NOW + SECOND) == "key_expired"
    keys.forget()
    assert refusal(f"Bearer {plain}", NOW + SECOND) == "key_expired"


def test_a_scope_it_lacks_is_forbidden() -> None:
    _, plain = make_key(make_tenant(), scopes=[Scope.BUNDLE_READ])
    holder = keys.authenticate(f"Bearer {plain}", NOW)
    holder.require(Scope.BUNDLE_READ)
    with pytest.raises(Forbidden) as caught:
        holder.require(Scope.EVENTS_WRITE)
    assert caught.value.code == "missing_scope"


def test_a_tenant_is_named_or_the_only_one() -> None:
    tenant = make_tenant()
    holder = keys.authenticate(f"Bearer {make_key(tenant)[1]}", NOW)
    assert holder.tenant_id(None) == holder.tenant_id(tenant.slug) == tenant.pk


def test_a_tenant_that_exists_elsewhere_is_refused_like_one_that_does_not() -> None:
    elsewhere = make_tenant()
    holder = keys.authenticate(f"Bearer {make_key(make_tenant())[1]}", NOW)
    refusals = set()
    for slug in (elsewhere.slug, "no-such-tenant"):
        with pytest.raises(Forbidden) as caught:
            holder.tenant_id(slug)
        refusals.add((caught.value.code, caught.value.message))
    assert {code for code, _ in refusals} == {"unknown_tenant"}
    assert len(refusals) == 1


def test_a_key_of_several_tenants_must_name_one() -> None:
    organisation = make_organisation()
    tenants = [make_tenant(organisation=organisation) for _ in range(2)]
    holder = keys.authenticate(f"Bearer {make_key(*tenants)[1]}", NOW)
    with pytest.raises(Forbidden) as caught:
        holder.tenant_id(None)
    assert caught.value.code == "unknown_tenant"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"tenants": []},
        {"scopes": []},
        {"scopes": ["events:write", "root"]},
        {"expires_at": NOW},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(wrong: dict[str, Any]) -> None:
    tenant = make_tenant()
    good = {
        "organisation": tenant.organisation,
        "tenants": [tenant],
        "name": "k",
        "scopes": ["events:write"],
        "actor": SYSTEM,
        "now": NOW,
    }
    with pytest.raises(InvalidKey):
        keys.create_key(**(good | wrong))
    assert not ApiKey.objects.exists()


def test_a_key_can_not_cover_another_organisations_tenant() -> None:
    with pytest.raises(InvalidKey):
        make_key(make_tenant(), make_tenant())


def test_making_and_revoking_name_the_actor() -> None:
    user = make_user()
    key, _ = make_key(make_tenant(), actor=user)
    keys.revoke_key(key, actor=user, now=NOW)
    events = ApiKeyEvent.objects.filter(pgh_obj=key).order_by("pgh_id")
    assert [(event.pgh_label, event.pgh_context["actor"]["id"]) for event in events] == [
        ("insert", user.pk),
        ("update", user.pk),
    ]
    assert key.created_by == user


def test_a_key_is_revoked_once() -> None:
    key, _ = make_key(make_tenant())
    keys.revoke_key(key, actor=SYSTEM, now=NOW)
    with pytest.raises(InvalidKey) as caught:
        keys.revoke_key(key, actor=SYSTEM, now=NOW + SECOND)
    assert caught.value.code == "already_revoked"
    assert ApiKey.objects.get(pk=key.pk).revoked_at == NOW


def test_a_use_is_written_at_most_once_a_minute_and_not_audited() -> None:
    key, plain = make_key(make_tenant())
    trail = ApiKeyEvent.objects.count()
    written = []
    for seconds in (0, 30, 60):
        now = NOW + timedelta(seconds=seconds)
        keys.authenticate(f"Bearer {plain}", now)
        written.append(keys.write_last_used(now))
    assert written == [1, 0, 1]
    assert ApiKey.objects.get(pk=key.pk).last_used_at == NOW + timedelta(seconds=60)
    assert ApiKeyEvent.objects.count() == trail


def test_a_refused_key_counts_as_unused() -> None:
    key, plain = make_key(make_tenant())
    keys.revoke_key(key, actor=SYSTEM, now=NOW)
    refusal(f"Bearer {plain}")
    assert keys.write_last_used(NOW) == 0
