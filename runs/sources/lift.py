"""How much more often a source is used in stopped runs than in completed ones, without anybody's thumb on it.

Shares are standardised by owner: each owner's own shares, added up with the weight of its stopped runs, of
which no owner has more than half. An owner who sends a million runs so counts no more than all others
together, and one whose runs are stopped often does not make its everyday tools look suspicious.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_WEIGHT = 0.5
_Z = 1.96  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class Tally:
    """An owner's runs: those that used the source, and all of them."""

    owner: int
    stopped: int
    all_stopped: int
    completed: int
    all_completed: int

    @property
    def counts(self) -> bool:
        """Say whether there is anything to compare: both stopped and completed runs."""
        return self.all_stopped > 0 and self.all_completed > 0


@dataclass(frozen=True, slots=True)
class Lift:
    """Share in stopped runs ÷ share in completed ones, with its 95 % interval.

    ``at_least`` where no completed run used it: the ratio is then one of half a run.
    """

    ratio: float
    low: float
    high: float
    stopped_share: float
    completed_share: float
    at_least: bool

    @property
    def known(self) -> float:
        """The ratio, or where no completed run used it the least that it is: what people are told."""
        return self.low if self.at_least else self.ratio


def lift_of(tallies: Sequence[Tally]) -> Lift | None:
    """Return the lift over these owners; None where nothing can be compared."""
    counted = [tally for tally in tallies if tally.counts]
    if not any(tally.stopped for tally in counted):
        return None
    weights = _weights([tally.all_stopped for tally in counted])
    never = not any(tally.completed for tally in counted)
    stopped = _share([(tally.stopped, tally.all_stopped) for tally in counted], weights)
    completed = _share([(tally.completed, tally.all_completed) for tally in counted], weights, half=never)
    ratio = stopped.share / completed.share
    spread = math.exp(_Z * math.sqrt(stopped.relative_variance + completed.relative_variance))
    return Lift(
        ratio, ratio / spread, ratio * spread, stopped.share, 0.0 if never else completed.share, never
    )


def weakest_lift(tallies: Sequence[Tally]) -> float:
    """Return the lift that is left when any one owner is left out: what no single owner can raise.

    It is 0 where leaving one out leaves nothing to compare.
    """
    owners = sorted({tally.owner for tally in tallies if tally.counts})
    without = [lift_of([tally for tally in tallies if tally.owner != owner]) for owner in owners]
    return min((lift.ratio if lift else 0.0 for lift in without), default=0.0)


@dataclass(frozen=True, slots=True)
class _Share:
    share: float
    relative_variance: float


def _share(counts: Sequence[tuple[int, int]], weights: Sequence[float], *, half: bool = False) -> _Share:
    """Add up the owners' shares; each variance is that of its share with half a run added on either side.

    With ``half``, where no run at all used the source, the share is that of half a run.
    """
    share = variance = 0.0
    total = sum(all_of for _, all_of in counts)
    for (used, all_of), weight in zip(counts, weights, strict=True):
        rough = (used + 0.5) / (all_of + 1)
        share += weight * used / all_of
        variance += weight**2 * rough * (1 - rough) / (all_of + 1)
    if half:
        share = 0.5 / (total + 1)
        return _Share(share, 2.0)  # 1 / 0.5: what half a run tells
    return _Share(share, variance / share**2)


def _weights(sizes: Sequence[int]) -> list[float]:
    """Return each size's part of all, none above MOST_WEIGHT; what is cut off goes to the others."""
    total = sum(sizes)
    largest = max(range(len(sizes)), key=lambda place: sizes[place])
    if len(sizes) == 1 or sizes[largest] <= MOST_WEIGHT * total:
        return [size / total for size in sizes]
    rest = total - sizes[largest]
    return [
        MOST_WEIGHT if place == largest else (1 - MOST_WEIGHT) * size / rest
        for place, size in enumerate(sizes)
    ]
