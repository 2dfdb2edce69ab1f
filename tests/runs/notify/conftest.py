from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant
from runs.alerts.incidents import Finding, Opened, open_incident
from runs.choices import RuleKind, Severity
from runs.models import Channel, Incident, Notification
from runs.notify.addresses import Address, WebhookAddress, new_signing_secret
from runs.notify.channels import Place, create_channel
from tests.factories import make_tenant

from .http_sink import Sink, http_sink

Make = Callable[..., Channel]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def sink(settings: Settings) -> Iterator[Sink]:
    """A receiver inside, which the installation allows."""
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.0/8")]
    settings.WEB_URL = "https://ops.example.com"
    with http_sink() as server:
        yield server


@pytest.fixture
def channel(tenant: Tenant, sink: Sink) -> Make:
    """Make a channel of the tenant; without an address it is a webhook to the sink."""

    def make(address: Address | None = None, *, place: Place | None = None, **wants: Any) -> Channel:
        address = address or WebhookAddress(sink.url, (new_signing_secret(),))
        place = place or Place(tenant.organisation, tenant)
        wants = {"name": "on call", "group_s": 0, **wants}
        return create_channel(place, address, wants, actor=SYSTEM, now=timezone.now())

    return make


def open_one(tenant: Tenant | None, subject: str = "support", **changes: Any) -> Incident:
    """Open an incident as a rule does, which tells the channels."""
    return find(tenant, subject, **changes).incident


def find(tenant: Tenant | None, subject: str = "support", **changes: Any) -> Opened:
    finding = {
        "tenant_id": tenant.pk if tenant else None,
        "rule": RuleKind.LOOP_RATE,
        "title": "37 of 446 tasks looped (8.3 %) since 02:58.",
        "severity": Severity.CRITICAL,
        "subject": subject,
        "job_type": subject,
        **changes,
    }
    return open_incident(Finding(**finding), now=timezone.now())


def rows(channel: Channel) -> list[tuple[str, str]]:
    """Return the transitions that the channel has rows of, with where each stands."""
    listed = Notification.objects.filter(channel=channel).order_by("id")
    return list(listed.values_list("transition", "state"))


def make_due(channel: Channel) -> None:
    """Let what waits for the channel be due, as if its time had come."""
    past = timezone.now() - timedelta(seconds=1)
    Notification.objects.filter(channel=channel, due_at__gt=past).waiting().update(due_at=past)


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
