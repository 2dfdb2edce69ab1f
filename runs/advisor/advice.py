"""What a cap should be, judged by the tasks that completed with an answer under the one of today. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil

from guardops.guard.policy import BOUNDS
from guardops.shown import count, share
from runs.reports.metrics import MIN_RUNS_FOR_P99
from runs.reports.percentiles import nearest_rank

ABOVE = 1.1
"""A suggestion lies a tenth above the 99th percentile."""
WIDER = 4 / 3
"""Where the cap hides the tail, the suggestion is a third above the cap, to see it."""
CENSORED_SHARE = 0.01
"""From this share of tasks near the cap on, the 99th percentile itself stands at the cap."""
TIGHT_SHARE = 0.01
"""A cap that more tasks than this would have met lies below the 99th percentile."""
LOOSE = 2.5
"""From this many times the 99th percentile on, a cap hardly holds anything."""

CAP_OF_UNIT = {"tool_call": "max_steps", "turn": "max_turns"}
"""Which limit steps of a unit are held to; a framework's supersteps have none here."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measure of ``tasks`` tasks is spread: nearest ranks, in the limit's own unit."""

    tasks: int
    p50: float
    p95: float
    p99: float
    highest: float
    near: int
    """Tasks at 90 % of today's cap or above."""
    covered: int
    """Tasks that the cap in question would not have met."""


@dataclass(frozen=True, slots=True)
class Verdict:
    icon: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A limit by its name in policies (empty where no policy holds it), today's cap and the draft's."""

    limit: str
    spread: Spread
    today: float | None
    draft: float | None

    @property
    def enough(self) -> bool:
        return self.spread.tasks >= MIN_RUNS_FOR_P99

    @property
    def near_share(self) -> float | None:
        return self.spread.near / self.spread.tasks if self.today is not None else None

    @property
    def censored(self) -> bool:
        return (self.near_share or 0.0) >= CENSORED_SHARE

    @property
    def suggestion(self) -> int | None:
        """Return a cap a little above the 99th percentile, or above a cap that hides it."""
        if not self.limit or not self.enough:
            return None
        wanted = max(self.spread.p99 * ABOVE, self.spread.p99 + 1)
        if self.censored and self.today is not None:
            wanted = max(wanted, self.today * WIDER)
        step = 10 if self.limit == "max_seconds" else 1
        return min(ceil(round(wanted / step, 6)) * step, int(BOUNDS[self.limit][1]))

    @property
    def verdict(self) -> Verdict:
        """Judge the draft's cap."""
        spread, cap = self.spread, self.draft
        if cap is None:
            return Verdict("same", "", "No policy holds it")
        if not self.enough:
            return Verdict("clock", "", f"{spread.tasks:,} of {MIN_RUNS_FOR_P99} tasks")
        if self.censored:
            return Verdict("hidden", "warn", "Censored: the cap hides the tail")
        missed = 1 - spread.covered / spread.tasks
        if missed > TIGHT_SHARE:
            return Verdict("flag", "warn", f"Tight: {count(int(cap))} cuts {share(missed)} of them")
        if spread.p99 and cap >= LOOSE * spread.p99:
            return Verdict("loose", "", f"Loose: {cap / spread.p99:,.1f} × p99")
        return Verdict("ok", "ok", f"{count(int(cap))} covers {share(1 - missed) if missed else 'all'}")


def near_from(cap: int) -> int:
    """Return the lowest number of steps at 90 % of a cap; the same as ``RunQuerySet.near_cap``."""
    return cap - cap // 10


def spread_of(tasks: Counter[int], today: int | None, draft: int | None, *, last_counts: bool) -> Spread:
    """Return the spread of a histogram of steps; with ``last_counts`` the step at the cap itself is cut."""

    def rank(percent: int) -> int:
        return nearest_rank(tasks, percent) or 0

    near = 0 if today is None else sum(n for value, n in tasks.items() if value >= near_from(today))
    cut_from = None if draft is None else draft if last_counts else draft + 1
    met = 0 if cut_from is None else sum(n for value, n in tasks.items() if value >= cut_from)
    return Spread(
        tasks=tasks.total(),
        p50=rank(50),
        p95=rank(95),
        p99=rank(99),
        highest=max(tasks, default=0),
        near=near,
        covered=tasks.total() - met,
    )
