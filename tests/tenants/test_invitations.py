from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction

from guardops.tenants import invitations
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidInvitation
from guardops.tenants.invitations import (
    LIFETIME,
    accept,
    accept_as_new,
    find_invitation,
    invite,
    revoke_invitation,
)
from guardops.tenants.models import Invitation, InvitationEvent, Membership, User
from guardops.tenants.people import change_role, remove_member, set_membership
from tests.factories import NOW, PASSWORD, make_invitation, make_member, make_tenant, make_user

from .conftest import Cast

pytestmark = pytest.mark.django_db


def refusal(token: str, user: User | None = None, *, now=NOW) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInvitation) as caught:
        accept(token, user=user or make_user(), now=now)
    return caught.value.code


def test_an_accepted_invitation_gives_its_role(cast: Cast) -> None:
    invitation, token = make_invitation(cast.tenant, Role.REVIEWER, by=cast.admin, now=NOW)
    accept(token, user=cast.nobody, now=NOW)
    held = cast.nobody.memberships.get()
    assert (held.organisation, held.tenant, held.role) == (cast.organisation, cast.tenant, Role.REVIEWER)
    invitation.refresh_from_db()
    assert (invitation.accepted_by, invitation.accepted_at) == (cast.nobody, NOW)


def test_an_invitation_to_the_organisation_gives_a_role_in_all_of_it(cast: Cast) -> None:
    _, token = make_invitation(cast.organisation, Role.VIEWER, by=cast.organisation_admin, now=NOW)
    accept(token, user=cast.nobody, now=NOW)
    assert cast.nobody.memberships.get().tenant is None


def test_a_link_works_once(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, now=NOW)
    accept(token, user=cast.nobody, now=NOW)
    assert refusal(token) == "accepted"


def test_a_link_works_for_seven_days(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, now=NOW)
    assert refusal(token, now=NOW + LIFETIME) == "expired"
    accept(token, user=cast.nobody, now=NOW + LIFETIME - timedelta(seconds=1))


def test_a_link_taken_back_works_no_more(cast: Cast) -> None:
    invitation, token = make_invitation(cast.tenant, now=NOW)
    revoke_invitation(invitation, actor=cast.admin, now=NOW)
    assert refusal(token) == "revoked"


@pytest.mark.parametrize("token", ["", "none", "a\0b", "\ud800", "x" * 10_000])
def test_a_token_of_none_is_unknown(cast: Cast, token: str) -> None:
    make_invitation(cast.tenant)
    assert refusal(token) == "unknown"


def test_what_is_accepted_can_not_be_taken_back(cast: Cast) -> None:
    invitation, token = make_invitation(cast.tenant, now=NOW)
    accept(token, user=cast.nobody, now=NOW)
    with pytest.raises(InvalidInvitation) as caught:
        revoke_invitation(invitation, actor=cast.admin, now=NOW)
    assert caught.value.code == "accepted"
    assert cast.nobody.memberships.exists()


def test_a_higher_role_that_somebody_has_there_stays(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, Role.VIEWER, now=NOW)
    accept(token, user=cast.reviewer, now=NOW)
    assert cast.reviewer.memberships.get().role == Role.REVIEWER


def test_a_lower_role_is_raised(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, Role.ADMIN, now=NOW)
    accept(token, user=cast.reviewer, now=NOW)
    assert cast.reviewer.memberships.get().role == Role.ADMIN


@pytest.mark.parametrize("who", ["viewer", "reviewer", "foreign_admin", "operator", "nobody"])
def test_who_is_no_admin_there_invites_nobody(cast: Cast, who: str) -> None:
    with pytest.raises(PermissionDenied):
        make_invitation(cast.tenant, by=getattr(cast, who))
    assert not Invitation.objects.exists()


def test_an_admin_of_one_tenant_does_not_invite_to_the_organisation(cast: Cast) -> None:
    for place in (cast.organisation, cast.sibling):
        with pytest.raises(PermissionDenied):
            make_invitation(place, by=cast.admin)


def test_a_removed_admin_does_not_come_back_through_a_link(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, Role.ADMIN, by=cast.admin, now=NOW)
    remove_member(cast.admin.memberships.get(), actor=cast.organisation_admin)
    assert refusal(token, cast.admin) == "revoked"
    assert not cast.admin.memberships.exists()


