from __future__ import annotations

import pytest
from django.test import Client

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Invitation
from guardops.tenants.people import set_membership
from tests.factories import make_organisation

from .conftest import Cast

pytestmark = pytest.mark.django_db

URL = "/settings/members/invite/"
FORM = {"invitee": "kim", "place": "tenant:research", "role": "reviewer"}


def test_the_link_is_shown_once(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    answer = client.post(URL, FORM)
    link = answer.context["link"]
    assert link in answer.content.decode()
    assert link.startswith("http://testserver/invitation/")
    assert "no-store" in answer["Cache-Control"]
    assert link not in client.get("/settings/members/").content.decode()
    invitation = Invitation.objects.get()
    assert (invitation.tenant, invitation.role, invitation.created_by) == (
        cast.tenant,
        Role.REVIEWER,
        cast.admin,
    )
    assert client.get(link).status_code == 200


def test_without_mail_the_page_says_to_pass_the_link_on(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    assert "this installation sends no mail" in client.get(URL).content.decode()
    assert "Sent to" not in client.post(URL, FORM | {"invitee": "kim@example.com"}).content.decode()


def test_an_admin_of_a_tenant_is_offered_it_alone(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    form = client.get(URL).context["form"]
    assert [value for value, _ in form.fields["place"].choices] == ["tenant:research"]


def test_an_admin_of_the_organisation_is_offered_all_of_it(client: Client, cast: Cast) -> None:
    client.force_login(cast.organisation_admin)
    form = client.get(URL).context["form"]
    offered = [value for value, _ in form.fields["place"].choices]
    assert offered == ["organisation:acme", "tenant:research", "tenant:support"]
    client.post(URL, FORM | {"place": "organisation:acme"})
    assert Invitation.objects.get().tenant is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"invitee": ""},
        {"invitee": "   "},
        {"invitee": "a\0b"},
        {"invitee": "x" * 255},
        {"place": "tenant:support"},
        {"place": "organisation:acme"},
        {"place": "tenant:elsewhere"},
        {"place": ""},
        {"role": "owner"},
        {"role": ""},
    ],
)
def test_bad_input_invites_nobody_and_is_kept(client: Client, cast: Cast, wrong: dict[str, str]) -> None:
    client.force_login(cast.admin)
    answer = client.post(URL, FORM | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert not Invitation.objects.exists()


def test_an_invitee_with_unseen_characters_is_written_out(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    shown = client.post(URL, FORM | {"invitee": "exe\u202egpj"}).content.decode()
    assert "\u202e" not in shown
    assert "⟦U+202E⟧" in shown


def test_an_organisation_without_tenants_takes_people(client: Client, cast: Cast) -> None:
    empty = make_organisation("empty")
    set_membership(user=cast.nobody, organisation=empty, role=Role.ADMIN, actor=SYSTEM)
    client.force_login(cast.nobody)
    client.post(URL, FORM | {"place": "organisation:empty"})
    assert Invitation.objects.get().organisation == empty


def test_a_post_from_elsewhere_invites_nobody(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.admin)
    assert client.post(URL, FORM).status_code == 403
    assert not Invitation.objects.exists()
