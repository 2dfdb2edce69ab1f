from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from structlog.contextvars import bound_contextvars

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.choices import Role
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import Membership, Tenant, User
from guardops.tenants.people import set_membership
from guardops.tenants.trail.entries import Change
from tests.factories import NOW, PASSWORD, make_key, make_operator, make_tenant, make_user

from .conftest import Read, sentence

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> User:
    return make_operator("root")


def test_a_change_of_role_is_told_in_words(read: Read, operator: User) -> None:
    tenant, ana = make_tenant("main"), make_user("ana")
    for role in (Role.VIEWER, Role.ADMIN):
        set_membership(user=ana, organisation=tenant.organisation, tenant=tenant, role=role, actor=operator)
    told = [sentence(entry) for entry in read(operator, kind="member").entries]
    assert told == [
        "root changed the role of the member ana in main from viewer to admin",
        "root added the member ana in main",
    ]


def test_a_removal_tells_what_was_there(read: Read, operator: User) -> None:
    tenant, ana = make_tenant("main"), make_user("ana")
    membership = set_membership(
        user=ana, organisation=tenant.organisation, tenant=tenant, role=Role.ADMIN, actor=SYSTEM
    )
    with acting(operator):
        Membership.objects.filter(pk=membership.pk).delete()
    [gone, _] = read(operator, kind="member").entries
    assert sentence(gone) == "root removed the member ana in main"
    assert Change("role", "admin", "–") in gone.changes


def test_a_revoked_key_is_called_so(read: Read, operator: User) -> None:
    key, _ = make_key(make_tenant(), name="workers")
    revoke_key(key, actor=operator, now=NOW)
    [revoked, added] = read(operator, kind="key").entries
    assert revoked.verb == "revoked"
    assert revoked.name == f"workers (go_{key.prefix}_…)"
    assert Change("scopes", "–", "bundle:read, events:write") in added.changes


def test_several_changed_fields_are_counted_and_listed(read: Read, operator: User) -> None:
    tenant = make_tenant("main")
    with acting(operator):
        Tenant.objects.filter(pk=tenant.pk).update(name="New", slug="new")
    entry = read(operator, kind="tenant", action="update").entries[0]
    assert sentence(entry) == "root changed 2 fields of the tenant new"
    assert set(entry.changes) == {Change("slug", "main", "new"), Change("name", "Main", "New")}


def test_a_login_and_a_new_password_are_told_without_values(
    read: Read, operator: User, client: Client
) -> None:
    ana = make_user("ana")
    client.post("/login/", {"username": "ana", "password": PASSWORD})
    with acting(ana):
        ana.set_password("another long password")
        ana.save(update_fields=["password"])
    found = read(operator, kind="person", who="ana").entries
    assert [sentence(entry) for entry in found] == [
        "ana set a password for the person ana",
        "ana signed in as the person ana",
    ]
    assert [entry.changes for entry in found] == [[], []]


def test_a_change_past_guardops_has_no_actor(read: Read, operator: User) -> None:
    tenant = make_tenant("main")
    Tenant.objects.filter(pk=tenant.pk).update(name="Whoever")
    entry = read(operator, kind="tenant", action="update").entries[0]
    assert (entry.actor, entry.request_id) == ("", "")
    assert sentence(entry) == "somebody changed the name of the tenant main from Main to Whoever"


def test_an_entry_carries_its_request(read: Read, operator: User) -> None:
    tenant = make_tenant()
    with bound_contextvars(request_id="req-7"), acting(operator):
        Tenant.objects.filter(pk=tenant.pk).update(name="Asked")
    assert read(operator, who="root").entries[0].request_id == "req-7"


def test_what_was_removed_since_keeps_its_number(read: Read, operator: User) -> None:
    ana, tenant = make_user("ana"), make_tenant("main")
    set_membership(user=ana, organisation=tenant.organisation, tenant=tenant, role=Role.ADMIN, actor=SYSTEM)
    number = ana.pk
    ana.delete()
    names = {entry.name for entry in read(operator, kind="member").entries}
    assert names == {f"no. {number}, since removed in main"}


def test_times_are_told_in_the_readers_zone(read: Read, operator: User) -> None:
    make_key(make_tenant(), expires_at=NOW + timedelta(days=1))
    [entry] = read(operator, kind="key").entries
    assert Change("expiry", "–", "2026-03-15 15:09:26 UTC") in entry.changes
