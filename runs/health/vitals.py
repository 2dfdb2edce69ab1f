"""How GuardOps itself is: what its page shows and what /metrics says, read in a few statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min

from guardops.beat import LOCK
from policies.choices import GuardState
from policies.models import GuardInstance
from runs.choices import CheckpointState, IncidentState
from runs.models import Checkpoint, Evaluation, Incident, Pulse
from runs.notify.outbox import Standing, standing
from runs.partitions import DAYS_AHEAD, existing_days
from runs.retention.storage import Disk, read_disk
from runs.rollup.holders import oldest_transaction
from runs.rollup.state import State, read_lag

from .broker import read_queue

_HOLDS_LOCK = """\
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = %s AND objid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""


@dataclass(frozen=True, slots=True)
class Counting:
    """How far fold is: runs that wait, how long it is behind, and who holds it up."""

    waiting: int
    lag: timedelta | None  # None where fold has never counted
    held_by: str


@dataclass(frozen=True, slots=True)
class Vitals:
    """The state of GuardOps at ``at``."""

    at: datetime
    counting: Counting
    beat_holds: bool  # some beat holds the lock
    beat: Pulse | None
    heartbeat: Pulse | None  # None where no watchdog has ever been called
    failing_rules: tuple[str, ...]
    queue: int | None  # tasks in the broker; None where it does not answer
    outbox: Standing
    disk: Disk | None
    days_ahead: int
    guards: Mapping[str, int] = field(default_factory=dict)
    incidents: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by state and severity
    checkpoints: int = 0
    oldest_checkpoint: datetime | None = None

    @property
    def beat_age(self) -> timedelta | None:
        """Since when a worker has not done beat's minute; None where none ever has."""
        return max(timedelta(0), self.at - self.beat.at) if self.beat else None

    @property
    def outbox_late(self) -> timedelta:
        """How long the oldest notification has been waiting beyond its time."""
        due = self.outbox.oldest_due
        return max(timedelta(0), self.at - due) if due else timedelta(0)


def read_vitals(now: datetime) -> Vitals:
    """Return the state of GuardOps; the broker's silence costs a second at most."""
    today = now.astimezone(UTC).date()
    pulses = {pulse.name: pulse for pulse in Pulse.objects.all()}
    waiting = Checkpoint.objects.filter(state__in=[CheckpointState.OPEN, CheckpointState.CLAIMED])
    checkpoints = waiting.aggregate(number=Count("pk"), oldest=Min("opened_at"))
    with connection.cursor() as cursor:
        counting, disk = _counting(cursor, now), read_disk(cursor)
        cursor.execute(_HOLDS_LOCK, [LOCK >> 32, LOCK & 0xFFFFFFFF])
        (beat_holds,) = cursor.fetchone()
    return Vitals(
        at=now,
        counting=counting,
        beat_holds=beat_holds,
        beat=pulses.get("beat"),
        heartbeat=pulses.get("heartbeat") if settings.HEARTBEAT_URL else None,
        failing_rules=tuple(Evaluation.objects.exclude(error="").values_list("rule", flat=True)),
        queue=read_queue(),
        outbox=standing(now),
        disk=disk,
        days_ahead=sum(today < day <= today + timedelta(days=DAYS_AHEAD) for day in existing_days()),
        guards=_guards(now),
        incidents=_incidents(),
        checkpoints=checkpoints["number"],
        oldest_checkpoint=checkpoints["oldest"],
    )


def _counting(cursor: Any, now: datetime) -> Counting:
    state, lag = State.read(cursor), read_lag(now)
    last = state.last if state else 0
    cursor.execute("SELECT coalesce(sum(runs), 0)::bigint FROM ingest_span WHERE mark >= %s", [last])
    (waiting,) = cursor.fetchone()
    return Counting(waiting, lag, oldest_transaction() if waiting else "")


def _guards(now: datetime) -> dict[str, int]:
    counted = dict.fromkeys(GuardState.values, 0)
    rows = GuardInstance.objects.with_state(now).order_by().values_list("state").annotate(Count("pk"))
    return counted | dict(rows)


def _incidents() -> dict[tuple[str, str], int]:
    rows = Incident.objects.exclude(state=IncidentState.RESOLVED).order_by()
    counted = rows.values_list("state", "severity").annotate(Count("pk"))
    return {(state, severity): number for state, severity, number in counted}
