from __future__ import annotations

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from guardops.tenants.invitations import revoke_invitation
from guardops.tenants.models import Invitation, User
from tests.factories import NOW, make_invitation, make_member, make_user

from .conftest import Cast

pytestmark = pytest.mark.django_db

URL = "/settings/members/"


def page(client: Client, user: User) -> str:
    client.force_login(user)
    return client.get(URL).content.decode()


def test_an_admin_of_the_organisation_sees_everybody_in_it(client: Client, cast: Cast) -> None:
    elsewhere = make_member(cast.sibling, Role.VIEWER, username="sib")
    shown = page(client, cast.organisation_admin)
    people = [cast.viewer, cast.reviewer, cast.admin, cast.organisation_admin, elsewhere]
    assert all(f"<bdi>{person.username}</bdi>" in shown for person in people)
    assert f"<bdi>{cast.foreign_admin.username}</bdi>" not in shown
    assert f"<bdi>{cast.nobody.username}</bdi>" not in shown


def test_an_admin_of_a_tenant_sees_it_and_the_organisations_own(client: Client, cast: Cast) -> None:
    elsewhere = make_member(cast.sibling, Role.VIEWER, username="sib")
    shown = page(client, cast.admin)
    assert f"<bdi>{cast.organisation_admin.username}</bdi>" in shown
    assert f"<bdi>{cast.viewer.username}</bdi>" in shown
    assert f"<bdi>{elsewhere.username}</bdi>" not in shown


def test_only_roles_that_may_be_changed_have_a_link(client: Client, cast: Cast) -> None:
    shown = page(client, cast.admin)
    assert f'href="/settings/members/{cast.viewer.memberships.get().pk}/"' in shown
    assert f'href="/settings/members/{cast.organisation_admin.memberships.get().pk}/"' not in shown


def test_the_page_asks_as_often_for_many_members_as_for_few(
    client: Client, cast: Cast, django_assert_max_num_queries
) -> None:  # type: ignore[no-untyped-def]
    for number in range(8):
        make_member(cast.tenant, username=f"many-{number}")
        make_invitation(cast.tenant, by=cast.admin)
    client.force_login(cast.admin)
    client.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_max_num_queries(14):
        client.get(URL)


