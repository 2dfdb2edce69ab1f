"""Sums from the roll-ups by tenant and job type, of some hours and of the days before them.

Judged is what fold has counted: `runs.alerts.evaluate` waits until a window is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection

from runs.choices import Cut
from runs.reports.pieces import FROM_PIECES, array, parameters, pieces_of
from runs.rollup.state import State

USUAL_DAYS = 7

_SUMS = "runs, completed, forced, cost"
_BY_JOB = f"""\
SELECT tenant_id, job_type, sum(runs)::bigint, sum(completed)::bigint, sum(forced)::bigint, sum(cost)
FROM {FROM_PIECES} CROSS JOIN LATERAL (
    SELECT tenant_id, job_type, {_SUMS} FROM rollup
    WHERE tenant_id <> 0 AND cut = {Cut.JOB.value} AND grain = p.grain AND at >= p.start AND at < p.until
    OFFSET 0
) AS r GROUP BY 1, 2"""
_OVER_TIME = f"""\
SELECT width_bucket(at, %(edges)s::timestamptz[]) - 1, sum(runs)::bigint, sum(completed)::bigint,
    sum(forced)::bigint, sum(cost)
FROM {FROM_PIECES} CROSS JOIN LATERAL (
    SELECT at, {_SUMS} FROM rollup
    WHERE tenant_id = %(tenant)s AND cut = {Cut.JOB.value} AND grain = p.grain AND job_type = %(job)s
        AND release = '' AND at >= p.start AND at < p.until OFFSET 0
) AS r GROUP BY 1"""
_STEPS_BY_JOB = f"""\
SELECT tenant_id, job_type, step_unit, value, sum(tasks)::bigint
FROM (
    SELECT h.tenant_id, h.job_type, h.step_unit, unnest(h.steps) AS value, unnest(h.steps_tasks) AS tasks
    FROM {FROM_PIECES} CROSS JOIN LATERAL (
        SELECT tenant_id, job_type, step_unit, steps, steps_tasks FROM histogram
        WHERE tenant_id <> 0 AND cut = {Cut.JOB.value} AND grain = p.grain AND at >= p.start AND at < p.until
        OFFSET 0
    ) AS h
) AS u GROUP BY 1, 2, 3, 4"""
_STEPS_OVER_TIME = f"""\
SELECT bucket, value, sum(tasks)::bigint
FROM (
    SELECT width_bucket(h.at, %(edges)s::timestamptz[]) - 1 AS bucket,
        unnest(h.steps) AS value, unnest(h.steps_tasks) AS tasks
    FROM {FROM_PIECES} CROSS JOIN LATERAL (
        SELECT at, steps, steps_tasks FROM histogram
        WHERE tenant_id = %(tenant)s AND cut = {Cut.JOB.value} AND grain = p.grain AND job_type = %(job)s
            AND release = '' AND step_unit = %(unit)s AND at >= p.start AND at < p.until OFFSET 0
    ) AS h
) AS u GROUP BY 1, 2"""

Job = tuple[int, str]
"""A tenant and a job type."""
Unit = tuple[int, str, str]
"""A tenant, a job type and a unit of steps."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What a job type's runs came to."""

    runs: int = 0
    completed: int = 0
    forced: int = 0
    cost: Decimal = Decimal(0)

    @property
    def cost_per_task(self) -> Decimal | None:
        return self.cost / self.completed if self.completed else None

    @property
    def forced_share(self) -> float | None:
        return self.forced / self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class Span:
    """Some time up to a window's end, and the seven days before it that it is held against."""

    end: datetime
    length: timedelta

    @property
    def start(self) -> datetime:
        return self.end - self.length

    @property
    def usual_start(self) -> datetime:
        return self.start - timedelta(days=USUAL_DAYS)


def named(job: Job) -> str:
    """Return how a sentence about a job type begins."""
    return f"{job[1]}: " if job[1] else ""


def sums_by_job(start: datetime, end: datetime) -> dict[Job, Sums]:
    """Return what was counted in [start, end), by tenant and job type."""
    found = _rows(_BY_JOB, start, end)
    return {(tenant, job): Sums(*sums) for tenant, job, *sums in found}


def sums_over_time(job: Job, start: datetime, step: timedelta, columns: int) -> list[Sums]:
    """Return the sums of each of the columns, ``step`` each."""
    found = [Sums() for _ in range(columns)]
    for bucket, *sums in _rows(_OVER_TIME, start, start + columns * step, **_of(job, start, step, columns)):
        found[bucket] = Sums(*sums)
    return found


def steps_by_job(start: datetime, end: datetime) -> Mapping[Unit, Counter[int]]:
    """Return how many completed tasks of [start, end) took how many steps."""
    found: defaultdict[Unit, Counter[int]] = defaultdict(Counter)
    for tenant, job, unit, value, tasks in _rows(_STEPS_BY_JOB, start, end):
        found[tenant, job, unit][value] = tasks
    return found


def steps_over_time(unit: Unit, start: datetime, step: timedelta, columns: int) -> list[Counter[int]]:
    """Return the same for each of the columns."""
    found: list[Counter[int]] = [Counter() for _ in range(columns)]
    given = _of(unit[:2], start, step, columns) | {"unit": unit[2]}
    for bucket, value, tasks in _rows(_STEPS_OVER_TIME, start, start + columns * step, **given):
        found[bucket][value] = tasks
    return found


def _of(job: Job, start: datetime, step: timedelta, columns: int) -> dict[str, Any]:
    edges = array(start + number * step for number in range(columns))
    return {"tenant": job[0], "job": job[1], "edges": edges}


def _rows(query: str, start: datetime, end: datetime, **given: Any) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        state = State.read(cursor)
        if state is None:
            return []
        # Columns begin at any quarter-hour, and a coarser row would fall into one of two.
        hours_to, days_to = (start, start) if "edges" in given else (state.hours_to, state.days_to)
        pieces = pieces_of(start, end, hours_to=hours_to, days_to=days_to)
        cursor.execute(query, parameters(pieces) | given)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
