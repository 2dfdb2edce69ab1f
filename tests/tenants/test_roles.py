"""Who changes whose role, and that somebody is left to do so."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidMembership
from guardops.tenants.models import Membership, MembershipEvent, User
from guardops.tenants.people import change_role, remove_member, set_membership
from tests.factories import make_member

from .conftest import Cast

pytestmark = pytest.mark.django_db


def test_an_admin_changes_a_role_and_the_trail_names_them(cast: Cast) -> None:
    change_role(cast.viewer.memberships.get(), Role.REVIEWER, actor=cast.admin)
    assert cast.viewer.memberships.get().role == Role.REVIEWER
    row = MembershipEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("update", cast.admin.pk)


def test_an_admin_removes_somebody_and_the_trail_names_them(cast: Cast) -> None:
    remove_member(cast.viewer.memberships.get(), actor=cast.admin)
    assert not cast.viewer.memberships.exists()
    row = MembershipEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("delete", cast.admin.pk)


@pytest.mark.parametrize("who", ["viewer", "reviewer", "foreign_admin", "operator", "nobody"])
def test_who_is_no_admin_there_changes_nothing(cast: Cast, who: str) -> None:
    membership = cast.reviewer.memberships.get()
    for act in (
        lambda: change_role(membership, Role.ADMIN, actor=getattr(cast, who)),
        lambda: remove_member(membership, actor=getattr(cast, who)),
    ):
        with pytest.raises(PermissionDenied):
            act()
    assert cast.reviewer.memberships.get().role == Role.REVIEWER


def test_nobody_raises_themselves(cast: Cast) -> None:
    set_membership(user=cast.admin, organisation=cast.organisation, role=Role.VIEWER, actor=SYSTEM)
    with pytest.raises(PermissionDenied):
        change_role(cast.admin.memberships.get(tenant=None), Role.ADMIN, actor=cast.admin)


def test_an_admin_of_one_tenant_leaves_the_organisations_members_alone(cast: Cast) -> None:
    membership = cast.organisation_admin.memberships.get()
    with pytest.raises(PermissionDenied):
        change_role(membership, Role.VIEWER, actor=cast.admin)
    with pytest.raises(PermissionDenied):
        remove_member(membership, actor=cast.admin)


def test_an_admin_of_the_organisation_changes_roles_in_each_tenant(cast: Cast) -> None:
    change_role(cast.admin.memberships.get(), Role.VIEWER, actor=cast.organisation_admin)
    assert cast.admin.memberships.get().role == Role.VIEWER


def test_the_last_admin_of_the_organisation_stays(cast: Cast) -> None:
    last = cast.organisation_admin
    for act in (
        lambda: remove_member(last.memberships.get(), actor=last),
        lambda: change_role(last.memberships.get(), Role.REVIEWER, actor=last),
        lambda: set_membership(user=last, organisation=cast.organisation, role=Role.VIEWER, actor=SYSTEM),
    ):
        with pytest.raises(InvalidMembership) as caught:
            act()
        assert caught.value.code == "last_admin"
    assert last.memberships.get().role == Role.ADMIN


def test_an_admin_whose_account_is_closed_is_no_other_admin(cast: Cast) -> None:
    closed = make_member(cast.organisation, Role.ADMIN)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    with pytest.raises(InvalidMembership):
        remove_member(cast.organisation_admin.memberships.get(), actor=cast.organisation_admin)


def test_one_of_two_admins_may_go(cast: Cast) -> None:
    make_member(cast.organisation, Role.ADMIN)
    remove_member(cast.organisation_admin.memberships.get(), actor=cast.organisation_admin)
    assert not cast.organisation_admin.memberships.exists()


def test_the_last_admin_of_a_tenant_may_go(cast: Cast) -> None:
    remove_member(cast.admin.memberships.get(), actor=cast.admin)
    assert not cast.admin.memberships.exists()


def test_what_is_gone_is_told(cast: Cast) -> None:
    membership = cast.viewer.memberships.get()
    Membership.objects.filter(pk=membership.pk).delete()
    with pytest.raises(InvalidMembership) as caught:
        change_role(membership, Role.ADMIN, actor=cast.admin)
    assert caught.value.code == "gone"


def test_a_removed_persons_open_session_sees_nothing_from_the_next_page_on(
    client: Client, cast: Cast
) -> None:
    client.force_login(cast.admin)
    assert client.get("/settings/members/").status_code == 200
    remove_member(cast.admin.memberships.get(), actor=cast.organisation_admin)
    assert client.get("/settings/members/").status_code == 403
    assert client.get(f"/settings/tenants/{cast.tenant.slug}/").status_code == 404
    assert cast.tenant.name not in client.get("/").content.decode()


def test_a_lowered_persons_open_session_loses_the_right(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    change_role(cast.admin.memberships.get(), Role.VIEWER, actor=cast.organisation_admin)
    assert client.get(f"/settings/tenants/{cast.tenant.slug}/").status_code == 403
