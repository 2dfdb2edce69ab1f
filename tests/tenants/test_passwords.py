from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings as configured
from django.core import mail as outbox
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from guardops.tenants import mail
from guardops.tenants.models import User, UserEvent
from guardops.tenants.passwords import reset_path
from guardops.tenants.throttle import Guess
from tests.factories import PASSWORD, make_user

pytestmark = pytest.mark.django_db

CHANGE = "/settings/account/password/"
FORGOTTEN = "/password/forgotten/"
NEW = "staple battery horse"
TWICE = {"new_password1": NEW, "new_password2": NEW}


@pytest.fixture
def mara() -> User:
    user = make_user("mara")
    user.email = "mara@example.com"
    user.save()
    return user


def test_who_knows_the_old_password_changes_it(client: Client, mara: User) -> None:
    client.force_login(mara)
    answer = client.post(CHANGE, {"old_password": PASSWORD, **TWICE})
    assert (answer.status_code, answer["Location"]) == (302, "/settings/account/")
    mara.refresh_from_db()
    assert mara.check_password(NEW)
    row = UserEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("password", mara.pk)


def test_a_change_ends_every_other_session_and_keeps_this_one(client: Client, mara: User) -> None:
    other = Client()
    for one in (client, other):
        one.force_login(mara)
    old_key = client.session.session_key
    client.post(CHANGE, {"old_password": PASSWORD, **TWICE})
    assert client.get(CHANGE).status_code == 200
    assert client.session.session_key != old_key
    assert other.get(CHANGE).status_code == 302


