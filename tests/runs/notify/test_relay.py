"""The relay: at least once, under one id, together what belongs together, and only while it matters."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone
from pytest_django import Settings

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.alerts.incidents import acknowledge, resolve, resolve_incident
from runs.choices import NotificationState, RuleKind, Severity, Transition
from runs.models import Channel, Incident, Notification, Silence
from runs.notify import relay
from runs.notify.addresses import PagerDutyAddress
from runs.notify.channels import Place, remove_channel, update_channel
from runs.notify.outbox import enqueue_incident, standing, sweep
from runs.notify.relay import MAX_ATTEMPTS, claim_next, relay_alone, relay_due
from tests.conftest import address_of_database
from tests.factories import make_member, make_tenant

from .conftest import Make, find, make_due, open_one, rows
from .http_sink import Answering, Sink

pytestmark = pytest.mark.django_db


def told(sink: Sink) -> list[list[tuple[str, str]]]:
    """Return, message by message, what was said of which incident."""
    documents = [json.loads(posted.body) for posted in sink.posted]
    return [[(i["subject"], i["transition"]) for i in d["data"]["incidents"]] for d in documents]


def ids(sink: Sink) -> list[str]:
    return [posted.headers["webhook-id"] for posted in sink.posted]


def acknowledged(incident: Incident, tenant: Tenant) -> Incident:
    person = make_member(tenant, Role.REVIEWER)
    return acknowledge(incident, actor=person, now=timezone.now(), version=incident.version)


def over(incident: Incident) -> None:
    resolve_incident(
        incident.tenant_id, RuleKind(incident.rule), incident.subject, now=timezone.now(), how="back to usual"
    )


def test_incidents_within_the_window_go_in_one_message(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel(group_s=20)
    for subject in ("support", "research", "triage"):
        open_one(tenant, subject)
    assert relay_due().sent == 0  # the window is open
    make_due(made)
    assert relay_due().sent == 1
    assert told(sink) == [[("support", "opened"), ("research", "opened"), ("triage", "opened")]]


def test_who_comes_within_the_window_of_a_due_one_goes_along(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(group_s=20)
    open_one(tenant, "support")
    make_due(made)
    open_one(tenant, "research")
    relay_due()
    assert told(sink) == [[("support", "opened"), ("research", "opened")]]


def test_a_transition_is_never_told_twice(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel(repeat_h=0)
    incident = open_one(tenant)
    for _ in range(3):
        enqueue_incident(incident, Transition.OPENED, now=timezone.now())
        relay_due()
    assert len(sink.posted) == 1
    assert rows(made) == [("opened", "sent")]


def test_a_page_is_not_sent_once_somebody_looks_after_it(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    acknowledged(open_one(tenant), tenant)
    assert relay_due().sent == 0
    assert rows(made) == [("opened", "dropped"), ("acknowledged", "dropped")]


def test_an_incident_that_was_over_before_anybody_was_told_is_not_told(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel()
    over(open_one(tenant))
    assert relay_due().dropped == 2
    assert sink.posted == []
    assert rows(made) == [("opened", "dropped"), ("resolved", "dropped")]


def test_who_was_told_that_it_began_is_told_that_it_is_over(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    channel(repeat_h=0)
    incident = open_one(tenant)
    relay_due()
    acknowledged(incident, tenant)
    relay_due()
    over(incident)
    relay_due()
    assert told(sink) == [[("support", t)] for t in ("opened", "acknowledged", "resolved")]


def test_who_wants_no_endings_is_not_told_that_it_is_over(channel: Make, tenant: Tenant, sink: Sink) -> None:
    channel(endings=False, repeat_h=0)
    incident = open_one(tenant)
    relay_due()
    over(incident)
    relay_due()
    assert told(sink) == [[("support", "opened")]]


def test_several_transitions_of_one_incident_are_told_as_one(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(group_s=20)
    open_one(tenant, severity=Severity.WARNING)
    assert find(tenant, severity=Severity.CRITICAL).transition == Transition.WORSE
    make_due(made)
    relay_due()
    assert told(sink) == [[("support", "worse")]]


@pytest.mark.parametrize(
    ("wanted", "severity", "count"),
    [
        (Severity.CRITICAL, Severity.WARNING, 0),
        (Severity.WARNING, Severity.WARNING, 1),
        (Severity.WARNING, Severity.CRITICAL, 1),
        (Severity.WARNING, Severity.INFO, 0),
        (Severity.INFO, Severity.INFO, 1),
    ],
)
def test_a_channel_is_told_from_its_severity_on(
    channel: Make, tenant: Tenant, sink: Sink, wanted: Severity, severity: Severity, count: int
) -> None:
    channel(severity=wanted)
    open_one(tenant, severity=severity)
    relay_due()
    assert len(sink.posted) == count


def test_an_incident_is_told_in_its_tenant_and_its_organisation_alone(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    own = channel()
    whole = channel(place=Place(tenant.organisation))
    others = [
        channel(place=Place(tenant.organisation, make_tenant(organisation=tenant.organisation))),
        channel(place=Place((foreign := make_tenant()).organisation, foreign)),
        channel(place=Place()),
    ]
    open_one(tenant)
    relay_due()
    assert [rows(c)[0] for c in (own, whole)] == [("opened", "sent")] * 2
    assert [rows(c) for c in others] == [[], [], []]


def test_a_channel_is_counted_once_however_many_tenants_its_organisation_has(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    make_tenant("globex", organisation=tenant.organisation)
    channel()
    assert enqueue_incident(open_one(tenant), Transition.WORSE, now=timezone.now()) == 1


def test_what_concerns_the_installation_is_told_to_its_channels_alone(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    own, tenants = channel(place=Place(), repeat_h=0), channel()
    open_one(None, rule=RuleKind.FOLD_LAG)
    relay_due()
    assert (rows(own), rows(tenants)) == ([("opened", "sent")], [])


def test_what_fails_is_tried_again_later_under_the_same_id(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel(repeat_h=0)
    open_one(tenant)
    sink.answering = Answering(503, b"busy")
    done = relay_due()
    assert (done.sent, done.failed) == (0, 1)
    waiting = Notification.objects.get(channel=made)
    assert waiting.state == NotificationState.WAITING
    assert waiting.outcome == "It answered 503."
    assert timedelta(seconds=5) < waiting.due_at - timezone.now() <= timedelta(seconds=10)
    assert relay_due().failed == 0  # not due yet
    sink.answering = Answering(200)
    make_due(made)
    assert relay_due().sent == 1
    assert len(set(ids(sink))) == 1
    assert len(sink.posted) == 2
    assert rows(made) == [("opened", "sent")]


def test_what_is_over_when_it_is_tried_again_is_dropped_and_its_end_is_told(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    """The failed try may have arrived: whoever was told of the beginning must hear of the end."""
    made = channel()
    incident = open_one(tenant)
    sink.answering = Answering(500)
    relay_due()
    over(incident)
    sink.answering = Answering(200)
    make_due(made)
    relay_due()
    make_due(made)
    relay_due()
    assert rows(made) == [("opened", "dropped"), ("resolved", "sent")]
    assert told(sink)[-1] == [("support", "resolved")]


def test_the_end_of_an_incident_waits_for_its_beginning(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    incident = open_one(tenant)
    claim = claim_next(timezone.now())
    assert claim is not None
    over(incident)
    assert claim_next(timezone.now()) is None  # another relay leaves it alone
    relay.deliver(claim)
    relay_due()
    assert rows(made)[-1] == ("resolved", "dropped")  # the page was not sent: it was over by then
    assert sink.posted == []


def test_a_receiver_that_asks_for_time_gets_it(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    open_one(tenant)
    sink.answering = Answering(429, headers={"Retry-After": "900"})
    relay_due()
    wait = Notification.objects.get(channel=made).due_at - timezone.now()
    assert timedelta(minutes=14) < wait <= timedelta(minutes=15)


@pytest.mark.parametrize("status", [410])
def test_a_receiver_that_is_gone_is_not_asked_again(
    channel: Make, tenant: Tenant, sink: Sink, status: int
) -> None:
    made = channel()
    open_one(tenant)
    sink.answering = Answering(status)
    relay_due()
    assert rows(made) == [("opened", "given_up")]


def test_an_address_that_leads_inside_is_given_up_at_once(
    channel: Make, tenant: Tenant, sink: Sink, settings: Settings
) -> None:
    made = channel()
    settings.WEBHOOK_ALLOW = []
    open_one(tenant)
    relay_due()
    assert rows(made) == [("opened", "given_up")]
    assert sink.posted == []


def test_tries_are_bounded(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    open_one(tenant)
    sink.answering = Answering(500)
    Notification.objects.update(attempts=MAX_ATTEMPTS - 1)
    relay_due()
    assert rows(made) == [("opened", "given_up")]
    assert standing(timezone.now()).given_up == 1


def test_a_channel_that_fails_holds_up_no_other(channel: Make, tenant: Tenant, sink: Sink) -> None:
    bad, good = channel(repeat_h=0), channel(name="good", repeat_h=0)
    for subject in ("support", "research"):
        open_one(tenant, subject)
        Notification.objects.filter(channel=bad, message=None).update(
            due_at=timezone.now() - timedelta(hours=1)
        )
    Channel.objects.filter(pk=bad.pk).update(secret=b"not ours")
    done = relay_due()
    assert done.sent == 1  # both incidents in one message
    assert [state for _, state in rows(good)] == ["sent", "sent"]
    assert {state for _, state in rows(bad)} == {"given_up"}


def test_a_claim_that_ran_out_is_taken_over_and_its_holder_changes_nothing(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(repeat_h=0)
    open_one(tenant)
    first = claim_next(timezone.now())
    assert first is not None
    assert claim_next(timezone.now()) is None
    Notification.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    second = claim_next(timezone.now())
    assert second is not None
    assert second.id == first.id
    sink.answering = Answering(500)
    relay.deliver(first)  # comes back late, and fails
    assert Notification.objects.get(channel=made).claimed_until == second.until
    sink.answering = Answering(200)
    relay.deliver(second)
    assert rows(made) == [("opened", "sent")]
    assert len(set(ids(sink))) == 1


def test_an_open_incident_is_told_again_until_somebody_acknowledges(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(repeat_h=4)
    incident = open_one(tenant)
    relay_due()
    waiting = Notification.objects.waiting().get(channel=made)
    assert timedelta(hours=3.9) < waiting.due_at - timezone.now() <= timedelta(hours=4)
    make_due(made)
    relay_due()
    assert told(sink)[-1] == [("support", "repeat")]
    acknowledged(incident, tenant)
    make_due(made)
    relay_due()
    assert told(sink)[-1] == [("support", "acknowledged")]
    assert not Notification.objects.waiting().exists()


@pytest.mark.parametrize("to_pagerduty", [False, True])
def test_an_incident_that_reopens_goes_on_being_told_again(
    channel: Make, tenant: Tenant, sink: Sink, to_pagerduty: bool
) -> None:
    made = channel(PagerDutyAddress("R0UT1NGKEY", sink.url) if to_pagerduty else None, repeat_h=4)
    incident = open_one(tenant)
    relay_due()
    over(incident)
    make_due(made)
    relay_due()  # that it is over; what was to be repeated is dropped
    assert find(tenant).transition == Transition.REOPENED
    make_due(made)
    assert relay_due().sent == 1
    told_last = json.loads(sink.posted[-1].body)
    if to_pagerduty:
        assert (told_last["event_action"], told_last["dedup_key"]) == ("trigger", f"guardops-{incident.pk}")
    else:
        assert told(sink)[-1] == [("support", "repeat")]


def test_what_was_over_before_it_could_be_told_is_told_when_it_reopens(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(repeat_h=0)
    over(open_one(tenant))
    relay_due()
    assert find(tenant).transition == Transition.REOPENED
    relay_due()
    assert told(sink) == [[("support", "reopened")]]
    assert rows(made) == [("opened", "dropped"), ("resolved", "dropped"), ("reopened", "sent")]


def test_an_incident_is_told_again_however_long_ago_it_was_told_first(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    made = channel(repeat_h=4)
    open_one(tenant)
    relay_due()
    for _ in range(2):
        make_due(made)
        relay_due()
    # The first repeat was so long ago that it has been swept.
    Notification.objects.filter(transition="repeat", state=NotificationState.SENT, version=1).delete()
    make_due(made)
    relay_due()
    assert Notification.objects.waiting().filter(channel=made, transition="repeat").count() == 1


def test_nothing_is_told_again_while_a_silence_covers_it(channel: Make, tenant: Tenant, sink: Sink) -> None:
    made = channel()
    open_one(tenant)
    relay_due()
    now = timezone.now()
    Silence.objects.create(
        tenant=tenant, reason="known", created_at=now, until=now + timedelta(hours=9), created_by=None
    )
    make_due(made)
    assert relay_due().dropped == 1
    assert told(sink) == [[("support", "opened")]]


def test_a_channel_that_is_switched_off_or_removed_is_sent_nothing(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    off, gone = channel(), channel()
    open_one(tenant)
    update_channel(off, {"enabled": False}, version=1, actor=SYSTEM)
    remove_channel(gone, actor=SYSTEM, now=timezone.now())
    assert relay_due().dropped == 2
    assert sink.posted == []


def test_a_person_who_resolves_is_told_of_like_a_rule(channel: Make, tenant: Tenant, sink: Sink) -> None:
    channel(repeat_h=0)
    incident = open_one(tenant)
    relay_due()
    person = make_member(tenant, Role.REVIEWER)
    resolve(incident, actor=person, now=timezone.now(), version=incident.version)
    relay_due()
    assert told(sink)[-1] == [("support", "resolved")]


def test_a_fault_of_ours_is_tried_again_and_stops_no_other(
    channel: Make, tenant: Tenant, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = channel(repeat_h=0), channel(name="good", repeat_h=0)
    send = relay.send

    def failing(address: object, message: relay.Message) -> str:
        if message.channel != "good":
            raise ZeroDivisionError
        return send(address, message)  # type: ignore[arg-type]

    monkeypatch.setattr(relay, "send", failing)
    open_one(tenant)
    relay_due()
    assert (rows(bad), rows(good)) == ([("opened", "waiting")], [("opened", "sent")])
    assert "fault of its own" in Notification.objects.get(channel=bad).outcome


def test_one_periodic_relay_works_at_a_time(channel: Make, tenant: Tenant, sink: Sink) -> None:
    channel(repeat_h=0)
    open_one(tenant)
    with psycopg.connect(address_of_database()) as other:
        other.execute("SELECT pg_advisory_lock(%s, 0)", [relay.LOCK_SPACE])
        assert relay_alone(seconds=5, threads=1).sent == 0
        other.execute("SELECT pg_advisory_unlock(%s, 0)", [relay.LOCK_SPACE])  # closing takes a moment
    assert relay_alone(seconds=5, threads=1).sent == 1


def test_old_deliveries_are_forgotten_and_what_waits_is_not(
    channel: Make, tenant: Tenant, sink: Sink
) -> None:
    channel()
    open_one(tenant)
    relay_due()
    later = timezone.now() + timedelta(days=91)
    assert sweep(later) == 1
    assert [row.transition for row in Notification.objects.all()] == ["repeat"]
    assert standing(later).waiting == 1
    assert standing(later).oldest_due is not None
