from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from structlog.contextvars import bound_contextvars

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.choices import Role
from guardops.tenants.models import (
    ApiKeyEvent,
    ApiKeyTenantEvent,
    InvitationEvent,
    Membership,
    MembershipEvent,
    OrganisationEvent,
    Tenant,
    TenantEvent,
    User,
    UserEvent,
)
from guardops.tenants.people import set_membership
from tests.factories import make_invitation, make_key, make_tenant, make_user

pytestmark = pytest.mark.django_db

AUDITED = [
    ApiKeyEvent,
    ApiKeyTenantEvent,
    InvitationEvent,
    MembershipEvent,
    OrganisationEvent,
    TenantEvent,
    UserEvent,
]


def last_tenant_event() -> TenantEvent:
    return TenantEvent.objects.latest("pgh_id")


def test_a_saved_change_leaves_a_row_with_its_actor() -> None:
    tenant, user = make_tenant(), make_user("mara")
    with acting(user):
        tenant.name = "Renamed"
        tenant.save()
    row = last_tenant_event()
    assert (row.pgh_label, row.pgh_obj_id, row.name) == ("update", tenant.pk, "Renamed")
    assert row.pgh_context["actor"] == {"kind": "user", "id": user.pk, "name": "mara"}


def test_a_bulk_change_leaves_a_row_for_each() -> None:
    tenants = [make_tenant(), make_tenant()]
    with acting(SYSTEM):
        Tenant.objects.filter(pk__in=[tenant.pk for tenant in tenants]).update(name="Both")
    rows = TenantEvent.objects.filter(name="Both")
    assert {row.pgh_obj_id for row in rows} == {tenant.pk for tenant in tenants}
    assert all(row.pgh_context["actor"] == {"kind": "system", "name": "system"} for row in rows)


def test_raw_sql_leaves_a_row_with_its_actor() -> None:
    tenant, user = make_tenant(), make_user()
    with acting(user), connection.cursor() as cursor:
        cursor.execute("UPDATE tenants_tenant SET name = 'Raw' WHERE id = %s", [tenant.pk])
    row = last_tenant_event()
    assert (row.name, row.pgh_context["actor"]["id"]) == ("Raw", user.pk)


def test_copy_keeps_the_actor() -> None:
    organisation, user = make_tenant().organisation, make_user()
    with acting(user), connection.cursor() as cursor:
        statement = "COPY tenants_tenant (organisation_id, slug, name, bundle_revision) FROM STDIN"
        with cursor.copy(statement) as copy:
            copy.write_row((organisation.pk, "copied", "Copied", 0))
    row = last_tenant_event()
    assert (row.pgh_label, row.slug, row.pgh_context["actor"]["id"]) == ("insert", "copied", user.pk)


def test_a_change_outside_acting_leaves_a_row_without_an_actor() -> None:
    tenant = make_tenant()
    Tenant.objects.filter(pk=tenant.pk).update(name="Whoever")
    row = last_tenant_event()
    assert (row.name, row.pgh_context) == ("Whoever", None)


def test_a_delete_leaves_a_row_with_what_was_deleted() -> None:
    tenant, user = make_tenant(), make_user()
    membership = set_membership(
        user=user, organisation=tenant.organisation, tenant=tenant, role=Role.ADMIN, actor=SYSTEM
    )
    with acting(user):
        Membership.objects.filter(pk=membership.pk).delete()
    row = MembershipEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.user_id, row.role) == ("delete", user.pk, Role.ADMIN)


def test_a_rolled_back_change_leaves_no_row() -> None:
    tenant = make_tenant()
    before = TenantEvent.objects.count()

    def rename() -> None:
        with acting(SYSTEM):
            Tenant.objects.filter(pk=tenant.pk).update(name="Never")
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        rename()
    assert TenantEvent.objects.count() == before


def test_an_inner_actor_counts_until_it_ends() -> None:
    tenant, user = make_tenant(), make_user("inner")
    with acting(SYSTEM):
        with acting(user):
            Tenant.objects.filter(pk=tenant.pk).update(name="Inner")
        Tenant.objects.filter(pk=tenant.pk).update(name="Outer")
    names = dict(TenantEvent.objects.filter(pgh_obj=tenant).values_list("name", "pgh_context__actor__name"))
    assert (names["Inner"], names["Outer"]) == ("inner", "system")


def test_a_row_names_the_request_and_what_else_is_given() -> None:
    tenant = make_tenant()
    with bound_contextvars(request_id="req-7"), acting(SYSTEM, change="c1"):
        Tenant.objects.filter(pk=tenant.pk).update(name="Asked")
    context = last_tenant_event().pgh_context
    assert (context["request_id"], context["change"]) == ("req-7", "c1")


def test_somebody_unsaved_can_not_act() -> None:
    with pytest.raises(ValueError, match="logged in"), acting(User(username="ghost")):
        pass


def test_a_new_password_is_noted_without_its_hash() -> None:
    user = make_user()
    with acting(user):
        user.set_password("another long password")
        user.save(update_fields=["password"])
    row = UserEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.username) == ("password", user.username)
    assert "password" not in {field.name for field in UserEvent._meta.get_fields()}


def test_a_key_leaves_no_digest_in_the_trail() -> None:
    key, _ = make_key(make_tenant())
    row = ApiKeyEvent.objects.get(pgh_obj=key)
    assert row.prefix == key.prefix
    assert "digest" not in {field.name for field in ApiKeyEvent._meta.get_fields()}
    assert ApiKeyTenantEvent.objects.get(api_key=key).pgh_label == "insert"


def test_a_new_bundle_revision_leaves_no_row() -> None:
    tenant = make_tenant()
    before = TenantEvent.objects.count()
    Tenant.objects.filter(pk=tenant.pk).update(bundle_revision=1)
    assert TenantEvent.objects.count() == before


@pytest.mark.parametrize("model", AUDITED)
@pytest.mark.parametrize("statement", ["TRUNCATE {}", "DELETE FROM {}", "UPDATE {} SET pgh_label = 'forged'"])
def test_the_trail_can_not_be_changed(model: type[TenantEvent], statement: str) -> None:
    make_key(make_tenant())
    make_invitation(make_tenant())
    set_membership(user=make_user(), organisation=make_tenant().organisation, role=Role.VIEWER, actor=SYSTEM)
    rows = model.objects.count()
    assert rows
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(model._meta.db_table))
    assert model.objects.count() == rows
    assert not model.objects.filter(pgh_label="forged").exists()


def test_no_table_of_this_app_is_left_out_of_the_trail() -> None:
    tables = {table for table in connection.introspection.table_names() if table.startswith("tenants_")}
    trails = {model._meta.db_table for model in AUDITED}
    plain = {
        # Django's permissions, which nothing here asks.
        "tenants_user_groups",
        "tenants_user_user_permissions",
        # Counts of tries by unnamed people.
        "tenants_throttle",
        # What people keep for themselves; it changes nothing of a tenant.
        "tenants_savedview",
    }
    assert {table for table in tables - trails - plain if f"{table}event" not in trails} == set()
