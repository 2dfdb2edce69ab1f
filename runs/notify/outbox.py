"""The outbox: what channels are to be told, written in the transaction of what happened.

Whether it is still worth telling is looked at when it is sent (`runs.notify.relay`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Max, Min, Q

from runs.choices import ChannelKind, NotificationState, SubjectKind, Transition
from runs.models import Channel, Notification

if TYPE_CHECKING:
    from runs.models import Decision, Incident

    from .querysets import ChannelQuerySet

PAGES = frozenset({Transition.OPENED, Transition.REOPENED, Transition.UNSILENCED, Transition.WORSE})
"""Transitions that somebody is woken for; all others go only to channels that were told of one of these."""
REPEAT = "repeat"
"""The transition of a notification that tells again of an incident that is still open."""
KEPT = timedelta(days=90)

# People have seen who acknowledged; what forwards to them has to know.
_HEAR_ACKNOWLEDGED = (ChannelKind.WEBHOOK, ChannelKind.PAGERDUTY)


@dataclass(frozen=True, slots=True)
class Standing:
    """How the outbox fares: what waits, since when the oldest has been due, what was given up of late."""

    waiting: int
    oldest_due: datetime | None
    given_up: int


def enqueue_incident(incident: Incident, transition: str, *, now: datetime) -> int:
    """Tell the channels that want it of a transition of an incident, once; return how many that are.

    Call it in the transition's own transaction, with the incident's new ``version``, and only where somebody
    is to be told: not for what a silence covers. A page (``PAGES``) goes to the channels of the incident's
    tenant and of its organisation, or of the installation, that want its severity, for what has reopened only
    to those of them that were not told that it began; ``acknowledged`` and ``resolved`` to those that were
    told of it; other transitions to nobody.
    """
    if transition in PAGES:
        channels = Channel.objects.hearing(incident.tenant_id).wanting(incident.severity)
        if transition == Transition.REOPENED:
            channels = _go_on(channels, incident, now)
    elif transition in (Transition.ACKNOWLEDGED, Transition.RESOLVED):
        told = Notification.objects.filter(kind=SubjectKind.INCIDENT, subject=incident.pk)
        hears = Q(kind__in=_HEAR_ACKNOWLEDGED) if transition == Transition.ACKNOWLEDGED else Q(endings=True)
        channels = Channel.objects.hearing(incident.tenant_id).filter(
            hears,
            pk__in=told.filter(Q(attempts__gt=0) | Q(state=NotificationState.WAITING)).values("channel"),
        )
    else:
        return 0
    return _enqueue(channels, SubjectKind.INCIDENT, incident.pk, str(transition), incident.version, now)


def enqueue_decision(decision: Decision, *, now: datetime) -> int:
    """Tell the webhooks that want decisions of one, once it can no longer be undone; return how many."""
    channels = Channel.objects.hearing(decision.tenant_id).filter(decisions=True)
    return _enqueue(
        channels, SubjectKind.DECISION, decision.pk, "decided", 1, now, due_at=decision.deliver_at
    )


def enqueue_repeat(
    channel: Channel, incidents: Iterable[UUID], *, now: datetime, puts_off: bool = True
) -> None:
    """Tell a channel again of incidents that it was told of, in some hours, should they be open then.

    One repeat waits at most; it is put off where the channel was told just now. PagerDuty repeats by itself,
    but not what it was told is over.
    """
    if not channel.repeat_h or (puts_off and channel.kind == ChannelKind.PAGERDUTY):
        return
    due = now + timedelta(hours=channel.repeat_h)
    for incident in sorted(incidents):
        of_it = Notification.objects.filter(
            channel=channel, kind=SubjectKind.INCIDENT, subject=incident, transition=REPEAT
        )
        waiting = of_it.waiting().filter(attempts=0)
        if not (waiting.update(due_at=due) if puts_off else of_it.waiting().exists()):
            # Not their number: old ones are deleted, and a number that was used would not be kept again.
            number = (of_it.aggregate(last=Max("version"))["last"] or 0) + 1
            rows = [_row(channel.pk, SubjectKind.INCIDENT, incident, REPEAT, number, now, due)]
            Notification.objects.bulk_create(rows, ignore_conflicts=True)


def standing(now: datetime) -> Standing:
    """Return how the outbox of the installation fares at ``now``, in two queries."""
    waiting = Notification.objects.waiting()
    failed = Notification.objects.filter(
        state=NotificationState.GIVEN_UP, created_at__gt=now - KEPT, ended_at__gt=now - timedelta(days=1)
    )
    return Standing(
        waiting=waiting.count(),
        oldest_due=waiting.filter(due_at__lte=now).aggregate(oldest=Min("due_at"))["oldest"],
        given_up=failed.count(),
    )


def sweep(now: datetime) -> int:
    """Delete what has been kept for long enough; return how many rows that were."""
    old = Notification.objects.filter(created_at__lt=now - KEPT).exclude(state=NotificationState.WAITING)
    return old.delete()[0]


def _go_on(channels: ChannelQuerySet, incident: Incident, now: datetime) -> ChannelQuerySet:
    """Return the channels that were not told of an incident that reopens; the others go on repeating it.

    They may have been kept from it by a silence that has ended since, or by an end that came too soon.
    """
    pages = Notification.objects.filter(
        kind=SubjectKind.INCIDENT, subject=incident.pk, transition__in=PAGES
    ).values("channel")
    sent = pages.filter(state=NotificationState.SENT)
    for channel in channels.filter(pk__in=sent).order_by("pk"):
        # What was to be repeated while it was over has been dropped.
        enqueue_repeat(channel, [incident.pk], now=now, puts_off=False)
    return channels.exclude(pk__in=sent | pages.filter(state=NotificationState.WAITING))


def _enqueue(
    channels: Iterable[Channel],
    kind: SubjectKind,
    subject: UUID,
    transition: str,
    version: int,
    now: datetime,
    due_at: datetime | None = None,
) -> int:
    rows = [
        _row(channel.pk, kind, subject, transition, version, now, due_at or now + _gathering(channel))
        for channel in sorted(channels, key=lambda channel: channel.pk)
    ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _row(
    channel_id: int,
    kind: SubjectKind,
    subject: UUID,
    transition: str,
    version: int,
    now: datetime,
    due_at: datetime,
) -> Notification:
    return Notification(
        channel_id=channel_id,
        kind=kind,
        subject=subject,
        transition=transition,
        version=version,
        created_at=now,
        due_at=due_at,
    )


def _gathering(channel: Channel) -> timedelta:
    """Return how long a channel waits for more before a message goes; PagerDuty gathers by itself."""
    return timedelta(seconds=0 if channel.kind == ChannelKind.PAGERDUTY else channel.group_s)