def test_a_lowered_admins_links_are_taken_back_and_others_stay(cast: Cast) -> None:
    make_invitation(cast.tenant, by=cast.admin, now=NOW)
    kept, _ = make_invitation(cast.tenant, by=cast.organisation_admin, now=NOW)
    change_role(cast.admin.memberships.get(), Role.VIEWER, actor=cast.organisation_admin)
    assert [one.pk for one in Invitation.objects.open(NOW)] == [kept.pk]


def test_a_link_of_an_account_that_was_closed_gives_nothing(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, by=cast.admin, now=NOW)
    User.objects.filter(pk=cast.admin.pk).update(is_active=False)
    assert refusal(token, cast.nobody) == "void"
    assert Invitation.objects.get().accepted_at is None


def test_a_new_person_gets_an_account_and_the_role(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, now=NOW)
    user = accept_as_new(token, username="kim", email="kim@example.com", password=PASSWORD, now=NOW)
    assert (user.email, user.is_operator) == ("kim@example.com", False)
    assert user.check_password(PASSWORD)
    assert user.memberships.get().tenant == cast.tenant


def test_a_dead_link_makes_no_person(cast: Cast) -> None:
    invitation, token = make_invitation(cast.tenant, now=NOW)
    revoke_invitation(invitation, actor=cast.admin, now=NOW)
    with pytest.raises(InvalidInvitation):
        accept_as_new(token, username="kim", email="", password=PASSWORD, now=NOW)
    assert not User.objects.filter(username="kim").exists()


def test_a_name_that_is_taken_leaves_the_link_open(cast: Cast) -> None:
    make_user("kim")
    _, token = make_invitation(cast.tenant, now=NOW)
    with pytest.raises(ValidationError):
        accept_as_new(token, username="kim", email="", password=PASSWORD, now=NOW)
    assert find_invitation(token, NOW).accepted_at is None


def test_an_invitation_is_audited_without_its_digest(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, by=cast.admin, now=NOW)
    accept(token, user=cast.nobody, now=NOW)
    rows = InvitationEvent.objects.order_by("pgh_id")
    assert [row.pgh_label for row in rows] == ["insert", "update"]
    assert [row.pgh_context["actor"]["id"] for row in rows] == [cast.admin.pk, cast.nobody.pk]
    assert "digest" not in {field.name for field in InvitationEvent._meta.get_fields()}


def test_the_token_is_kept_nowhere(cast: Cast) -> None:
    invitation, token = make_invitation(cast.tenant)
    assert len(token) >= 43
    assert token.encode() not in bytes(invitation.digest)


def test_open_invitations_are_bounded(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MAX_OPEN", 2)
    make_invitation(cast.tenant, now=NOW)
    make_invitation(cast.tenant, now=NOW)
    with pytest.raises(InvalidInvitation):
        make_invitation(cast.tenant, now=NOW)
    make_invitation(cast.tenant, now=NOW + LIFETIME)


def test_a_tenant_of_another_organisation_is_refused(cast: Cast) -> None:
    with pytest.raises(InvalidInvitation):
        invite(
            organisation=cast.organisation,
            tenant=cast.foreign,
            role=Role.VIEWER,
            invitee="kim",
            actor=cast.organisation_admin,
            now=NOW,
        )
    invitation, _ = make_invitation(cast.tenant)
    with pytest.raises(IntegrityError), transaction.atomic():
        Invitation.objects.filter(pk=invitation.pk).update(tenant=cast.foreign)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "owner"},
        {"digest": b"short"},
        {"expires_at": NOW - timedelta(days=9)},
        {"accepted_at": NOW, "revoked_at": NOW},
    ],
)
def test_an_invitation_that_makes_no_sense_is_refused(cast: Cast, wrong: dict[str, object]) -> None:
    invitation, _ = make_invitation(cast.tenant, now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        Invitation.objects.filter(pk=invitation.pk).update(**wrong)


def test_who_accepts_gets_no_role_but_the_invitations(cast: Cast) -> None:
    other = make_member(make_tenant(), Role.ADMIN)
    set_membership(user=other, organisation=cast.organisation, role=Role.VIEWER, actor=SYSTEM)
    _, token = make_invitation(cast.tenant, Role.REVIEWER, now=NOW)
    accept(token, user=other, now=NOW)
    held = Membership.objects.filter(user=other, organisation=cast.organisation)
    assert {(one.tenant, one.role) for one in held} == {(None, Role.VIEWER), (cast.tenant, Role.REVIEWER)}
