"""What the loop-rate detector reads and keeps: tasks by minute of receipt, and where each series stands."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from .rollup import count
from .run import text


class LoopMinute(models.Model):
    """What fold counted of a minute that has closed; it never changes afterwards. Kept for eight days.

    ``runs`` and ``looped`` are runs, ``tasks`` and ``looped_tasks`` distinct root tasks without provider
    failures, which stand beside them. ``late`` was received more than a quarter-hour after its end. Written
    by `runs.rollup.minutes` alone.
    """

    pk = models.CompositePrimaryKey("tenant_id", "job_type", "minute", "release")
    tenant_id = models.IntegerField()
    job_type = text()
    minute = models.IntegerField()  # minutes since 1970
    release = text()
    runs = count()
    looped = count()
    provider = count()
    provider_looped = count()
    late = count()
    late_looped = count()
    tasks = count()
    looped_tasks = count()

    class Meta:
        db_table = "loop_minute"
        indexes = [BrinIndex("minute", name="loop_minute_brin", pages_per_range=16)]  # a minute's; old ones


class LoopClock(models.Model):
    """One row: the last minute that closed, which only ever grows.

    Runs below ``mark`` are in a minute that has closed. ``first_run`` and ``last_run`` bound the ids of those
    that are folded and not yet in one, so that reading them prunes to their days.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    closed = models.IntegerField()
    mark = models.BigIntegerField()
    first_run = models.UUIDField(null=True)
    last_run = models.UUIDField(null=True)

    class Meta:
        db_table = "loop_clock"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="loop_clock_one_row")]


class AlertState(models.Model):
    """The detector of a series, as it stands after ``last_window``: a cache that a later minute moves on.

    The series without a job type is made of the tenant's thin ones. Written by `runs.alerts.spikes` alone.
    """

    pk = models.CompositePrimaryKey("tenant_id", "job_type")
    tenant_id = models.IntegerField()
    job_type = text()
    last_window = models.IntegerField()  # minutes since 1970
    is_open = models.BooleanField(default=False)  # an incident is open: judged in every minute
    evidence = models.FloatField(default=0)  # how near a spike is
    usual = models.FloatField(null=True)  # the usual rate of this hour
    tasks_a_day = count()
    state = models.JSONField(default=dict)  # `LoopRateDetector.state`

    class Meta:
        db_table = "alert_state"
        indexes = [
            # What is judged in a minute without runs.
            models.Index(
                fields=["tenant_id", "job_type"],
                name="alert_state_open",
                condition=models.Q(is_open=True),
            ),
        ]
