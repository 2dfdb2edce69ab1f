"""How good the guard's judgement is, from what reviewers say of stops.

Stops are counted and drawn from the index ``run_stops``, which holds nothing else and is ordered by a hash of
the run's id: its first entries are a sample by chance, the same for everybody who asks, and no sender or
reviewer can move a run into it or out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from runs.choices import StopVerdict
from runs.models import Run, StopReview
from runs.partitions import run_id_bounds
from runs.querysets import ALL_TENANTS, RunQuerySet
from runs.reports.counts import as_counts, sums_by_bucket, total
from runs.reports.facets import any_runs, read_job_types
from runs.reports.intervals import wilson
from runs.reports.metrics import AsOf, Bucket, Counts, Scope, Window
from runs.reports.reading import open_reading

SAMPLE = 30
MOST_REVIEWS = 10_000
"""Reviews that are read at most, the newest runs' first."""

_STOP = "(halt_reason <> '' OR would_halt <> '') AND at >= %(start)s AND at < %(end)s"
_IDS = "run_id >= %(low)s AND run_id < %(high)s"
_COUNT = """
SELECT job_type, CASE halt_reason WHEN '' THEN would_halt ELSE halt_reason END, halt_reason = '', count(*)
FROM run WHERE {where} GROUP BY 1, 2, 3"""
_DRAW = """
SELECT tenant_id, run_id FROM run WHERE {where}
ORDER BY uuid_hash_extended(run_id, 7), run_id LIMIT %(most)s"""


class Kind(NamedTuple):
    """What stops are told apart by: ``watched`` ones would have been stops but for shadow mode."""

    detector: str
    job_type: str
    watched: bool


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How often reviewers found a stop false; shares are from 0 to 1."""

    reviewed: int = 0
    false: int = 0

    @property
    def precision(self) -> float | None:
        return (self.reviewed - self.false) / self.reviewed if self.reviewed else None

    @property
    def interval(self) -> tuple[float, float]:
        """Within which the precision lies, 19 times of 20."""
        return wilson(self.reviewed - self.false, self.reviewed)

    def __add__(self, other: Verdicts) -> Verdicts:
        return Verdicts(self.reviewed + other.reviewed, self.false + other.false)


@dataclass(frozen=True, slots=True)
class Judged:
    """A run whose stop was reviewed."""

    run: Run
    verdict: str
    detector: str

    @property
    def kind(self) -> Kind:
        return Kind(self.detector, self.run.job_type, not self.run.halt_reason)

    @property
    def task(self) -> tuple[int, str]:
        return self.run.tenant_id, self.run.root_task_id or str(self.run.run_id)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run of the sample, and what its reviewer said, empty where nobody has."""

    run: Run
    verdict: str


@dataclass(frozen=True, slots=True)
class Quality:
    """Everything on the page, of one scope and window."""

    as_of: AsOf
    counts: Counts
    progress_stops: int
    stops: Mapping[Kind, int]
    judged: Sequence[Judged]
    sample: Sequence[Drawn]
    any_runs: bool
    job_types: tuple[str, ...]
    cut: bool = False  # there are more reviews than are read

    @property
    def verdicts(self) -> dict[Kind, Verdicts]:
        """Return what was found of each kind, of all reviews."""
        found: dict[Kind, Verdicts] = {}
        for one in self.judged:
            found[one.kind] = found.get(one.kind, Verdicts()) + _verdict(one.verdict)
        return found

    @property
    def sampled(self) -> Verdicts:
        """Return what was found in the sample by chance."""
        return _sum(_verdict(drawn.verdict) for drawn in self.sample if drawn.verdict)

    @property
    def sampled_stops(self) -> Verdicts:
        """The same of those that a guard really stopped."""
        stopped = [drawn for drawn in self.sample if drawn.run.halt_reason and drawn.verdict]
        return _sum(_verdict(drawn.verdict) for drawn in stopped)

    @property
    def all_stops(self) -> int:
        return sum(self.stops.values())

    @property
    def stopped(self) -> int:
        return sum(runs for kind, runs in self.stops.items() if not kind.watched)

    @property
    def falsely_stopped_tasks(self) -> int:
        """Return how many tasks have a run that a guard stopped and a reviewer found should have gone on."""
        return len(
            {one.task for one in self.judged if one.run.halt_reason and one.verdict == StopVerdict.FALSE_STOP}
        )

    @property
    def unresolved_tasks(self) -> int:
        """Return how many tasks began and were not completed."""
        return max(0, self.counts.eligible - self.counts.completed)


