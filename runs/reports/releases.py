"""A release against what its job type did before it: loops, steps, forced answers, cost, and what halts anew.

*Before* are all runs of the job type in the seven days until the release came, *after* the release's own runs
since then, for seven days at most. Each measure has an interval that holds its true value in 95 of 100 cases,
and two differ where their intervals do not meet. The runs of one task loop together, so a share's interval is
as wide as if each task had been one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from math import ceil, sqrt

from .arrivals import Arrival
from .counts import as_counts, sums_by_bucket, total
from .halts import stopped_by_reason
from .intervals import Z_95, wilson
from .metrics import MIN_RUNS_FOR_P99, Bucket, Counts, Scope, Window
from .percentiles import nearest_rank
from .reading import Reading, open_reading
from .steps import read_tasks
from .windows import HOUR, QUARTER, floor_quarter

SPAN = timedelta(days=7)
FEWEST_RUNS = 50
FEWEST_TASKS = 20
"""On each side: of fewer no share is compared."""
FEWEST_HOURS = 6
"""With completed tasks, on each side: of fewer no cost is compared."""
LEAST_POINTS = 0.01
LEAST_RATIO = 1.1


class Verdict(StrEnum):
    """How a measure moved; more is worse for each of them."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    FEW = "few"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the interval that holds the true one in 95 of 100 cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Side:
    """What ran before the release, or of it."""

    window: Window
    counts: Counts
    together: float  # runs a task
    loop_rate: Estimate | None
    forced: Estimate | None
    cost: Estimate | None
    p99: Estimate | None
    highest: int | None
    step_tasks: int
    reasons: dict[str, int]

    @property
    def tasks(self) -> float:
        """As many tasks as the runs that a loop rate counts are worth."""
        return self.judged / self.together

    @property
    def judged(self) -> int:
        """Runs that a loop rate counts."""
        return self.counts.runs - self.counts.provider_failures


@dataclass(frozen=True, slots=True)
class Compared:
    """A release's two sides, and how each measure moved."""

    arrival: Arrival
    before: Side
    after: Side
    unit: str  # of steps, empty where no task completed with an answer
    loops: Verdict
    steps: Verdict
    forced: Verdict
    cost: Verdict

    @property
    def new_reasons(self) -> dict[str, int]:
        """Halts that did not occur in the week before, most runs first."""
        new = {code: runs for code, runs in self.after.reasons.items() if code not in self.before.reasons}
        return dict(sorted(new.items(), key=lambda item: (-item[1], item[0])))

    @property
    def worst(self) -> Verdict:
        """The loop rate's verdict; worse where anything else is."""
        moved = (self.loops, self.steps, self.forced, self.cost)
        return Verdict.WORSE if Verdict.WORSE in moved else self.loops


def read_compared(arrivals: Sequence[Arrival], now: datetime) -> list[Compared]:
    """Compare releases, in their order; it must be the outermost transaction."""
    found: dict[Arrival, Compared] = {}
    for tenant_id in sorted({arrival.tenant_id for arrival in arrivals}):
        mine = [arrival for arrival in arrivals if arrival.tenant_id == tenant_id]
        end = floor_quarter(now) + QUARTER
        window = Window(min(arrival.at for arrival in mine) - SPAN, end, HOUR)
        with open_reading(Scope((tenant_id,)), window, now) as reading:
            found.update({arrival: _compare(reading, arrival, end) for arrival in mine})
    return [found[arrival] for arrival in arrivals]


