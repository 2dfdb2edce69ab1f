"""The relay: takes what is due from the outbox, renders it, sends it and says so in its rows.

Any number may run at once. A message is claimed for ``LEASE`` in a transaction of its own before it is sent,
so that one that is killed in between costs a second try with the same id, and nothing is lost.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

import structlog
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Least, Now
from django.utils import timezone

from runs.choices import ChannelKind, NotificationState, SubjectKind
from runs.models import Channel, Notification
from runs.models.notify import MAX_OUTCOME, MAX_SAID

from .addresses import opened
from .items import choose
from .messages import Message, title_of
from .outbox import PAGES, REPEAT, enqueue_repeat
from .querysets import NotificationQuerySet
from .secrets import Unreadable
from .senders.failing import NotTaken
from .sending import send
from .subjects import body_of

LOCK_SPACE = 4_701_011
"""pg_try_advisory_lock(LOCK_SPACE, 0), a session's: one of the periodic relays at a time."""
LEASE = timedelta(minutes=2)
"""Longer than any sending takes: after it a relay counts as dead."""
MOST_IN_ONE = 50
DELAYS = [10, 30, 60, 120, 300, 600, 1_200, 1_800]
"""Seconds before each further try; the last one repeats."""
MAX_ATTEMPTS = 20  # about half a day
_LONGEST_WAIT_S = 3_600  # that a receiver may ask for
_REST = timedelta(minutes=1)  # at most, for what else waits for a channel that failed

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Relayed:
    """What one run of the relay did, in messages; ``dropped`` counts notifications."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that this relay alone sends until ``until``."""

    id: uuid.UUID
    channel: Channel
    rows: Sequence[Notification]
    until: datetime


@dataclass(slots=True)
class _Round:
    """What the threads of one run share: their sum, and the channels that failed in it."""

    done: Relayed = field(default_factory=Relayed)
    resting: set[int] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)


def relay_alone(*, seconds: float, threads: int) -> Relayed:
    """Do what `relay_due` does, unless another process is at it: receivers that hang hold up one of them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LOCK_SPACE])
        if not cursor.fetchone()[0]:
            return Relayed()
        try:
            return relay_due(seconds=seconds, threads=threads)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK_SPACE])


def relay_due(*, seconds: float = 20.0, threads: int = 1) -> Relayed:
    """Send what is due until nothing is, or for about ``seconds``; who fails is asked again in the next run.

    With several ``threads`` a receiver that hangs keeps only its own messages waiting.
    """
    this, end = _Round(), time.monotonic() + seconds
    if threads == 1:
        _work(this, end)
    elif _due(timezone.now()).exists():  # mostly nothing is, which costs no threads
        with ThreadPoolExecutor(threads, thread_name_prefix="relay") as pool:
            for working in [pool.submit(_work_apart, this, end) for _ in range(threads)]:
                working.result()
    return this.done


def _work_apart(this: _Round, end: float) -> None:
    try:
        _work(this, end)
    finally:
        connection.close()


def _work(this: _Round, end: float) -> None:
    while time.monotonic() < end:
        with this.lock:
            claim = claim_next(timezone.now(), resting=this.resting)
            if claim is None:
                return
            this.resting.add(claim.channel.pk)  # one message of a channel at a time
        dropped, taken = deliver(claim)
        with this.lock:
            this.done.dropped += dropped
            this.done.sent += taken is True
            this.done.failed += taken is False
            if taken is not False:
                this.resting.discard(claim.channel.pk)


def claim_next(now: datetime, *, resting: set[int] | frozenset[int] = frozenset()) -> Claim | None:
    """Claim the message that has been due for longest, with what goes along; None where nothing is due."""
    with transaction.atomic():
        first = (
            _due(now)
            .exclude(channel__in=list(resting))
            .select_related("channel")
            .select_for_update(of=("self",), skip_locked=True)
            .order_by("due_at", "id")
            .first()
        )
        if first is None:
            return None
        rows, until = list(_along(first, now)), now + LEASE
        message = first.message or uuid.uuid4()
        ids = [row.pk for row in rows]
        Notification.objects.filter(pk__in=ids).update(
            message=message, claimed_until=until, attempts=F("attempts") + 1
        )
    for row in rows:
        row.attempts += 1
    return Claim(message, first.channel, rows, until)


def deliver(claim: Claim) -> tuple[int, bool | None]:
    """Send a claimed message; return how many notifications were dropped, and whether it was taken.

    None where nothing of it was to be sent any more.
    """
    message, rows, dropped = _rendered(claim, timezone.now())
    for row, why in dropped:
        _end([row], claim, NotificationState.DROPPED, outcome=why, sent=False)
    if message is None:
        return len(dropped), None
    said = title_of(message)[:MAX_SAID]
    try:
        outcome = send(opened(claim.channel.secret), message)
    except NotTaken as failure:
        _failed(claim, rows, said, failure)
    except Unreadable as failure:
        _failed(claim, rows, said, NotTaken(failure.message, final=True))
    except Exception:  # a fault of ours, or of a library's: the others are still to be told
        _log.exception("notification failed", channel=claim.channel.pk)
        _failed(claim, rows, said, NotTaken("GuardOps could not send it, by a fault of its own."))
    else:
        _end(rows, claim, NotificationState.SENT, outcome=outcome, said=said)
        _plan_repeats(claim.channel, rows)
        return len(dropped), True
    return len(dropped), False


def _due(now: datetime) -> NotificationQuerySet:
    # By both clocks: a decision is due by the database's, and no earlier for a worker whose clock is ahead.
    return _free(now).filter(due_at__lte=Least(now, Now()))


def _free(now: datetime) -> NotificationQuerySet:
    """What nobody is sending, and what follows on nothing that is still being sent."""
    before = Notification.objects.waiting().filter(
        channel=OuterRef("channel"),
        kind=OuterRef("kind"),
        subject=OuterRef("subject"),
        id__lt=OuterRef("id"),
        message__isnull=False,
    )
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    return Notification.objects.waiting().filter(free, ~Exists(before))


def _along(first: Notification, now: datetime) -> Iterator[Notification]:
    """Yield the rows of the first one's message: those of its earlier try, or what gathers with it."""
    if first.message is not None:
        same = Notification.objects.waiting().filter(message=first.message)
    elif first.kind != SubjectKind.INCIDENT:
        same = Notification.objects.filter(pk=first.pk)
    else:
        gathered = now + timedelta(seconds=first.channel.group_s)
        same = _free(now).filter(
            channel=first.channel_id, kind=first.kind, message=None, due_at__lte=gathered
        )
    # PagerDuty is posted to once an incident: several would take longer than the lease.
    most = 1 if first.channel.kind == ChannelKind.PAGERDUTY else MOST_IN_ONE
    yield from same.select_for_update(of=("self",), skip_locked=True).order_by("id")[:most]