def read_quality(scope: Scope, window: Window, *, now: datetime) -> Quality:
    """Read the page; it must be the outermost transaction. Who may see the scope is asked of `access`."""
    with open_reading(scope, window, now) as reading:
        sums = total(sums_by_bucket(reading, [Bucket(window.start, window.end)]))
        judged, cut = read_judged(scope, window)
        verdicts = {(one.run.tenant_id, one.run.run_id): one.verdict for one in judged}
        return Quality(
            as_of=reading.as_of,
            counts=as_counts(sums),
            progress_stops=int(sums["halts_progress"]),
            stops=count_stops(scope, window),
            judged=judged,
            sample=draw_sample(scope, window, verdicts),
            any_runs=any_runs(reading),
            job_types=read_job_types(reading),
            cut=cut,
        )


def count_stops(scope: Scope, window: Window) -> dict[Kind, int]:
    """Return how many stops of each kind there were, in shadow mode too."""
    where, values = _where(scope, window)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT.format(where=where), values)
        return {
            Kind(detector, job_type, watched): runs for job_type, detector, watched, runs in cursor.fetchall()
        }


def draw_sample(
    scope: Scope, window: Window, verdicts: Mapping[tuple[int, UUID], str], most: int = SAMPLE
) -> list[Drawn]:
    """Return stops drawn by chance, always the same ones of a scope and window, reviewed or not."""
    where, values = _where(scope, window)
    with connection.cursor() as cursor:
        cursor.execute(_DRAW.format(where=where), values | {"most": most})
        keys = cursor.fetchall()
    found = {(run.tenant_id, run.run_id): run for run in _runs(scope, [run_id for _, run_id in keys])}
    return [Drawn(found[key], verdicts.get(key, "")) for key in keys if key in found]


def read_judged(scope: Scope, window: Window) -> tuple[list[Judged], bool]:
    """Return the reviewed stops of the window, the newest runs first, and whether some were left out."""
    low, high = run_id_bounds(window.start, window.end)
    rows: QuerySet[StopReview] = StopReview.objects.filter(run_id__gte=low, run_id__lt=high)
    if ALL_TENANTS not in scope.tenant_ids:
        rows = rows.filter(tenant__in=scope.tenant_ids)
    wanted = rows.order_by("-run_id").values_list("tenant_id", "run_id", "verdict", "detector")
    found = list(wanted[: MOST_REVIEWS + 1])
    reviews = {(review[0], review[1]): review[2:] for review in found[:MOST_REVIEWS]}
    runs = _runs(scope, [run_id for _, run_id in reviews]).filter(at__gte=window.start, at__lt=window.end)
    if scope.job_type is not None:
        runs = runs.of_job(scope.job_type)
    judged = [Judged(run, *reviews[key]) for run in runs if (key := (run.tenant_id, run.run_id)) in reviews]
    return judged, len(found) > MOST_REVIEWS


def _runs(scope: Scope, run_ids: Sequence[UUID]) -> RunQuerySet:
    """Return the runs of these ids; named one by one, so that only their partitions are read."""
    return Run.objects.for_tenants(scope.tenant_ids).filter(run_id__in=run_ids).without_detail()


def _where(scope: Scope, window: Window) -> tuple[str, dict[str, Any]]:
    low, high = run_id_bounds(window.start, window.end)
    where = [_STOP, _IDS]
    values: dict[str, Any] = {"start": window.start, "end": window.end, "low": low, "high": high}
    if ALL_TENANTS not in scope.tenant_ids:
        where.append("tenant_id = ANY(%(tenants)s)")
        values["tenants"] = sorted(scope.tenant_ids)
    if scope.job_type is not None:
        where.append("job_type = %(job)s")
        values["job"] = scope.job_type
    return " AND ".join(where), values


def _verdict(verdict: str) -> Verdicts:
    return Verdicts(1, int(verdict == StopVerdict.FALSE_STOP))


def _sum(parts: Iterable[Verdicts]) -> Verdicts:
    return sum(parts, Verdicts())
