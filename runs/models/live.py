"""What guards say of runs that have not ended, and of work that never became a run."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import and_

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from guardops.guard.events import MAX_COST
from runs.querysets import LiveRunQuerySet, RefusedWorkQuerySet

from .fields import PlainJSONField
from .run import text

MAX_COUNT = 1_000_000_000
# An event's floor and ceiling of every time (`runs.ingest.checks`): what every zone can show.
TIMES = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))


def short_texts(name: str, /, **most: int) -> models.CheckConstraint:
    """Return the check ``name`` of how many characters each text has at most."""
    checks = [LessThanOrEqual(Length(field), length) for field, length in most.items()]
    return models.CheckConstraint(condition=reduce(and_, checks), name=name)


def no_json() -> PlainJSONField:
    return PlainJSONField(default=dict)


class LiveRun(models.Model):
    """A run that started and has not ended, so far as it is known.

    Written by ingest alone: ``run.started`` and ``run.heartbeat`` upsert it, ``run.ended`` deletes it in the
    transaction that stores the run, and `runs.ingest.sweep` drops what was silent for too long. A heartbeat
    whose ``run.started`` has not arrived makes a row as well, with an empty job type.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.IntegerField()
    run_id = models.UUIDField()  # as sent, or the one that stands for ``external_id``
    external_id = text()  # the sender's own id, empty where it sent a run_id
    root_task_id = text()  # empty where the run is the root of its own task
    parent_run_id = models.UUIDField(null=True)
    resumed_from = models.UUIDField(null=True)
    attempt = models.SmallIntegerField(default=1)
    job_type = text()
    agent = text()
    release = text()  # "release" or "release+prompt_version"
    started_at = models.DateTimeField()  # of its first sign of life where run.started has not arrived
    started_digest = models.BinaryField(max_length=16, null=True)  # of run.started; null until that arrives
    received_at = models.DateTimeField()  # of its first sign of life
    last_at = models.DateTimeField()  # receipt of its last one
    seq = models.IntegerField(default=-1)  # of the heartbeat that counts, -1 before the first
    steps = models.IntegerField(default=0)
    turns = models.IntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    pressure = models.SmallIntegerField(
        default=0
    )  # the highest share used of a limit, in percent rounded down
    pressure_limit = text()  # that limit's name, empty where no heartbeat named one
    pressures = no_json()  # share used by limit, 1 is all of it
    sources = PlainJSONField(default=list)  # the ones called most, as in `guardops.guard.events.Source`
    detail = no_json()  # envelope, limits, policy and guard of run.started in the form of the wire
    clock_suspect = models.BooleanField(default=False)
    sanitized = models.BooleanField(default=False)

    objects = LiveRunQuerySet.as_manager()

    class Meta:
        db_table = "live_run"
        indexes = [
            # The tenant's runs by pressure, the highest first, and how many are near a limit.
            models.Index(fields=["tenant_id", "pressure", "run_id"], name="live_run_pressure"),
            # Which runs are silent, and which of them the sweep drops.
            models.Index(fields=["tenant_id", "last_at"], name="live_run_last"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(seq__range=(-1, MAX_COUNT))
                & Q(steps__range=(0, MAX_COUNT))
                & Q(turns__range=(0, MAX_COUNT))
                & Q(attempt__range=(1, 1_000))
                & Q(pressure__range=(0, 10_000)),
                name="live_run_counts_bounded",
            ),
            models.CheckConstraint(condition=Q(cost__range=(0, MAX_COST)), name="live_run_cost_bounded"),
            models.CheckConstraint(condition=Q(started_at__range=TIMES), name="live_run_times_bounded"),
            short_texts(
                "live_run_texts_short",
                external_id=128,
                root_task_id=128,
                job_type=128,
                agent=128,
                release=257,
                pressure_limit=64,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}"


class RefusedWork(models.Model):
    """Delegated work that a guard refused, so that no run began. Append-only, written by ingest."""

    pk = models.CompositePrimaryKey("tenant_id", "refusal_id")
    tenant_id = models.IntegerField()
    refusal_id = models.UUIDField()
    body_digest = models.BinaryField(max_length=16)
    reason = text()  # canonical code, an unknown one verbatim
    job_type = text()
    agent = text()
    root_task_id = text()  # of the envelope, empty without one
    parent_run_id = models.UUIDField(null=True)  # of the envelope
    envelope = PlainJSONField(null=True)  # in the form of the wire
    detail = no_json()
    at = models.DateTimeField()  # when it was refused, or its receipt where the clock is suspect
    received_at = models.DateTimeField()
    clock_suspect = models.BooleanField(default=False)
    sanitized = models.BooleanField(default=False)

    objects = RefusedWorkQuerySet.as_manager()

    class Meta:
        db_table = "refused_work"
        indexes = [
            # The newest of a tenant, keyset pages of them, and what retention deletes.
            models.Index(fields=["tenant_id", "at", "refusal_id"], name="refused_work_at"),
            # What a task's tree was refused.
            models.Index(
                fields=["tenant_id", "root_task_id"],
                name="refused_work_root",
                condition=~Q(root_task_id=""),
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="refused_work_reason_named"),
            models.CheckConstraint(condition=Q(at__range=TIMES), name="refused_work_times_bounded"),
            short_texts("refused_work_texts_short", reason=64, job_type=128, agent=128, root_task_id=128),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.refusal_id}"
