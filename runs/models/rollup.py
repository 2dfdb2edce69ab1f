"""What the pages read: counts by time, written by fold alone (`runs.rollup`).

A row counts what was placed in [at, at + grain). Each is kept under its tenant and under tenant 0, which is
all tenants and reachable only for operators, and in the four cuts of job type and release, so that every
filter is an equality on the key. Quarter-hours are written as runs come; hours and days are copies of them,
made when they close (`FoldState.hours_to`, ``days_to``) and kept up from then on.

Sums of money and tokens are wide on purpose: no sum of rows that ingest accepts may stop fold.
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from runs.choices import Cut, Grain


def money() -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=30, decimal_places=6, default=0)


def count() -> models.IntegerField[Any, Any]:
    return models.IntegerField(default=0)


def text() -> models.TextField[Any, Any]:
    return models.TextField(blank=True, default="", db_collation="C")


class Rollup(models.Model):
    """Everything a tile or the chart of halts shows, in one row: the counts of `runs.rollup.projection`."""

    pk = models.CompositePrimaryKey("tenant_id", "cut", "grain", "job_type", "release", "at")
    tenant_id = models.IntegerField()
    cut = models.SmallIntegerField(choices=Cut)
    grain = models.SmallIntegerField(choices=Grain)
    at = models.DateTimeField()
    job_type = text()
    release = text()
    runs = count()
    completed = count()  # tasks
    eligible = count()  # tasks
    halted = count()
    stopped = count()
    looped = count()
    forced = count()
    blocked = count()
    provider_failures = count()
    halts_budget = count()  # stopped runs by family; they sum to ``stopped``
    halts_repetition = count()
    halts_cycle = count()
    halts_progress = count()
    halts_error = count()
    halts_source = count()
    halts_control = count()
    halts_other = count()
    duplicates = models.BigIntegerField(default=0)
    tool_calls = models.BigIntegerField(default=0, db_default=0)
    tokens = models.DecimalField(max_digits=30, decimal_places=0, default=0)
    cost = money()
    cost_useful = money()  # the four parts sum to ``cost``
    cost_forced = money()
    cost_halted = money()
    cost_failed = money()
    repeated_cost = money()  # attempts from the second on
    loop_cost = money()
    # Stopped runs by reason, ascending: the canonical code, or "other" for every code the catalogue lacks.
    reasons = ArrayField(text(), default=list)
    reasons_runs = ArrayField(models.IntegerField(), default=list)

    class Meta:
        db_table = "rollup"
        indexes = [BrinIndex("at", name="rollup_at_brin")]  # making hours and days of what just closed


class Histogram(models.Model):
    """Completed, answered tasks of one job type by their steps (exact) and duration (buckets).

    ``steps`` and ``durations`` hold the values that occur, in ascending order, and ``steps_tasks`` and
    ``durations_tasks`` how many tasks had each; one row a unit of steps, which are never pooled. A row a cell
    rather than one a value: an upsert of a cell costs the same, and there are thirty times fewer.
    """

    pk = models.CompositePrimaryKey("tenant_id", "cut", "grain", "job_type", "release", "step_unit", "at")
    tenant_id = models.IntegerField()
    cut = models.SmallIntegerField(choices=Cut)  # JOB or JOB_RELEASE
    grain = models.SmallIntegerField(choices=Grain)
    at = models.DateTimeField()
    job_type = text()
    release = text()
    step_unit = text()
    tasks = count()
    near_cap = count()  # of them at 90 % of their cap or above
    cap = models.IntegerField(null=True)  # the highest cap in force among them
    steps = ArrayField(models.IntegerField())
    steps_tasks = ArrayField(models.IntegerField())
    durations = ArrayField(models.IntegerField())
    durations_tasks = ArrayField(models.IntegerField())

    class Meta:
        db_table = "histogram"
        indexes = [BrinIndex("at", name="histogram_at_brin")]


class SourceDay(models.Model):
    """A UTC day's counts of one source in one tenant, and in tenant 0.

    A tenant has at most 200 names a day; what comes after them counts under the empty name, which people see
    as "other". Without kind and name a row counts all of the day's runs, of whatever source: what a source's
    runs are a share of. Tenant 0 holds what its tenants hold.
    """

    pk = models.CompositePrimaryKey("tenant_id", "day", "kind", "name")
    tenant_id = models.IntegerField()
    day = models.DateField()
    kind = text()
    name = text()
    stopped = count()  # runs
    completed = count()  # runs
    calls = models.BigIntegerField(default=0)
    cost = money()  # of the runs that used it
    # Tenant 0 only: the organisations in whose stopped runs it was used, ascending. Ordinals instead of a
    # bitmap: there are few a source, and a union needs no function of its own.
    organisations = ArrayField(models.IntegerField(), null=True)

    class Meta:
        db_table = "source_day"
        indexes = [
            # One source in all tenants: the radar's counts, a source's trend, when it was first seen.
            models.Index(fields=["kind", "name", "day"], name="source_day_source"),
        ]


class IngestSpan(models.Model):
    """Which run ids a transaction wrote, so that fold and the tail prune partitions; fold deletes them."""

    pk = models.CompositePrimaryKey("mark", "tenant_id")
    mark = models.BigIntegerField()
    tenant_id = models.IntegerField()
    min_run_id = models.UUIDField()
    max_run_id = models.UUIDField()
    runs = models.IntegerField()

    class Meta:
        db_table = "ingest_span"


class FoldState(models.Model):
    """How far fold has counted: every row with a mark below ``last`` is in the roll-ups, none from it on."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    last = models.BigIntegerField(default=0)
    # Of the cluster that the marks belong to, 0 where its functions may not be read.
    system_identifier = models.BigIntegerField()
    hours_to = models.DateTimeField()  # copies by hour exist for all that was placed before
    days_to = models.DateTimeField()  # copies by day exist for all that was placed before
    # What was acknowledged by then is counted; empty where that is not known yet.
    folded_at = models.DateTimeField(null=True)
    # The next such time: at ``watched_at`` no transaction had a number from ``watched_mark`` on, so once
    # ``last`` has come that far, all that was acknowledged before is counted.
    watched_mark = models.BigIntegerField()
    watched_at = models.DateTimeField()

    class Meta:
        db_table = "fold_state"
