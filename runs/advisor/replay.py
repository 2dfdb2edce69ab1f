"""What other caps would have made of runs that ended: whom they would newly stop, whom no longer, and what
that saves.

Pure. A run *meets* a cap as `guardops.guard` judges it, by what its row counted; that it was then only nudged
is not looked at, as in shadow mode. The same is written in SQL in `runs.advisor.counting`, which counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any, Self

from guardops.guard.events import Outcome

from .caps import CAPS, Amount, Cap

PRICED = ("max_steps", "max_turns", "max_seconds", "max_cost")
"""The caps of which a run's row says what stopping at them saves."""


class Fate(IntEnum):
    """What a change of caps makes of a run, in the order in which they are listed."""

    FALSE_STOP = 0
    """It completed, and would be stopped."""
    STOPPED = 1
    """It ended otherwise without a stop, and would be stopped."""
    NO_LONGER = 2
    """A cap stopped it that it would not meet any more."""
    SOONER = 3
    """It was stopped, and would be earlier."""


@dataclass(frozen=True, slots=True)
class CapChange:
    """A cap that changes: None stops nobody, as caps that are not budgets in shadow mode."""

    cap: Cap
    before: Amount | None
    after: Amount | None

    @property
    def tightens(self) -> bool:
        return self.after is not None and (self.before is None or self.after < self.before)

    def newly_meets(self, count: Amount) -> bool:
        return self.meets(count) and (self.before is None or count < self.cap.meets_from(self.before))

    def meets(self, count: Amount) -> bool:
        return self.after is not None and count >= self.cap.meets_from(self.after)

    def stops_sooner(self, count: Amount) -> bool:
        """Say whether a run that was stopped with this count would have been earlier."""
        if self.after is None:
            return False
        return count > self.after if self.cap.total else count >= self.cap.meets_from(self.after)

    def no_longer(self, count: Amount, reason: str) -> bool:
        """Say whether a run that was stopped for ``reason`` would not meet the cap any more."""
        if self.before is None or reason != self.cap.reason:
            return False
        return count >= self.cap.stopped_from(self.before) and not self.meets(count)


def changes_between(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> tuple[CapChange, ...]:
    """Return the caps that differ, in the order of `CAPS`."""
    return tuple(
        CapChange(cap, before.get(name), after.get(name))
        for name, cap in CAPS.items()
        if before.get(name) != after.get(name)
    )


def fate_of(run: Any, changes: Iterable[CapChange]) -> tuple[Fate | None, list[CapChange]]:
    """Return what ``changes`` make of a row of the run table, and the changes that do it."""
    tighter = [change for change in changes if change.tightens]
    if run.halt_reason and run.outcome != Outcome.COMPLETED:
        sooner = [change for change in tighter if change.stops_sooner(change.cap.count(run))]
        if sooner:
            return Fate.SOONER, sooner
        spared = [
            change
            for change in changes
            if not change.tightens and change.no_longer(change.cap.count(run), run.halt_reason)
        ]
        return (Fate.NO_LONGER, spared) if spared else (None, [])
    newly = [change for change in tighter if change.newly_meets(change.cap.count(run))]
    if not newly:
        return None, []
    return Fate.FALSE_STOP if run.outcome == Outcome.COMPLETED else Fate.STOPPED, newly


def kept_share(run: Any, name: str, value: Amount | None) -> Decimal:
    """Return the share of a run's cost that is spent when the priced cap ``name`` stands at ``value``.

    Every step reads the whole transcript again, so k of n steps cost k(k+1) of n(n+1). A time cap lets the
    step under way end; of a cost cap what lies above it is saved.
    """
    if value is None:
        return Decimal(1)
    if name == "max_cost":
        return Decimal(value) / run.cost if run.cost > value else Decimal(1)
    count = CAPS[name].count(run)
    if count <= value:
        return Decimal(1)
    if name == "max_seconds":
        steps = run.steps or run.turns or 1
        return _part(-(-steps * int(value) // int(count)), steps)
    return _part(int(value), run.turns if name == "max_turns" else int(count))


def saved_on(run: Any, changes: Iterable[CapChange]) -> Decimal:
    """Return the USD that ``changes`` save on a run that they stop, or stop sooner."""
    priced = [change for change in changes if change.tightens and change.cap.name in PRICED]
    before = min((kept_share(run, change.cap.name, change.before) for change in priced), default=Decimal(1))
    after = min((kept_share(run, change.cap.name, change.after) for change in priced), default=Decimal(1))
    saved: Decimal = run.cost * (before - after)
    return saved


def _part(done: int, steps: int) -> Decimal:
    return Decimal(done * (done + 1)) / (steps * (steps + 1))


@dataclass(slots=True)
class CapTally:
    """What one changed cap does by itself."""

    stopped: int = 0
    """Runs that would newly be stopped, false stops included."""
    false_stops: int = 0
    sooner: int = 0
    no_longer: int = 0
    saved: Decimal = Decimal(0)

    @classmethod
    def read(cls, numbers: Sequence[Any]) -> Self:
        stopped, false_stops, sooner, no_longer = map(int, numbers[:4])
        return cls(stopped, false_stops, sooner, no_longer, Decimal(numbers[4]))

    @property
    def numbers(self) -> tuple[int | Decimal, ...]:
        """What `read` takes."""
        return self.stopped, self.false_stops, self.sooner, self.no_longer, self.saved

    def plus(self, other: CapTally) -> CapTally:
        return CapTally.read([a + b for a, b in zip(self.numbers, other.numbers, strict=True)])


@dataclass(slots=True)
class Tally:
    """What all changes do together; a run counts once, whichever caps it meets."""

    runs: int = 0
    completed: int = 0
    stopped: int = 0
    """Runs that would newly be stopped, false stops included."""
    false_stops: int = 0
    failed: int = 0
    """Of those stopped: runs that failed or were cancelled."""
    sooner: int = 0
    no_longer: int = 0
    saved: Decimal = Decimal(0)
    saved_on_false_stops: Decimal = Decimal(0)
    caps: dict[str, CapTally] = field(default_factory=dict)

    @classmethod
    def read(cls, numbers: Sequence[Any], caps: Mapping[str, Sequence[Any]]) -> Self:
        runs, completed, stopped, false_stops, failed, sooner, no_longer = map(int, numbers[:7])
        saved, on_false_stops = map(Decimal, numbers[7:])
        own = {name: CapTally.read(cap) for name, cap in caps.items()}
        return cls(
            runs, completed, stopped, false_stops, failed, sooner, no_longer, saved, on_false_stops, own
        )

    @property
    def numbers(self) -> tuple[int | Decimal, ...]:
        """What `read` takes, but for the caps'."""
        return (
            *(self.runs, self.completed, self.stopped, self.false_stops, self.failed),
            *(self.sooner, self.no_longer, self.saved, self.saved_on_false_stops),
        )

    @property
    def other(self) -> int:
        """Of those stopped: neither completed nor failed, such as forced answers."""
        return self.stopped - self.false_stops - self.failed

    def plus(self, other: Tally) -> Tally:
        found = Tally.read([a + b for a, b in zip(self.numbers, other.numbers, strict=True)], {})
        for tally in (self, other):
            for name, cap in tally.caps.items():
                found.caps[name] = found.caps.get(name, CapTally()).plus(cap)
        return found