def _rendered(
    claim: Claim, now: datetime
) -> tuple[Message | None, Sequence[Notification], Sequence[tuple[Notification, str]]]:
    """Return the message as it is to be sent now, the rows that it tells of, and those that it does not."""
    channel, kind = claim.channel, claim.rows[0].kind
    off = not channel.enabled and kind != SubjectKind.TEST
    if channel.removed_at is not None or off:
        return None, [], [(row, "Not sent: the channel was switched off.") for row in claim.rows]
    if kind == SubjectKind.INCIDENT:
        chosen = choose(channel, claim.rows, now)
        message = Message(claim.id, now, channel.name, items=[item for _, item in chosen.told])
        return message if chosen.told else None, [row for row, _ in chosen.told], chosen.dropped
    if kind == SubjectKind.TEST:
        return Message(claim.id, now, channel.name), claim.rows, []
    body = body_of(kind, claim.rows[0].subject)
    if body is None:
        return None, [], [(row, "Not sent: it was taken back, or is over.") for row in claim.rows]
    return Message(claim.id, now, channel.name, body=body), claim.rows, []


def _failed(claim: Claim, rows: Sequence[Notification], said: str, failure: NotTaken) -> None:
    now, attempts = timezone.now(), max(row.attempts for row in rows)
    _log.warning("notification not taken", channel=claim.channel.pk, attempts=attempts, why=failure.message)
    if failure.final or attempts >= MAX_ATTEMPTS or rows[0].kind == SubjectKind.TEST:
        _end(rows, claim, NotificationState.GIVEN_UP, outcome=failure.message, said=said)
        return
    wait = timedelta(seconds=_wait_s(attempts, failure.retry_after_s))
    _mine(rows, claim).update(
        due_at=now + wait, claimed_until=None, said=said, outcome=failure.message[:MAX_OUTCOME]
    )
    # The others would meet the same; what is new waits for a minute at most.
    rest = now + min(wait, _REST)
    Notification.objects.waiting().filter(
        channel=claim.channel, message=None, claimed_until=None, due_at__lt=rest
    ).update(due_at=rest)


def _wait_s(attempts: int, asked: float | None) -> float:
    wait = DELAYS[min(attempts, len(DELAYS)) - 1]
    return max(wait, min(asked or 0, _LONGEST_WAIT_S))


def _end(
    rows: Sequence[Notification],
    claim: Claim,
    state: NotificationState,
    *,
    outcome: str,
    said: str = "",
    sent: bool = True,
) -> None:
    changes: dict[str, object] = {"said": said} if said else {}
    if not sent:
        changes["attempts"] = F("attempts") - 1  # this one never left
    _mine(rows, claim).update(
        state=state, ended_at=timezone.now(), claimed_until=None, outcome=outcome[:MAX_OUTCOME], **changes
    )


def _mine(rows: Sequence[Notification], claim: Claim) -> NotificationQuerySet:
    """Compare and set: a relay whose claim ran out has nothing to say any more."""
    return Notification.objects.filter(pk__in=[row.pk for row in rows], claimed_until=claim.until)


def _plan_repeats(channel: Channel, rows: Sequence[Notification]) -> None:
    paged = {
        row.subject
        for row in rows
        if row.kind == SubjectKind.INCIDENT and (row.transition in PAGES or row.transition == REPEAT)
    }
    enqueue_repeat(channel, paged, now=timezone.now())
