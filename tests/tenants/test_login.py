from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import User, UserEvent
from guardops.tenants.people import set_membership
from tests.factories import PASSWORD, make_organisation, make_user

pytestmark = pytest.mark.django_db

URL = "/login/"


def log_in(client: Client, username: str = "mara", password: str = PASSWORD, **more: str):  # type: ignore[no-untyped-def]
    return client.post(URL, {"username": username, "password": password, **more})


def test_the_right_password_opens_a_session(client: Client) -> None:
    user = make_user("mara")
    response = log_in(client)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(user.pk)


def test_a_login_gets_a_new_session_key(client: Client) -> None:
    make_user("mara")
    session = client.session
    session["fixed"] = "by somebody else"
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    log_in(client)
    assert client.session.session_key != session.session_key


def test_a_login_is_in_the_trail(client: Client) -> None:
    user = make_user("mara")
    log_in(client)
    row = UserEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_obj_id, row.pgh_context["actor"]["id"]) == ("login", user.pk, user.pk)


def test_a_wrong_password_an_unknown_and_a_disabled_person_get_the_same_answer(client: Client) -> None:
    make_user("mara")
    make_user("gone")
    User.objects.filter(username="gone").update(is_active=False)
    answers = [
        log_in(client, "mara", "wrong"),
        log_in(client, "unknown"),
        log_in(client, "gone"),
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.context["form"].non_field_errors()[0] for answer in answers}) == 1
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize("username", ["", "a\0b", "x" * 100_000, "\u202emara", "' OR 1=1 --"])
def test_garbage_gets_an_error_and_no_crash(client: Client, username: str) -> None:
    response = log_in(client, username)
    assert response.status_code == 200
    assert response.context["form"].errors


@pytest.mark.parametrize("path", ["/runs/", "/runs/?tenant=acme&range=7d"])
def test_an_address_of_ours_is_the_next_page(client: Client, path: str) -> None:
    make_user("mara")
    assert log_in(client, next=path)["Location"] == path


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http:///evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        " //evil.example",
        "\t//evil.example",
        "/\t/evil.example",
        "//testserver@evil.example",
        "https://testserver.evil.example",
        "\x08//evil.example",
    ],
)
def test_an_address_of_others_is_never_the_next_page(client: Client, path: str) -> None:
    make_user("mara")
    assert log_in(client, next=path)["Location"] == "/"
    # Who is logged in already is sent on by a plain GET.
    assert client.get(URL, {"next": path})["Location"] == "/"


def test_the_page_asked_for_survives_a_wrong_password(client: Client) -> None:
    response = log_in(client, password="wrong", next="/runs/?range=7d")
    assert '<input type="hidden" name="next" value="/runs/?range=7d">' in response.content.decode()


def test_who_is_not_logged_in_is_sent_to_the_login_page(client: Client) -> None:
    assert client.get("/settings/keys/")["Location"] == "/login/?next=/settings/keys/"


def test_the_page_is_not_stored_and_not_framed(client: Client) -> None:
    response = client.get(URL)
    assert "no-store" in response["Cache-Control"]
    assert response["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


def test_a_post_without_a_csrf_token_is_refused() -> None:
    make_user("mara")
    assert log_in(Client(enforce_csrf_checks=True)).status_code == 403


def test_a_way_back_to_the_login_itself_leads_to_the_overview(client: Client) -> None:
    make_user("mara")
    log_in(client)
    answer = client.get(URL, {"next": URL})
    assert (answer.status_code, answer["Location"]) == (302, "/")


@pytest.mark.parametrize("cookie", ["\0aaaaaaaaaa", "\u00e9aaaaaaaaaa", "A" * 4_000])
def test_a_cookie_that_no_session_can_have_opens_none(client: Client, cookie: str) -> None:
    client.cookies[settings.SESSION_COOKIE_NAME] = cookie
    assert client.get("/")["Location"] == f"{URL}?next=/"


@pytest.mark.parametrize(("organisations", "zone"), [(1, "Asia/Kathmandu"), (2, "")])
def test_session_knows_the_zone_of_the_only_organisation(
    client: Client, organisations: int, zone: str
) -> None:
    user = make_user()
    for _ in range(organisations):
        organisation = make_organisation(time_zone="Asia/Kathmandu")
        set_membership(user=user, organisation=organisation, role=Role.VIEWER, actor=SYSTEM)
    client.post("/login/", {"username": user.username, "password": PASSWORD})
    assert client.session["zone"] == zone
