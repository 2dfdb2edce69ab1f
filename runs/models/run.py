"""One row a run that ended: append-only, filled by COPY alone (`runs.ingest`), no table refers to it."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from guardops.guard import events
from runs.querysets import RunQuerySet

from .fields import PlainJSONField


def text(**options: Any) -> models.TextField[str, str]:
    return models.TextField(default="", blank=True, db_collation="C", **options)


class Run(models.Model):
    """The table is partitioned by day on run_id (UUIDv7); its DDL, checks and indexes are the migration's.

    ``at`` in [a, b) implies a run_id within `runs.partitions.run_id_bounds(a, b)`: give both to read only
    the partitions that can hold the rows. Defer ``detail`` where a page does not show it.
    """

    pk = models.CompositePrimaryKey("tenant_id", "run_id")
    tenant_id = models.IntegerField()
    run_id = models.UUIDField()
    ingest_mark = models.BigIntegerField()  # the transaction that wrote it: what fold counts by
    body_digest = models.BinaryField(max_length=16)
    root_task_id = text()  # empty where the run is the root of its own task: the task id is its run_id then
    parent_run_id = models.UUIDField(null=True)
    resumed_from = models.UUIDField(null=True)
    attempt = models.SmallIntegerField(default=1)
    job_type = text()
    agent = text()
    release = text()  # "release" or "release+prompt_version"
    outcome = text(choices=[(o.value, o.value) for o in events.Outcome])
    answer = text(choices=[(a.value, a.value) for a in events.Answer])
    halt_reason = text()  # canonical code, an unknown one verbatim, empty where no guard stopped it
    family = text()  # of the halt reason, empty without one
    mode = text()
    would_halt = text()  # shadow mode's first hit, canonical code
    at = (
        models.DateTimeField()
    )  # the axis of every chart: ended_at, or received_at where the clock is suspect
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    received_at = models.DateTimeField()
    steps = models.IntegerField(default=0)
    turns = models.IntegerField(default=0)
    tool_calls = models.IntegerField(default=0)
    refusals = models.IntegerField(default=0)
    retries = models.IntegerField(default=0)
    step_unit = text()
    step_cap = models.IntegerField(null=True)  # the cap in force on steps of this unit
    duration_ms = models.BigIntegerField(default=0)
    tokens_input = models.BigIntegerField(default=0)
    tokens_output = models.BigIntegerField(default=0)
    tokens_cached = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6)
    cost_basis = text()
    completes = models.BooleanField(default=False)  # this run completes its task (once a task)
    announced = models.BooleanField(default=False)  # its run.started had arrived when it was stored
    eligible = models.BooleanField(default=False)  # first attempt of a root run whose task counts
    looped = models.BooleanField(default=False)  # counts in the loop rate
    provider_failure = models.BooleanField(default=False)
    blocked = models.IntegerField(default=0)  # blocked fingerprints
    blocked_by_provider = models.IntegerField(default=0)
    duplicates = models.IntegerField(default=0)
    peak_repeats = models.SmallIntegerField(default=0)
    peak_stall = models.SmallIntegerField(default=0)
    peak_error_streak = models.SmallIntegerField(default=0)
    peak_domain_calls = models.SmallIntegerField(default=0)
    peak_listing_pages = models.SmallIntegerField(default=0)
    peak_refusals = models.SmallIntegerField(default=0)
    policy_revision = models.BigIntegerField(default=0)
    policy_version = models.BigIntegerField(default=0)
    guard_version = text()
    clock_suspect = models.BooleanField(default=False)
    sanitized = models.BooleanField(default=False)
    # sources, ledger, interventions, limits, last_steps, halt_detail, first_reason, lineage, policy, task,
    # truncated, attributes, guard, external_id, answer_by, and run_id and root_task_id as sent where they
    # differ: in the form of the wire, defaults left out.
    detail = PlainJSONField(default=dict)

    objects = RunQuerySet.as_manager()

    class Meta:
        db_table = "run"


class ExternalRun(models.Model):
    """Maps an id that is no row's key to the run_id its run is stored under.

    ``external_id`` is ``external:<the sender's id>``, or ``run:<uuid>`` for a run_id whose own time lies
    outside the partitions or too far from the run's.
    """

    pk = models.CompositePrimaryKey("tenant_id", "external_id")
    tenant_id = models.IntegerField()
    external_id = models.TextField(db_collation="C")
    run_id = models.UUIDField()

    class Meta:
        db_table = "external_run"
        indexes = [BrinIndex("run_id", name="external_run_brin")]  # retention: those of days that go


class TaskCompletion(models.Model):
    """Which run completed a task that has an id of its own: a task completes once, whatever is sent again."""

    pk = models.CompositePrimaryKey("tenant_id", "root_task_id")
    tenant_id = models.IntegerField()
    root_task_id = models.TextField(db_collation="C")
    run_id = models.UUIDField()
    awaited_run_id = models.UUIDField(null=True)  # the task's root run, where that had not arrived

    class Meta:
        db_table = "task_completion"
        indexes = [
            # A root run that arrives late asks whether its task was completed without it.
            models.Index(
                fields=["tenant_id", "awaited_run_id"],
                name="task_completion_awaited",
                condition=models.Q(awaited_run_id__isnull=False),
            ),
            BrinIndex("run_id", name="task_completion_brin"),  # retention
        ]


class RunSource(models.Model):
    """Sources of stopped runs only: what lists a source's runs."""

    pk = models.CompositePrimaryKey("tenant_id", "kind", "name", "run_id")
    tenant_id = models.IntegerField()
    kind = models.TextField(db_collation="C")
    name = models.TextField(db_collation="C")
    run_id = models.UUIDField()

    class Meta:
        db_table = "run_source"
        indexes = [BrinIndex("run_id", name="run_source_brin")]  # retention
