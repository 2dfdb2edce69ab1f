"""What the pages read: counts by bucket, written by fold alone (`runs.rollup`).

A bucket starts at ``at`` (UTC) and is a quarter-hour, an hour or a day long (``grain``). Every run is counted
four ways: with and without job type and release (``detailed``), under its tenant and under tenant 0, which is
all tenants and reachable only for operators.
"""

from __future__ import annotations

from django.db import models

from ..choices import Grain, Measure


class Rollup(models.Model):
    pk = models.CompositePrimaryKey(
        "tenant_id", "grain", "detailed", "at", "job_type", "release", "outcome", "reason"
    )
    tenant_id = models.IntegerField()
    grain = models.SmallIntegerField(choices=Grain)
    detailed = models.BooleanField()
    at = models.DateTimeField()
    job_type = models.TextField()
    release = models.TextField()
    outcome = models.TextField()
    reason = models.TextField()  # canonical code, "other", or empty
    runs = models.BigIntegerField(default=0)
    completed = models.BigIntegerField(default=0)  # tasks
    eligible = models.BigIntegerField(default=0)  # tasks
    looped = models.BigIntegerField(default=0)
    forced = models.BigIntegerField(default=0)
    blocked = models.BigIntegerField(default=0)  # runs with a blocked fingerprint
    duplicates = models.BigIntegerField(default=0)
    provider_failures = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    repeated_cost = models.DecimalField(max_digits=20, decimal_places=6, default=0)  # attempts from the second on
    loop_cost = models.DecimalField(max_digits=20, decimal_places=6, default=0)

    class Meta:
        db_table = "rollup"


class Histogram(models.Model):
    """Completed, answered tasks by their steps (exact) or duration (buckets), one measure a unit, never pooled."""

    pk = models.CompositePrimaryKey(
        "tenant_id", "grain", "detailed", "measure", "at", "job_type", "release", "value"
    )
    tenant_id = models.IntegerField()
    grain = models.SmallIntegerField(choices=Grain)
    detailed = models.BooleanField()
    measure = models.SmallIntegerField(choices=Measure)
    at = models.DateTimeField()
    job_type = models.TextField()
    release = models.TextField()
    value = models.IntegerField()
    tasks = models.BigIntegerField(default=0)
    near_cap = models.BigIntegerField(default=0)  # of them at 90 % of their cap or above
    cap = models.IntegerField(null=True)  # the highest cap in force among them

    class Meta:
        db_table = "histogram"


class SourceDay(models.Model):
    """A day's counts of one source in one tenant; at most 200 names a tenant and day, the rest is "other"."""

    pk = models.CompositePrimaryKey("tenant_id", "day", "kind", "name")
    tenant_id = models.IntegerField()
    day = models.DateField()
    kind = models.TextField()
    name = models.TextField()
    stopped = models.BigIntegerField(default=0)
    completed = models.BigIntegerField(default=0)
    calls = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    organisations = models.BinaryField(null=True)  # tenant 0 only: a bitmap of organisation ids

    class Meta:
        db_table = "source_day"


class IngestSpan(models.Model):
    """Which run ids a transaction wrote, so that fold and the tail prune partitions."""

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
    system_identifier = models.BigIntegerField()
    folded_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "fold_state"