def _compare(reading: Reading, arrival: Arrival, end: datetime) -> Compared:
    job = Scope((arrival.tenant_id,), arrival.job_type)
    of_release = replace(job, release=arrival.release)
    past = Window(arrival.at - SPAN, arrival.at, HOUR)
    since = Window(arrival.at, min(end, arrival.at + SPAN), HOUR)
    steps_after = read_tasks(replace(reading, scope=of_release, window=since))
    units = Counter({unit: tasks.total() for (_, unit), tasks in steps_after.items()})
    unit = units.most_common(1)[0][0] if units else ""
    steps_before = read_tasks(replace(reading, scope=job, window=past))
    key = arrival.job_type, unit
    before = _side(replace(reading, scope=job, window=past), steps_before.get(key, Counter()))
    after = _side(replace(reading, scope=of_release, window=since), steps_after.get(key, Counter()))
    enough = (
        min(before.judged, after.judged) >= FEWEST_RUNS and min(before.tasks, after.tasks) >= FEWEST_TASKS
    )
    return Compared(
        arrival,
        before,
        after,
        unit,
        loops=verdict(before.loop_rate, after.loop_rate, least=LEAST_POINTS) if enough else Verdict.FEW,
        steps=verdict(before.p99, after.p99, least=1),
        forced=verdict(before.forced, after.forced, least=LEAST_POINTS) if enough else Verdict.FEW,
        cost=verdict(before.cost, after.cost, ratio=LEAST_RATIO) if enough else Verdict.FEW,
    )


def verdict(
    before: Estimate | None, after: Estimate | None, *, least: float = 0.0, ratio: float = 1.0
) -> Verdict:
    """Say how a measure moved: by ``least`` and to ``ratio`` times at least, and beyond chance."""
    if before is None or after is None:
        return Verdict.FEW
    if after.low > before.high and after.value >= max(before.value + least, before.value * ratio):
        return Verdict.WORSE
    if after.high < before.low and after.value <= min(before.value - least, before.value / ratio):
        return Verdict.BETTER
    return Verdict.SAME


def _side(reading: Reading, steps: Counter[int]) -> Side:
    window = reading.window
    hours = sums_by_bucket(reading, _hours(window))
    counts = as_counts(total(hours))
    together = max(1.0, counts.runs / counts.eligible) if counts.eligible else 1.0
    judged = counts.runs - counts.provider_failures
    return Side(
        window=window,
        counts=counts,
        together=together,
        loop_rate=_share(counts.looped, judged, together),
        forced=_share(counts.forced, counts.runs, together),
        cost=_cost([as_counts(hour) for hour in hours]),
        p99=_p99(steps),
        highest=max(steps, default=None),
        step_tasks=steps.total(),
        reasons=stopped_by_reason(reading),
    )


def _hours(window: Window) -> list[Bucket]:
    """Cut the window into hours from its start on; the last one may be shorter."""
    edges = [window.start + number * HOUR for number in range(ceil((window.end - window.start) / HOUR))]
    return [Bucket(edge, min(edge + HOUR, window.end)) for edge in edges]


def _share(part: int, whole: int, together: float) -> Estimate | None:
    if whole <= 0:
        return None
    low, high = wilson(round(part / together), max(1, round(whole / together)))
    share = part / whole
    return Estimate(share, min(low, share), max(high, share))


def _cost(hours: Sequence[Counts]) -> Estimate | None:
    """Return the cost per completed task, as a ratio of hours' sums; None where too few hours have any."""
    cost = sum((hour.cost for hour in hours), Decimal(0))
    tasks = sum(hour.completed for hour in hours)
    if not tasks or sum(hour.completed > 0 for hour in hours) < FEWEST_HOURS:
        return None
    value = float(cost / tasks)
    squares = sum((float(hour.cost) - value * hour.completed) ** 2 for hour in hours)
    spread = Z_95 * sqrt(squares) / tasks
    return Estimate(value, max(0.0, value - spread), value + spread)


def _p99(steps: Counter[int]) -> Estimate | None:
    """Return the 99th percentile with the values between which its rank lies; None under 300 tasks."""
    tasks = steps.total()
    value = nearest_rank(steps, 99)
    if tasks < MIN_RUNS_FOR_P99 or value is None:
        return None
    spread = Z_95 * sqrt(tasks * 0.99 * 0.01)
    return Estimate(value, _at_rank(steps, tasks * 0.99 - spread), _at_rank(steps, tasks * 0.99 + spread))


def _at_rank(steps: Counter[int], rank: float) -> int:
    passed = 0
    for value in sorted(steps):
        passed += steps[value]
        if passed >= rank:
            return value
    return max(steps)
