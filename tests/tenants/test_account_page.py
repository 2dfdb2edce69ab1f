from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from guardops.tenants.models import User, UserEvent
from guardops.tenants.throttle import Guess
from tests.factories import PASSWORD

from .conftest import Cast

pytestmark = pytest.mark.django_db

URL = "/settings/account/"
FORM = {"first_name": "Mara", "last_name": "Lind", "email": "", "keyboard_shortcuts": "on"}


@pytest.fixture
def person(client: Client, cast: Cast) -> User:
    client.force_login(cast.viewer)
    return cast.viewer


def test_a_person_changes_what_they_say_of_themselves(client: Client, person: User) -> None:
    assert client.post(URL, FORM)["Location"] == URL
    person.refresh_from_db()
    assert (person.get_full_name(), person.keyboard_shortcuts) == ("Mara Lind", True)
    row = UserEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("update", person.pk)


def test_keyboard_shortcuts_are_switched_off(client: Client, person: User) -> None:
    del (form := dict(FORM))["keyboard_shortcuts"]
    client.post(URL, form)
    person.refresh_from_db()
    assert person.keyboard_shortcuts is False


def test_another_e_mail_address_needs_the_password(client: Client, person: User) -> None:
    form = FORM | {"email": "mara@example.com"}
    for password in ("", "wrong"):
        answer = client.post(URL, form | {"password": password})
        assert answer.context["form"].errors["password"]
        assert 'value="mara@example.com"' in answer.content.decode()
    person.refresh_from_db()
    assert person.email == ""
    client.post(URL, form | {"password": PASSWORD})
    person.refresh_from_db()
    assert person.email == "mara@example.com"


def test_guesses_of_the_password_are_held_up_here_as_well(client: Client, person: User) -> None:
    form = FORM | {"email": "mara@example.com", "password": "wrong"}
    for _ in range(Guess.PASSWORD.value.pair.free):
        assert client.post(URL, form).status_code == 200
    assert client.post(URL, form | {"password": PASSWORD}).status_code == 429
    person.refresh_from_db()
    assert person.email == ""


@pytest.mark.parametrize(
    "wrong", [{"first_name": "x" * 151}, {"last_name": "a\0b"}, {"email": "no address", "password": PASSWORD}]
)
def test_bad_input_changes_nothing(client: Client, person: User, wrong: dict[str, Any]) -> None:
    answer = client.post(URL, FORM | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    person.refresh_from_db()
    assert person.first_name == ""


def test_what_is_sent_beside_the_form_changes_nothing(client: Client, person: User) -> None:
    client.post(URL, FORM | {"is_operator": "on", "username": "root", "is_active": ""})
    after = User.objects.get(pk=person.pk)
    assert (after.is_operator, after.username, after.is_active) == (False, person.username, True)


def test_unseen_characters_of_a_name_survive_their_own_page(client: Client, person: User) -> None:
    User.objects.filter(pk=person.pk).update(first_name="exe\u202egpj")
    page = client.get(URL)
    assert "\u202e" not in page.content.decode()
    client.post(URL, FORM | {"first_name": page.context["form"]["first_name"].value()})
    person.refresh_from_db()
    assert person.first_name == "exe\u202egpj"


def test_the_page_shows_ones_roles(client: Client, cast: Cast, person: User) -> None:
    assert cast.tenant.name in client.get(URL).content.decode()
    client.force_login(cast.nobody)
    assert "a member of no tenant" in client.get(URL).content.decode()


@pytest.mark.parametrize(
    ("who", "first"), [("organisation_admin", "organisations"), ("viewer", "account"), ("nobody", "account")]
)
def test_settings_begin_with_the_first_page_that_somebody_may_open(
    client: Client, cast: Cast, who: str, first: str
) -> None:
    client.force_login(getattr(cast, who))
    assert client.get("/settings/", follow=True).redirect_chain == [(f"/settings/{first}/", 302)]


@pytest.mark.parametrize("who", ["organisation_admin", "admin", "viewer", "nobody", "operator"])
def test_each_link_of_the_settings_can_be_opened(client: Client, cast: Cast, who: str) -> None:
    client.force_login(getattr(cast, who))
    page = client.get(URL).content.decode()
    nav = page[page.index('<nav class="tabs"') :].partition("</nav>")[0]
    links = [part.partition('"')[0] for part in nav.split('href="')[1:]]
    assert URL in links
    assert nav.count('aria-current="page"') == 1
    assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)
