"""The relay killed between sending and marking: nothing is lost, and a receiver can tell what came twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.utils import timezone
from pytest_django import Settings

from guardops.tenants.actors import SYSTEM
from runs.models import Notification
from runs.notify.addresses import WebhookAddress, new_signing_secret
from runs.notify.channels import Place, create_channel
from runs.notify.relay import relay_due
from tests.factories import make_tenant
from tests.runs.notify.conftest import open_one
from tests.runs.notify.http_sink import Answering, Sink, http_sink

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]


def start_relay(database_url: str) -> subprocess.Popen[bytes]:
    environment = {"DATABASE_URL": database_url, "GUARDOPS_WEBHOOK_ALLOW": "127.0.0.0/8"}
    return subprocess.Popen(
        [sys.executable, "manage.py", "outbox"],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def sink(settings: Settings) -> Iterator[Sink]:
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.0/8")]
    with http_sink() as server:
        yield server


def test_a_relay_killed_between_sending_and_marking_tells_once_more_under_the_same_id(
    database_url: str, sink: Sink
) -> None:
    tenant = make_tenant("acme")
    address = WebhookAddress(sink.url, (new_signing_secret(),))
    wants = {"name": "on call", "group_s": 0, "repeat_h": 0}
    create_channel(Place(tenant.organisation, tenant), address, wants, actor=SYSTEM, now=timezone.now())
    incidents = [open_one(tenant, subject) for subject in ("support", "research")]

    arrived, killed = threading.Event(), threading.Event()
    sink.answering = Answering(before=lambda: bool(arrived.set() or killed.wait(20)))
    relay = start_relay(database_url)
    try:
        assert arrived.wait(30)
        relay.kill()  # the receiver has it, the row does not say so
    finally:
        relay.kill()
        relay.wait()
        killed.set()
    assert {row.state for row in Notification.objects.all()} == {"waiting"}

    sink.answering = Answering()
    assert relay_due().sent == 0  # the dead one's claim still holds
    Notification.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))  # two minutes later
    assert relay_due(threads=2).sent == 1
    assert {row.state for row in Notification.objects.all()} == {"sent"}
    assert len(sink.posted) == 2
    assert len({posted.headers["webhook-id"] for posted in sink.posted}) == 1
    assert all(str(incident.pk).encode() in posted.body for posted in sink.posted for incident in incidents)


def test_relays_at_once_send_each_message_once(database_url: str, sink: Sink) -> None:
    tenant = make_tenant("acme")
    for number in range(6):
        address = WebhookAddress(sink.url, (new_signing_secret(),))
        wants = {"name": f"channel {number}", "group_s": 0, "repeat_h": 0}
        create_channel(Place(tenant.organisation, tenant), address, wants, actor=SYSTEM, now=timezone.now())
    for subject in ("support", "research", "triage"):
        open_one(tenant, subject)
    relays = [start_relay(database_url) for _ in range(3)]
    assert [relay.wait(60) for relay in relays] == [0] * 3
    rows = Notification.objects.all()
    assert {row.state for row in rows} == {"sent"}
    assert len(rows) == 18
    ids = [posted.headers["webhook-id"] for posted in sink.posted]
    assert len(ids) == len(set(ids)) == len({row.message for row in rows})
    assert {row.attempts for row in rows} == {1}
