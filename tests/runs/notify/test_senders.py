"""The other ways to tell: real servers get what the page says was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.slack import NotifySlack
from django.utils import timezone
from pytest_django import Settings

from guardops.tenants.models import Tenant
from runs.choices import NotificationState, Severity
from runs.models import Channel, Notification
from runs.notify.addresses import (
    Address,
    AlertmanagerAddress,
    MailAddress,
    PagerDutyAddress,
    sealed,
)
from runs.notify.channels import InvalidChannel, try_out
from runs.notify.client import InvalidAddress
from runs.notify.relay import claim_next, deliver, relay_due
from runs.notify.senders.services import service_of
from tests.tenants.mail_sink import Sink as MailSink
from tests.tenants.mail_sink import mail_sink
from tests.tenants.test_mail import point_at

from .conftest import Make, make_due, open_one, rows
from .http_sink import Answering, Sink
from .test_relay import acknowledged, over

pytestmark = pytest.mark.django_db


@pytest.fixture
def mails(settings: Settings) -> Iterator[MailSink]:
    with mail_sink() as server:
        point_at(settings, server.port)
        settings.DEFAULT_FROM_EMAIL = "GuardOps <guardops@ops.example.com>"
        yield server


def bodies(sink: Sink) -> list[Any]:
    return [json.loads(posted.body) for posted in sink.posted]


def test_a_mail_says_what_the_page_says_was_sent(channel: Make, tenant: Tenant, mails: MailSink) -> None:
    made = channel(MailAddress(("kim@example.com", "lee@example.com")), repeat_h=0)
    incident = open_one(tenant)
    relay_due()
    received = mails.received()
    assert received["To"] == "kim@example.com, lee@example.com"
    row = Notification.objects.get(channel=made)
    assert received["Subject"] == row.said
    assert row.said == f"[Critical] acme / support: {incident.title}"
    assert received["Message-ID"] == f"<{row.message}@ops.example.com>"
    assert received["References"] == f"<incident-{incident.pk}@ops.example.com>"
    text = received.get_content()
    assert f"https://ops.example.com/alerts/{incident.pk}/" in text
    assert incident.title in text
    assert row.outcome == "The mail server took it."


def test_several_incidents_are_one_mail(channel: Make, tenant: Tenant, mails: MailSink) -> None:
    made = channel(MailAddress(("kim@example.com",)), group_s=20)
    incidents = [open_one(tenant, subject) for subject in ("support", "research")]
    make_due(made)
    relay_due()
    received = mails.received()
    assert received["Subject"] == "[GuardOps] 2 incidents: 2 critical"
    assert all(str(incident.pk) in received.get_content() for incident in incidents)
    assert mails.mails.empty()


def test_a_title_can_add_no_header_and_shows_what_is_unseen(
    channel: Make, tenant: Tenant, mails: MailSink
) -> None:
    channel(MailAddress(("kim@example.com",)))
    open_one(tenant, "x\r\nBcc: evil@example.com", title="a\r\nBcc: evil@example.com\u202e")
    relay_due()
    received = mails.received()
    assert received["Bcc"] is None
    assert "\u202e" not in received["Subject"]
    assert "⟦U+202E⟧" in received.get_content()


def test_a_mail_server_that_is_gone_is_tried_again(channel: Make, tenant: Tenant, settings: Settings) -> None:
    point_at(settings, 9)
    made = channel(MailAddress(("kim@example.com",)))
    open_one(tenant)
    assert relay_due().failed == 1
    assert rows(made) == [("opened", "waiting")]
    assert Notification.objects.get().outcome == "The mail server does not answer."


def test_without_a_mail_server_the_delivery_says_so(channel: Make, settings: Settings) -> None:
    settings.EMAIL_HOST = ""
    row = try_out(channel(MailAddress(("kim@example.com",))), now=timezone.now())
    assert (row.state, row.outcome) == (
        NotificationState.GIVEN_UP,
        "No mail server is set up (GUARDOPS_EMAIL_URL).",
    )


def test_pagerduty_gets_each_incident_from_its_beginning_to_its_end(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    channel(PagerDutyAddress("R0UT1NGKEY", sink.url))
    incident = open_one(tenant, release="r6", severity=Severity.WARNING)
    relay_due()
    acknowledged(incident, tenant)
    relay_due()
    over(incident)
    relay_due()
    events = bodies(sink)
    assert [event["event_action"] for event in events] == ["trigger", "acknowledge", "resolve"]
    assert {event["dedup_key"] for event in events} == {f"guardops-{incident.pk}"}
    assert {event["routing_key"] for event in events} == {"R0UT1NGKEY"}
    payload = events[0]["payload"]
    assert (payload["severity"], payload["component"]) == ("warning", "support")
    assert payload["summary"] == f"acme / support: {incident.title}"
    assert events[0]["client_url"] == f"https://ops.example.com/alerts/{incident.pk}/"


def test_pagerduty_gets_each_incident_by_itself_within_the_time_of_one_answer(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(PagerDutyAddress("R0UT1NGKEY", sink.url))
    for subject in ("support", "research", "triage"):
        open_one(tenant, subject)
    claims = [claim_next(timezone.now()) for _ in range(3)]
    assert [len(claim.rows) for claim in claims if claim] == [1, 1, 1]
    for claim in claims:
        assert claim is not None
        deliver(claim)
    assert len({event["dedup_key"] for event in bodies(sink)}) == 3
    assert rows(made) == [("opened", "sent")] * 3


def test_pagerduty_is_not_told_again_since_it_repeats_by_itself(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    channel(PagerDutyAddress("R0UT1NGKEY", sink.url))
    open_one(tenant)
    relay_due()
    assert not Notification.objects.waiting().exists()


def test_a_test_of_pagerduty_leaves_nothing_open_there(channel: Make, sink: Sink) -> None:
    assert try_out(channel(PagerDutyAddress("R0UT1NGKEY", sink.url)), now=timezone.now()).state == "sent"
    trigger, resolve = bodies(sink)
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["payload"]["severity"] == "info"
    assert trigger["dedup_key"] == resolve["dedup_key"]


def test_an_alertmanager_receiver_gets_what_alertmanager_sends(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(AlertmanagerAddress(sink.url, token="t0ken"), group_s=20)
    first, second = open_one(tenant), open_one(tenant, "research", severity=Severity.WARNING)
    make_due(made)
    relay_due()
    over(first)
    make_due(made)
    relay_due()
    firing, resolved = bodies(sink)
    assert (firing["version"], firing["status"], firing["receiver"]) == ("4", "firing", "on call")
    assert [alert["labels"]["severity"] for alert in firing["alerts"]] == ["critical", "warning"]
    assert firing["commonLabels"] == {"alertname": "loop_rate", "tenant": "acme"}
    assert firing["alerts"][1]["generatorURL"] == f"https://ops.example.com/alerts/{second.pk}/"
    assert firing["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
    ended = next(a for a in resolved["alerts"] if a["labels"]["incident"] == str(first.pk))
    assert ended["status"] == "resolved"
    assert ended["fingerprint"] == firing["alerts"][0]["fingerprint"]
    assert sink.posted[0].headers["authorization"] == "Bearer t0ken"


# Real plugins of Apprise over real sockets: only the host that is fixed in them is another one.
SERVICES = {
    "discord": (NotifyDiscord, "notify_url", "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "@here"),
    "slack": (
        NotifySlack,
        "webhook_url",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "<!channel>",
    ),
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_chat_service_gets_the_text_and_pings_nobody(
    channel: Make, tenant: Tenant, sink: Sink, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plugin, attribute, url, ping = SERVICES[name]
    monkeypatch.setattr(plugin, attribute, sink.url)
    sink.answering = Answering(200, b"ok")
    made = channel(service_of(url), repeat_h=0)
    open_one(tenant, title="@everyone <!channel> see @here")
    assert relay_due().sent == 1, Notification.objects.get().outcome
    said = sink.posted[0].body.decode()
    assert "critical" in said.lower()
    assert "everyone" in said
    assert "@everyone" not in said
    assert ping not in said
    assert rows(made) == [("opened", "sent")]


def test_a_chat_service_that_does_not_take_it_is_tried_again(
    channel: Make, tenant: Tenant, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, attribute, url, _ = SERVICES["discord"]
    monkeypatch.setattr(plugin, attribute, sink.url)
    sink.answering = Answering(404, b"unknown webhook")
    made = channel(service_of(url))
    open_one(tenant)
    assert relay_due().failed == 1
    assert rows(made) == [("opened", "waiting")]


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/",
        "https://127.0.0.1/hook",
        "mailto://user:pass@localhost",
        "mmost://10.0.0.1/token",
        "ntfy://10.0.0.1/topic",
        "syslog://",
        "file:///etc/passwd",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?template=/etc/passwd",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ?TEMPLATE=http://169.254.169.254/",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?verify=no",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#a/#b/#c/#d/#e/#f",
        "slack://",
        "not an address",
        "",
        "\ud800",
    ],
)
def test_only_services_whose_host_is_fixed_are_taken(url: str) -> None:
    with pytest.raises(InvalidAddress):
        service_of(url)


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "Slack"),
        ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "Slack"),
        ("https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "Discord"),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", "Telegram"),
        ("https://chat.googleapis.com/v1/spaces/AAAA/messages?key=kkk&token=ttt", "Google Chat"),
        ("opsgenie://12345678-90ab-cdef-1234-567890abcdef?region=eu", "Opsgenie"),
    ],
)
def test_a_service_is_known_by_either_way_to_write_it(url: str, service: str) -> None:
    assert service_of(url).service == service


ADDRESSES: list[Address] = [
    MailAddress(("kim@example.com",)),
    PagerDutyAddress("s3cret-routing-key"),
    AlertmanagerAddress("https://example.com/s3cret-path", token="s3cret-token"),
    service_of("slack://T1JJ3T3L2/A1BRTD4JD/s3cretnlazkcOXrIdevi7FQ"),
]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: type(address).__name__)
def test_no_secret_lies_readable_in_the_database(channel: Make, address: Address) -> None:
    made = Channel.objects.get(pk=channel(address).pk)
    assert b"s3cret" not in bytes(made.secret)
    assert "s3cret" not in made.destination
    assert bytes(made.secret) != sealed(address)  # the same address twice is not recognised either


def test_a_new_secret_key_makes_the_addresses_unreadable_and_says_so(
    channel: Make, tenant: Tenant, settings: Settings
) -> None:
    made = channel()
    settings.SECRET_KEY = "another-key"
    open_one(tenant)
    relay_due()
    assert rows(made) == [("opened", "given_up")]
    assert "Enter it again" in Notification.objects.get().outcome


def test_a_test_is_not_sent_twice_within_seconds(channel: Make, sink: Sink) -> None:
    made, now = channel(), timezone.now()
    try_out(made, now=now)
    with pytest.raises(InvalidChannel, match="wait"):
        try_out(made, now=now + timedelta(seconds=2))
    assert try_out(made, now=now + timedelta(seconds=6)).state == "sent"
