from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from guardops.tenants.choices import Role
from guardops.tenants.invitations import accept, revoke_invitation
from guardops.tenants.models import User, UserEvent
from guardops.tenants.throttle import Guess
from tests.factories import NOW, PASSWORD, make_invitation, make_user

from .conftest import Cast

pytestmark = pytest.mark.django_db

FORM = {"username": "kim", "email": "", "password1": PASSWORD, "password2": PASSWORD}


def url(token: str) -> str:
    return f"/invitation/{token}/"


def test_a_new_person_makes_an_account_joins_and_is_signed_in(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, Role.REVIEWER)
    assert client.get(url(token)).status_code == 200
    answer = client.post(url(token), FORM)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    user = User.objects.get(username="kim")
    assert client.session["_auth_user_id"] == str(user.pk)
    assert user.memberships.get().role == Role.REVIEWER
    assert UserEvent.objects.filter(pgh_label="login", pgh_obj=user).exists()


def test_joining_gets_a_new_session_key(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    session = client.session
    session["fixed"] = "by somebody else"
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    client.post(url(token), FORM)
    assert client.session.session_key != session.session_key


def test_who_is_signed_in_joins_as_themselves(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    client.force_login(cast.nobody)
    assert f"Join as <bdi>{cast.nobody.username}</bdi>" in client.get(url(token)).content.decode()
    assert not cast.nobody.memberships.exists()
    assert "Welcome to" in client.post(url(token), follow=True).content.decode()
    assert cast.nobody.memberships.get().tenant == cast.tenant


def test_who_has_an_account_signs_in_and_comes_back(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    assert f'href="/login/?next={url(token)}"' in client.get(url(token)).content.decode()
    answer = client.post(
        "/login/", {"username": cast.nobody.username, "password": PASSWORD, "next": url(token)}
    )
    assert answer["Location"] == url(token)


def test_an_e_mail_address_is_offered_as_ones_own(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant, invitee="kim@example.com")
    assert 'value="kim@example.com"' in client.get(url(token)).content.decode()


@pytest.mark.parametrize("signed_in", [True, False])
@pytest.mark.parametrize("end", ["used", "revoked", "expired", "unknown"])
def test_a_link_that_does_not_count_says_so_and_gives_nothing(
    client: Client, cast: Cast, end: str, signed_in: bool
) -> None:
    invitation, token = make_invitation(cast.tenant, now=NOW if end == "expired" else None)
    match end:
        case "used":
            accept(token, user=make_user(), now=invitation.created_at)
        case "revoked":
            revoke_invitation(invitation, actor=cast.admin, now=NOW)
        case "unknown":
            token = "made-up"
    if signed_in:
        client.force_login(cast.nobody)
    people = User.objects.count()
    for answer in (client.get(url(token)), client.post(url(token), FORM)):
        assert answer.status_code == (404 if end == "unknown" else 410)
        page = answer.content.decode()
        assert "This invitation does not count" in page
        assert cast.tenant.name not in page
    assert User.objects.count() == people
    assert not cast.nobody.memberships.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"username": ""},
        {"username": "a b"},
        {"username": "a\0b"},
        {"username": "x" * 151},
        {"username": "exe\u202egpj"},
        {"username": "taken"},
        {"email": "no address"},
        {"password2": "another one"},
        {"password1": "short", "password2": "short"},
        {"password1": "kim kim kim", "password2": "kim kim kim", "username": "kimkimkim"},
    ],
)
def test_bad_input_leaves_the_link_open(client: Client, cast: Cast, wrong: dict[str, str]) -> None:
    make_user("taken")
    _, token = make_invitation(cast.tenant)
    answer = client.post(url(token), FORM | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert client.post(url(token), FORM).status_code == 302


def test_names_are_not_tried_out_by_the_dozen(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    for _ in range(Guess.JOIN.value.pair.free):
        answer = client.post(url(token), FORM | {"username": cast.admin.username})
        assert answer.status_code == 200
    assert client.post(url(token), FORM).status_code == 429


def test_nobody_is_made_an_operator_by_what_they_send(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    client.post(url(token), FORM | {"is_operator": "on", "is_superuser": "on", "role": "admin"})
    user = User.objects.get(username="kim")
    assert (user.is_operator, user.is_superuser) == (False, False)
    assert user.memberships.get().role == Role.VIEWER


def test_a_post_from_elsewhere_accepts_nothing(cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.nobody)
    assert client.post(url(token)).status_code == 403
    assert not cast.nobody.memberships.exists()


def test_the_page_is_not_stored(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    assert "no-store" in client.get(url(token))["Cache-Control"]
