"""The measures, defined once: what a page shows, in plain data, with how each number follows from the counts.

*Task* = root task id. *Completed task* = a root run's outcome is ``completed`` (not forced) and its task was
not denied; a task resumed in a second attempt counts once. *Stopped run* = has a guard's halt reason,
whatever it ended as. Shares are fractions from 0 to 1, or None where nothing was counted; money is USD.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from runs.choices import Grain

MIN_RUNS_FOR_P99 = 300


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose runs are counted: tenants (0 = all, for operators only), at will of one job type and release."""

    tenant_ids: tuple[int, ...]
    job_type: str | None = None
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open UTC range, snapped to quarter-hours, and the buckets its charts are drawn in."""

    start: datetime
    end: datetime
    bucket: timedelta  # 15 min, 1 h, 6 h or 1 day (days are the viewer's zone's)
    zone: str = "UTC"
    key: str = "24h"  # what the URL says: 1h, 6h, 24h, 7d, 14d, 30d, 90d, or "custom"

    @property
    def before(self) -> Window:
        """The period of the same length just before."""
        span = self.end - self.start
        return Window(self.start - span, self.start, self.bucket, self.zone, self.key)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over a window; everything that a tile shows follows from these."""

    runs: int = 0
    completed: int = 0
    eligible: int = 0
    halted: int = 0  # runs that ended halted or escalated
    stopped: int = 0  # runs with a guard's halt reason
    looped: int = 0
    forced: int = 0
    blocked: int = 0
    duplicates: int = 0
    tool_calls: int = 0  # proposed ones, refused included
    provider_failures: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    repeated_cost: Decimal = Decimal(0)
    loop_cost: Decimal = Decimal(0)
    cost_useful: Decimal = Decimal(0)  # outcome completed
    cost_forced: Decimal = Decimal(0)  # completed_forced, unresolved
    cost_halted: Decimal = Decimal(0)  # halted, escalated
    cost_failed: Decimal = Decimal(0)  # failed, cancelled

    @property
    def cost_per_completed_task(self) -> Decimal | None:
        return self.cost / self.completed if self.completed else None

    @property
    def halted_share(self) -> float | None:
        return self.halted / self.runs if self.runs else None

    @property
    def loop_rate(self) -> float | None:
        judged = self.runs - self.provider_failures
        return self.looped / judged if judged else None

    @property
    def forced_share(self) -> float | None:
        return self.forced / self.runs if self.runs else None

    @property
    def blocked_share(self) -> float | None:
        return self.blocked / self.runs if self.runs else None

    @property
    def mean_duplicates(self) -> float | None:
        return self.duplicates / self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class Bucket:
    """One slot of a chart; ``partial`` where the window or now cuts it."""

    start: datetime
    end: datetime
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Tiles:
    """Now and the period before, and the counts of each bucket for the sparklines."""

    now: Counts
    before: Counts
    buckets: tuple[Bucket, ...]
    series: tuple[Counts, ...]


@dataclass(frozen=True, slots=True)
class Halts:
    """Stopped runs by reason family over time, and by reason code in all."""

    buckets: tuple[Bucket, ...]
    families: dict[str, tuple[int, ...]]  # family -> one count a bucket
    totals: dict[str, int]  # family -> in the window
    before: dict[str, int]  # family -> in the period before
    reasons: dict[str, int]  # code -> in the window
    baseline: tuple[float | None, ...]  # trailing mean of all halts at each bucket


@dataclass(frozen=True, slots=True)
class StepsRow:
    """Steps of completed, answered tasks of one job type in one unit."""

    job_type: str
    unit: str  # tool_call, turn, superstep
    tasks: int
    p50: int | None
    p95: int | None
    p99: int | None  # None under 300 tasks: then ``highest`` is shown as "max of n"
    highest: int | None
    cap: int | None
    near_cap: int  # tasks at 90 % of the cap or above

    @property
    def near_cap_share(self) -> float | None:
        return self.near_cap / self.tasks if self.tasks and self.cap else None


@dataclass(frozen=True, slots=True)
class Steps:
    """The rows by job type and unit, most tasks first, and the percentiles over time of one of them."""

    rows: tuple[StepsRow, ...]
    shown: StepsRow | None
    buckets: tuple[Bucket, ...]
    p50: tuple[int | None, ...]
    p95: tuple[int | None, ...]
    p99: tuple[int | None, ...]  # None in buckets under 300 tasks
    highest: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class AsOf:
    """What the numbers hold: all there is, or what fold had counted at ``at`` where the tail is too long."""

    at: datetime
    exact: bool
    tail_rows: int


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Runs that started and have not ended. ``limits`` names those that are near, most runs first."""

    runs: int = 0
    pressed: int = 0
    silent: int = 0
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the overview, read in one snapshot."""

    scope: Scope
    window: Window
    as_of: AsOf
    tiles: Tiles
    halts: Halts
    steps: Steps
    any_runs: bool  # False where these tenants have never sent a run
    job_types: tuple[str, ...] = field(default=())  # in the window, for the filter
    releases: tuple[str, ...] = field(default=())
    live: LiveCounts = field(default_factory=LiveCounts)


GRAIN_LENGTH = {
    Grain.QUARTER: timedelta(minutes=15),
    Grain.HOUR: timedelta(hours=1),
    Grain.DAY: timedelta(days=1),
}
