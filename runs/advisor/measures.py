"""Steps and seconds of completed, answered tasks: steps from the roll-ups, which hold them exactly.

Roll-ups keep durations in buckets only, so those are read from the run table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs.partitions import run_id_bounds
from runs.reports.metrics import AsOf, Scope, Window
from runs.reports.reading import Reading, open_reading
from runs.reports.steps import read_tasks

from .advice import Spread

# A hair below each: a product such as 0.99 × n must not round up to the next rank.
_RANKS = [0.5 - 1e-12, 0.95 - 1e-12, 0.99 - 1e-12]
_SECONDS = """\
SELECT count(*), percentile_disc(%(ranks)s::float8[]) WITHIN GROUP (ORDER BY duration_ms), max(duration_ms),
    count(*) FILTER (WHERE duration_ms >= %(near)s), count(*) FILTER (WHERE duration_ms < %(draft)s)
FROM run WHERE tenant_id = ANY(%(tenant_ids)s) AND at >= %(start)s AND at < %(end)s
    AND run_id >= %(low)s AND run_id < %(high)s AND completes AND answer <> 'none' AND {job}"""


@dataclass(frozen=True, slots=True)
class Measures:
    """``steps`` by unit, each a histogram; ``seconds`` is None where no task completed with an answer."""

    as_of: AsOf
    steps: dict[str, Counter[int]]
    seconds: Spread | None


def read_measures(scope: Scope, window: Window, now: datetime, *, today: float, draft: float) -> Measures:
    """Read the tasks of a window; ``today`` and ``draft`` are caps on their seconds.

    It must be the outermost transaction.
    """
    with open_reading(scope, window, now) as reading:
        steps: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for (_, unit), tasks in read_tasks(reading).items():
            steps[unit].update(tasks)
        return Measures(reading.as_of, dict(steps), _seconds(reading, today, draft))


def _seconds(reading: Reading, today: float, draft: float) -> Spread | None:
    scope, window = reading.scope, reading.window
    low, high = run_id_bounds(window.start, window.end)
    given: dict[str, Any] = {
        "ranks": _RANKS,
        "tenant_ids": reading.tenant_ids,
        "start": window.start,
        "end": window.end,
        "low": low,
        "high": high,
        "job_type": scope.job_type,
        "near": round(today * 900),
        "draft": round(draft * 1_000),
    }
    job = "job_type = %(job_type)s" if scope.job_type is not None else "true"
    reading.cursor.execute(_SECONDS.format(job=job), given)
    tasks, ranks, highest, near, covered = reading.cursor.fetchone()
    if not tasks:
        return None
    p50, p95, p99 = (rank / 1_000 for rank in ranks)
    return Spread(tasks, p50, p95, p99, highest / 1_000, near, covered)