@pytest.mark.parametrize(
    "wrong",
    [
        {"old_password": "wrong"},
        {"old_password": ""},
        {"old_password": "a\0b"},
        {"new_password2": "another one"},
        {"new_password1": "short", "new_password2": "short"},
        {"new_password1": "", "new_password2": ""},
    ],
)
def test_bad_input_changes_no_password(client: Client, mara: User, wrong: dict[str, str]) -> None:
    client.force_login(mara)
    answer = client.post(CHANGE, {"old_password": PASSWORD, **TWICE} | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    mara.refresh_from_db()
    assert mara.check_password(PASSWORD)


def test_guesses_of_the_old_password_are_held_up_with_those_at_the_login(client: Client, mara: User) -> None:
    client.force_login(mara)
    for _ in range(Guess.PASSWORD.value.pair.free):
        client.post(CHANGE, {"old_password": "wrong", **TWICE})
    assert client.post(CHANGE, {"old_password": PASSWORD, **TWICE}).status_code == 429
    assert Client().post("/login/", {"username": "mara", "password": PASSWORD}).status_code == 429


def test_a_weak_new_password_is_no_guess_of_the_old_one(client: Client, mara: User) -> None:
    client.force_login(mara)
    weak = {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
    for _ in range(Guess.PASSWORD.value.pair.free * 2):
        assert client.post(CHANGE, weak).status_code == 200


def test_a_link_sets_a_new_password_and_signs_in(client: Client, mara: User) -> None:
    other = Client()
    other.force_login(mara)
    mara.refresh_from_db()
    link = reset_path(mara)
    assert client.get(link).status_code == 200
    answer = client.post(link, TWICE)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(mara.pk)
    assert other.get(CHANGE).status_code == 302
    mara.refresh_from_db()
    assert mara.check_password(NEW)


def test_a_link_works_once(client: Client, mara: User) -> None:
    link = reset_path(mara)
    client.post(link, TWICE)
    again = Client().post(link, dict.fromkeys(TWICE, "a third long password"))
    assert again.status_code == 404
    assert "does not work any more" in again.content.decode()
    mara.refresh_from_db()
    assert mara.check_password(NEW)


def test_a_link_works_for_an_hour(client: Client, mara: User) -> None:
    link, now = reset_path(mara), datetime.now(UTC)
    assert configured.PASSWORD_RESET_TIMEOUT == 3600
    with time_machine.travel(now + timedelta(minutes=59), tick=False):
        assert client.get(link).status_code == 200
    with time_machine.travel(now + timedelta(minutes=61), tick=False):
        assert client.get(link).status_code == 404


def test_a_link_is_void_after_a_login(client: Client, mara: User) -> None:
    link = reset_path(mara)
    client.force_login(mara)
    assert client.get(link).status_code == 404


def test_a_closed_account_has_no_link(client: Client, mara: User) -> None:
    link = reset_path(mara)
    User.objects.update(is_active=False)
    assert client.get(link).status_code == 404


def test_a_weak_password_leaves_the_link_open(client: Client, mara: User) -> None:
    link = reset_path(mara)
    assert client.post(link, dict.fromkeys(TWICE, "short")).status_code == 200
    assert client.post(link, TWICE).status_code == 302


@pytest.mark.parametrize(
    "uid", ["MQ", "x", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "LTE", "%00", "é", "A" * 4000]
)
@pytest.mark.parametrize("token", ["x", "a-b", "%00", "é"])
def test_garbage_is_a_link_of_nobody(client: Client, mara: User, uid: str, token: str) -> None:
    address = f"/password/new/{uid}/{token}/"
    assert (client.get(address).status_code, client.post(address, TWICE).status_code) == (404, 404)


@pytest.mark.parametrize("who", ["mara", "mara@example.com", "MARA@example.com", "unknown", "x@example.com"])
def test_the_answer_is_the_same_whoever_it_is(
    client: Client, mara: User, settings: Settings, who: str
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    known = client.post(FORGOTTEN, {"who": "mara"}).content
    assert client.post(FORGOTTEN, {"who": who}).content == known


def test_a_link_goes_to_who_has_the_name_or_the_address(
    client: Client, mara: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    for who in ("mara", "Mara@example.com", "unknown"):
        client.post(FORGOTTEN, {"who": who})
    mail.send(to="end@example.com", subject="", text="")
    mail.send(to="end@example.com", subject="", text="")  # both threads have sent what came before
    sent = [message for message in outbox.outbox if message.to != ["end@example.com"]]
    assert [message.to for message in sent] == [["mara@example.com"]] * 2
    assert "http://testserver/password/new/" in sent[0].body


def test_who_has_no_address_is_sent_nothing(client: Client, settings: Settings) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    make_user("without")
    client.post(FORGOTTEN, {"who": "without"})
    assert client.post(FORGOTTEN, {"who": ""}).context["form"].errors
    assert outbox.outbox == []


def test_requests_for_links_are_held_up(client: Client, mara: User, settings: Settings) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    for who in ("mara", "unknown"):
        for _ in range(Guess.RESET.value.pair.free):
            assert client.post(FORGOTTEN, {"who": who}).status_code == 200
        assert client.post(FORGOTTEN, {"who": who}).status_code == 429
    assert client.post("/login/", {"username": "mara", "password": PASSWORD}).status_code == 302


@pytest.mark.parametrize("who", ["a\0b", "x" * 100_000, "\u202emara", "\ud7ff"])
def test_garbage_gets_an_answer(client: Client, settings: Settings, who: str) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    assert client.post(FORGOTTEN, {"who": who}).status_code == 200


def test_without_mail_the_page_says_whom_to_ask(client: Client, mara: User) -> None:
    for answer in (client.get(FORGOTTEN), client.post(FORGOTTEN, {"who": "mara"})):
        assert "manage.py reset_link" in answer.content.decode()
    assert outbox.outbox == []


def test_the_command_prints_a_link(client: Client, mara: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("reset_link", "mara", url="https://guardops.example/")
    link = capsys.readouterr().out.strip()
    assert link.startswith("https://guardops.example/password/new/")
    assert client.post(link.removeprefix("https://guardops.example"), TWICE).status_code == 302


@pytest.mark.parametrize(
    ("name", "url"), [("nobody", "https://guardops.example"), ("mara", None), ("mara", "guardops.example")]
)
def test_the_command_refuses_what_it_can_not_do(mara: User, name: str, url: str | None) -> None:
    with pytest.raises(CommandError):
        call_command("reset_link", name, url=url)


@pytest.mark.parametrize("path", [FORGOTTEN, CHANGE])
def test_a_post_from_elsewhere_is_refused(mara: User, settings: Settings, path: str) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    client = Client(enforce_csrf_checks=True)
    client.force_login(mara)
    assert client.post(path, {"who": "mara", "old_password": PASSWORD, **TWICE}).status_code == 403
