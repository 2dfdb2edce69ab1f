"""Mail through a real server on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django import Settings

from guardops.tenants import mail
from guardops.tenants.models import Invitation, User
from tests.factories import make_user

from .conftest import Cast
from .mail_sink import Sink, mail_sink

pytestmark = pytest.mark.django_db

MAIL = {"to": "kim@example.com", "subject": "Hello", "text": "First line\n.\nlast line\n"}


def point_at(settings: Settings, port: int) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False


@pytest.fixture
def sink(settings: Settings) -> Iterator[Sink]:
    with mail_sink() as server:
        point_at(settings, server.port)
        yield server


def test_a_mail_arrives(sink: Sink, settings: Settings) -> None:
    settings.DEFAULT_FROM_EMAIL = "GuardOps <guardops@example.com>"
    assert mail.send(**MAIL)
    received = sink.received()
    assert (received["To"], received["Subject"]) == ("kim@example.com", "Hello")
    assert received["From"] == "GuardOps <guardops@example.com>"
    assert received.get_payload().replace("\r\n", "\n").rstrip("\n") == MAIL["text"].rstrip("\n")


def test_a_subject_of_several_lines_adds_no_header(sink: Sink) -> None:
    assert mail.send(**MAIL | {"subject": "Join\r\nBcc: evil@example.com\u202e"})
    received = sink.received()
    assert received["Bcc"] is None
    assert "\u202e" not in received["Subject"]


@pytest.mark.parametrize("to", ["a@b\r\nBcc: evil@example.com", "\ud800@example.com"])
def test_an_address_that_no_header_can_hold_is_not_sent_to(sink: Sink, to: str) -> None:
    assert not mail.send(**MAIL | {"to": to})
    assert mail.send(**MAIL)
    assert sink.received()["To"] == "kim@example.com"


def test_a_server_that_is_not_there_is_no_crash(settings: Settings) -> None:
    with mail_sink() as server:
        point_at(settings, server.port)
    assert not mail.send(**MAIL)


def test_a_server_that_says_nothing_holds_a_page_up_for_a_bounded_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "WAIT_S", 0.2)
    with mail_sink(silent=True) as server:
        point_at(settings, server.port)
        settings.EMAIL_TIMEOUT = 1
        began = time.monotonic()
        assert not mail.send(**MAIL)
        assert time.monotonic() - began < 1


def test_no_more_mails_wait_than_there_are_places_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_sink(silent=True) as server:
        point_at(settings, server.port)
        settings.EMAIL_TIMEOUT = 1
        sent = [mail.send_soon(**MAIL) for _ in range(mail._MOST_PENDING + 1)]
        assert sent[-1] is None
        for waiting in sent[2:-1]:
            assert waiting is not None
            waiting.cancel()
            mail._places.release()
    for under_way in sent[:2]:
        assert under_way is not None
        under_way.result()


def test_an_invitation_is_sent_to_an_e_mail_address(client: Client, cast: Cast, sink: Sink) -> None:
    client.force_login(cast.admin)
    form = {"invitee": "kim@example.com", "place": "tenant:research", "role": "viewer"}
    answer = client.post("/settings/members/invite/", form)
    assert "Sent to <bdi>kim@example.com</bdi>" in answer.content.decode()
    received = sink.received()
    assert received["To"] == "kim@example.com"
    assert answer.context["link"] in received.get_payload()


def test_a_name_is_sent_no_mail(client: Client, cast: Cast, sink: Sink) -> None:
    client.force_login(cast.admin)
    form = {"invitee": "kim", "place": "tenant:research", "role": "viewer"}
    assert "Sent to" not in client.post("/settings/members/invite/", form).content.decode()
    assert sink.mails.empty()


def test_an_invitation_stands_where_its_mail_fails(client: Client, cast: Cast, settings: Settings) -> None:
    with mail_sink() as server:
        point_at(settings, server.port)
    client.force_login(cast.admin)
    form = {"invitee": "kim@example.com", "place": "tenant:research", "role": "viewer"}
    answer = client.post("/settings/members/invite/", form)
    assert "did not go out" in answer.content.decode()
    assert answer.context["link"] in answer.content.decode()
    assert Invitation.objects.count() == 1


def test_a_link_to_a_new_password_is_sent(client: Client, db: None, sink: Sink) -> None:
    user = make_user("mara")
    User.objects.filter(pk=user.pk).update(email="mara@example.com")
    client.post("/password/forgotten/", {"who": "mara"})
    received = sink.received()
    assert received["To"] == "mara@example.com"
    link = next(line for line in received.get_payload().split() if line.startswith("http"))
    assert client.get(link).status_code == 200