def test_more_members_than_fit_are_on_the_next_page(
    client: Client, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guardops.tenants.pages.members.MEMBERS_PER_PAGE", 2)
    client.force_login(cast.organisation_admin)
    first, second = (client.get(URL, {"page": number}).content.decode() for number in (1, 2))
    assert "Page 1 of 2" in first
    for person in (cast.viewer, cast.reviewer, cast.admin):
        assert [f"<bdi>{person.username}</bdi>" in shown for shown in (first, second)].count(True) == 1


def test_invitations_are_shown_with_their_state(client: Client, cast: Cast) -> None:
    make_invitation(cast.tenant, invitee="open-guest", by=cast.admin)
    back, _ = make_invitation(cast.tenant, invitee="back-guest", by=cast.admin)
    revoke_invitation(back, actor=cast.admin, now=NOW)
    make_invitation(cast.tenant, invitee="late-guest", by=cast.admin, now=NOW)
    make_invitation(cast.organisation, invitee="other-guest", by=cast.organisation_admin)
    shown = page(client, cast.admin)
    for guest, state in (("open", "Open"), ("back", "Taken back"), ("late", "Expired")):
        row = shown[shown.index(f"<bdi>{guest}-guest</bdi>") :].partition("</tr>")[0]
        assert state in row
    assert "other-guest" not in shown


def test_open_invitations_come_before_newer_ones_that_ended(client: Client, cast: Cast) -> None:
    make_invitation(cast.tenant, invitee="open-guest", by=cast.admin)
    back, _ = make_invitation(cast.tenant, invitee="back-guest", by=cast.admin)
    revoke_invitation(back, actor=cast.admin, now=NOW)
    shown = page(client, cast.admin)
    assert shown.index("open-guest") < shown.index("back-guest")


def test_nobody_invited_yet_leads_to_inviting(client: Client, cast: Cast) -> None:
    assert "Nobody invited yet" in page(client, cast.admin)


def test_a_role_is_changed_on_its_page(client: Client, cast: Cast) -> None:
    membership = cast.viewer.memberships.get()
    client.force_login(cast.admin)
    assert client.get(f"{URL}{membership.pk}/").context["form"]["role"].value() == Role.VIEWER
    answer = client.post(f"{URL}{membership.pk}/", {"role": "admin"}, follow=True)
    assert answer.redirect_chain == [(URL, 302)]
    assert cast.viewer.memberships.get().role == Role.ADMIN


@pytest.mark.parametrize("role", ["", "owner", "a\0b", "ADMIN"])
def test_no_role_changes_nothing_and_is_said(client: Client, cast: Cast, role: str) -> None:
    membership = cast.viewer.memberships.get()
    client.force_login(cast.admin)
    answer = client.post(f"{URL}{membership.pk}/", {"role": role})
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert cast.viewer.memberships.get().role == Role.VIEWER


def test_the_last_admin_is_told_why_they_stay(client: Client, cast: Cast) -> None:
    membership = cast.organisation_admin.memberships.get()
    client.force_login(cast.organisation_admin)
    lowered = client.post(f"{URL}{membership.pk}/", {"role": "viewer"})
    removed = client.post(f"{URL}{membership.pk}/remove/")
    for answer in (lowered, removed):
        assert "last admin of the organisation" in answer.content.decode()
    assert cast.organisation_admin.memberships.get().role == Role.ADMIN


def test_who_removes_themselves_lands_where_they_may_be(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    answer = client.post(f"{URL}{cast.admin.memberships.get().pk}/remove/")
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_a_member_is_asked_about_before_being_removed(client: Client, cast: Cast) -> None:
    membership = cast.viewer.memberships.get()
    client.force_login(cast.admin)
    assert client.get(f"{URL}{membership.pk}/remove/").status_code == 200
    assert cast.viewer.memberships.exists()
    client.post(f"{URL}{membership.pk}/remove/")
    assert not cast.viewer.memberships.exists()


@pytest.mark.parametrize("place", ["organisation_admin", "sibling"])
def test_a_role_beyond_ones_own_tenant_is_out_of_reach(client: Client, cast: Cast, place: str) -> None:
    person = make_member(cast.sibling) if place == "sibling" else cast.organisation_admin
    status = 404 if place == "sibling" else 403  # a tenant that they don't see, an organisation that they do
    client.force_login(cast.admin)
    address = f"{URL}{person.memberships.get().pk}/"
    assert client.get(address).status_code == status
    assert client.post(address, {"role": "viewer"}).status_code == status
    assert client.post(f"{address}remove/").status_code == status


@pytest.mark.parametrize("number", ["0", str(2**63), "9" * 400])
def test_a_number_of_nobody_is_not_found(client: Client, cast: Cast, number: str) -> None:
    client.force_login(cast.organisation_admin)
    for address in (f"{URL}{number}/", f"{URL}{number}/remove/", f"/settings/invitations/{number}/revoke/"):
        assert client.get(address).status_code == 404


def test_an_invitation_is_taken_back_on_its_page(client: Client, cast: Cast) -> None:
    invitation, _ = make_invitation(cast.tenant, by=cast.admin)
    address = f"/settings/invitations/{invitation.pk}/revoke/"
    client.force_login(cast.admin)
    assert "kim" in client.get(address).content.decode()
    assert Invitation.objects.filter(revoked_at=None).exists()
    assert "is taken back" in client.post(address, follow=True).content.decode()
    assert not Invitation.objects.filter(revoked_at=None).exists()
    assert "was taken back" in client.post(address, follow=True).content.decode()


def test_a_post_from_elsewhere_removes_nobody(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.admin)
    assert client.post(f"{URL}{cast.viewer.memberships.get().pk}/remove/").status_code == 403
    assert cast.viewer.memberships.exists()


def test_names_with_unseen_characters_are_written_out(client: Client, cast: Cast) -> None:
    User.objects.filter(pk=cast.viewer.pk).update(first_name="exe\u202egpj", email="\u200b@example.com")
    shown = page(client, cast.admin)
    assert "\u202e" not in shown
    assert "\u200b" not in shown
    assert "⟦U+202E⟧" in shown


def test_a_person_without_a_name_has_a_dash(client: Client, cast: Cast) -> None:
    make_user()
    assert "<bdi>–</bdi>" in page(client, cast.admin)
