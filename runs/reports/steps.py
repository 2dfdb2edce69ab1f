"""Steps of completed, answered tasks: percentiles by job type and unit, and over time for one of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from runs.choices import Cut

from .metrics import MIN_RUNS_FOR_P99, Bucket, Steps, StepsRow
from .percentiles import nearest_rank
from .pieces import FROM_PIECES, array, joined, parameters
from .reading import Reading

Job = tuple[str, str]
"""A job type and a unit of steps."""

# The read of each piece stays apart (OFFSET 0): an index range each, and a row's bucket is found only once.
_ROWS = f"""\
FROM {FROM_PIECES} CROSS JOIN LATERAL (
    SELECT {{columns}} FROM histogram
    WHERE tenant_id = ANY(%(tenant_ids)s) AND cut = %(cut)s AND grain = p.grain
        AND {{jobs}} AND release = %(release)s AND at >= p.start AND at < p.until OFFSET 0
) AS h"""
_CAPS = f"SELECT job_type, step_unit, sum(near_cap)::bigint, max(cap) {_ROWS} GROUP BY 1, 2"
# Unnested in a select list, which costs half of what a join with unnest does.
_UNNESTED = "unnest(h.steps) AS value, unnest(h.steps_tasks) AS tasks"
_VALUES = f"""\
SELECT job_type, step_unit, value, sum(tasks)::bigint
FROM (SELECT h.job_type, h.step_unit, {_UNNESTED} {_ROWS}) AS u GROUP BY 1, 2, 3"""
_OVER_TIME = f"""\
SELECT bucket, value, sum(tasks)::bigint
FROM (SELECT h.bucket, {_UNNESTED} {_ROWS}) AS u GROUP BY 1, 2"""
_BUCKET = "width_bucket(at, %(edges)s::timestamptz[]) - 1 AS bucket, steps, steps_tasks"
_EVERY_JOB = "true"
_THIS_JOB = "job_type = %(job_type)s"
_THIS_UNIT = f"{_THIS_JOB} AND step_unit = %(step_unit)s"


def read_steps(reading: Reading, buckets: Sequence[Bucket], job: Job | None) -> Steps:
    """Return all jobs' rows; over time the job asked for if it has tasks, or the one with the most."""
    rows = read_rows(reading)
    shown = next((row for row in rows if (row.job_type, row.unit) == job), rows[0] if rows else None)
    tasks = (
        _over_time(reading, buckets, (shown.job_type, shown.unit)) if shown else [Counter() for _ in buckets]
    )
    return Steps(
        rows=rows,
        shown=shown,
        buckets=tuple(buckets),
        p50=tuple(nearest_rank(part, 50) for part in tasks),
        p95=tuple(nearest_rank(part, 95) for part in tasks),
        p99=tuple(_p99(part) for part in tasks),
        highest=tuple(max(part, default=None) for part in tasks),
    )


def _p99(tasks: Counter[int]) -> int | None:
    return nearest_rank(tasks, 99) if tasks.total() >= MIN_RUNS_FOR_P99 else None


def _parameters(reading: Reading, job_type: str | None) -> dict[str, Any]:
    release = reading.scope.release
    cut = Cut.JOB if release is None else Cut.JOB_RELEASE
    return {
        "tenant_ids": reading.tenant_ids,
        "cut": int(cut),
        "job_type": job_type,
        "release": release or "",
    }


def read_rows(reading: Reading) -> tuple[StepsRow, ...]:
    """Return the window's tasks by job type and unit, most tasks first."""
    window, tasks = reading.window, read_tasks(reading)
    near: Counter[Job] = Counter()
    caps: dict[Job, int | None] = {}
    for job_name, unit, count, cap in _grouped(reading, _CAPS):
        near[job_name, unit], caps[job_name, unit] = count, cap
    for cell in reading.in_scope(reading.tail.steps):
        if window.start <= cell["at"] < window.end:
            job = cell["job_type"], cell["step_unit"]
            near[job] += cell["near_cap"]
            caps[job] = max(caps.get(job) or 0, cell["cap"] or 0) or None
    rows = [_row(job, tasks[job], near[job], caps[job]) for job in tasks]
    return tuple(sorted(rows, key=lambda row: (-row.tasks, row.job_type, row.unit)))


def read_tasks(reading: Reading) -> dict[Job, Counter[int]]:
    """Return how many of the window's tasks took how many steps, by job type and unit."""
    window = reading.window
    tasks: defaultdict[Job, Counter[int]] = defaultdict(Counter)
    for job_name, unit, value, count in _grouped(reading, _VALUES):
        tasks[job_name, unit][value] = count
    for cell in reading.in_scope(reading.tail.steps):
        if window.start <= cell["at"] < window.end:
            tasks[cell["job_type"], cell["step_unit"]][cell["value"]] += cell["tasks"]
    return tasks


def _grouped(reading: Reading, query: str) -> list[tuple[Any, ...]]:
    job_type = reading.scope.job_type
    pieces = reading.pieces(reading.window.start, reading.window.end)
    if not pieces:
        return []
    jobs = _EVERY_JOB if job_type is None else _THIS_JOB
    given = parameters(pieces) | _parameters(reading, job_type)
    reading.cursor.execute(query.format(jobs=jobs, columns="*"), given)
    found: list[tuple[Any, ...]] = reading.cursor.fetchall()
    return found


def _row(job: Job, tasks: Counter[int], near_cap: int, cap: int | None) -> StepsRow:
    return StepsRow(
        job_type=job[0],
        unit=job[1],
        tasks=tasks.total(),
        p50=nearest_rank(tasks, 50),
        p95=nearest_rank(tasks, 95),
        p99=_p99(tasks),
        highest=max(tasks, default=None),
        cap=cap,
        near_cap=near_cap,
    )


def _over_time(reading: Reading, buckets: Sequence[Bucket], job: Job) -> list[Counter[int]]:
    found: list[Counter[int]] = [Counter() for _ in buckets]
    edges = [bucket.start for bucket in buckets]
    pieces = joined(piece for bucket in buckets for piece in reading.pieces(bucket.start, bucket.end))
    if pieces:
        reading.cursor.execute(
            _OVER_TIME.format(jobs=_THIS_UNIT, columns=_BUCKET),
            parameters(pieces) | _parameters(reading, job[0]) | {"step_unit": job[1], "edges": array(edges)},
        )
        for bucket, value, count in reading.cursor.fetchall():
            found[bucket][value] = count
    for cell in reading.in_scope(reading.tail.steps):
        if (cell["job_type"], cell["step_unit"]) == job and edges[0] <= cell["at"] < buckets[-1].end:
            found[bisect_right(edges, cell["at"]) - 1][cell["value"]] += cell["tasks"]
    return found
