"""Signed webhooks: what arrives, and that its signature proves it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant
from runs.choices import SubjectKind
from runs.models import Channel, Notification
from runs.notify import subjects
from runs.notify.addresses import WebhookAddress, opened
from runs.notify.channels import rotate_secret, try_out
from runs.notify.outbox import _enqueue
from runs.notify.relay import relay_due
from runs.notify.senders.webhook import signed_headers

from .conftest import Make, open_one, rows
from .http_sink import Posted, Sink

pytestmark = pytest.mark.django_db


def secrets_of(channel: Channel) -> list[str]:
    address = opened(Channel.objects.get(pk=channel.pk).secret)
    assert isinstance(address, WebhookAddress)
    return [signer.secret for signer in address.secrets]


def proves(posted: Posted, secret: str) -> bool:
    """Check a message as a receiver does, by the words of the standard."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{posted.headers['webhook-id']}.{posted.headers['webhook-timestamp']}.".encode() + posted.body
    right = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return f"v1,{right}" in posted.headers["webhook-signature"].split(" ")


def test_an_incident_arrives_signed(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    incident = open_one(tenant)
    assert relay_due().sent == 1
    (posted,) = sink.posted
    assert proves(posted, secrets_of(made)[0])
    assert not proves(posted, "whsec_" + base64.b64encode(b"another").decode())
    document = json.loads(posted.body)
    assert document["type"] == "guardops.incidents"
    (told,) = document["data"]["incidents"]
    assert (told["id"], told["transition"], told["tenant"]) == (str(incident.pk), "opened", "acme")
    assert (told["title"], told["severity"], told["state"]) == (incident.title, "critical", "open")
    assert told["url"] == f"https://ops.example.com/alerts/{incident.pk}/"
    assert posted.headers["content-type"] == "application/json"


def test_the_time_that_is_signed_is_the_time_of_the_try(channel: Make, sink: Sink) -> None:
    before = int(timezone.now().timestamp())
    try_out(channel(), now=timezone.now())
    assert before <= int(sink.posted[0].headers["webhook-timestamp"]) <= timezone.now().timestamp()


def test_while_a_secret_is_taken_over_both_sign_and_then_the_new_one_alone(channel: Make, sink: Sink) -> None:
    made = channel()
    (old,) = secrets_of(made)
    now = timezone.now()
    new = rotate_secret(made, version=1, actor=SYSTEM, now=now).secret
    made.refresh_from_db()
    try_out(made, now=now)
    assert proves(sink.posted[0], old)
    assert proves(sink.posted[0], new)
    address = opened(made.secret)
    assert isinstance(address, WebhookAddress)
    later = signed_headers(address, "id", b"", now + timedelta(days=1, seconds=1))
    assert later["webhook-signature"].count("v1,") == 1


class Registered:
    """A subject of a kind that another part of the project registers."""

    def __init__(self) -> None:
        self.body: bytes | None = b'{"type":"decision"}'

    def __call__(self, subject: UUID) -> bytes | None:
        return self.body


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> Registered:
    registered = Registered()
    monkeypatch.setitem(subjects._bodies, SubjectKind.DECISION, registered)
    return registered


def enqueue(channel: Channel, *, in_s: float = 0) -> None:
    now = timezone.now()
    subject = UUID(int=7)
    due = now + timedelta(seconds=in_s)
    _enqueue([channel], SubjectKind.DECISION, subject, "decided", 1, now, due_at=due)


def test_a_decision_goes_out_as_it_was_registered(channel: Make, sink: Sink, decisions: Registered) -> None:
    made = channel(decisions=True)
    enqueue(made)
    assert relay_due().sent == 1
    assert sink.posted[0].body == b'{"type":"decision"}'
    assert proves(sink.posted[0], secrets_of(made)[0])


def test_a_decision_waits_until_it_cannot_be_undone(channel: Make, sink: Sink, decisions: Registered) -> None:
    made = channel(decisions=True)
    enqueue(made, in_s=10)
    assert relay_due().sent == 0
    assert sink.posted == []


def test_a_decision_that_was_taken_back_is_never_sent(
    channel: Make, sink: Sink, decisions: Registered
) -> None:
    made = channel(decisions=True)
    enqueue(made)
    decisions.body = None
    assert relay_due().dropped == 1
    assert sink.posted == []
    assert rows(made) == [("decided", "dropped")]
    assert Notification.objects.get().attempts == 0
