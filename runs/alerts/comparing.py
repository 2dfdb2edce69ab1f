"""Whether a new release loops more: against what ran beside it, else against what was usual before it.

Pure. A release is compared with the runs of other releases in the same half-hours, so that whatever else went
wrong then counts on both sides. Where nothing ran beside it, it is compared with what is usual, and only if
it was bad from its first half on: a rate that rose long after it came is not its doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from .usual import Baseline

SLOT = 30
"""Minutes that are compared with each other."""
FEWEST = 50
FEWEST_LOOPED = 5
RATIO = 1.7
POINTS = 0.01
EVIDENCE = 7.0
INFORMATIVE = 4.0
"""Variance from which on what ran beside it decides alone."""
HINT = 1.0
HALF_RATIO = 1.4
MOST_USUAL = 4_000

Slot = Sequence[int]
"""[number, its tasks, looped ones, tasks beside it, looped ones]."""


@dataclass(frozen=True, slots=True)
class Worse:
    """A release that loops more: in ``looped`` of its ``tasks``, where ``usual`` would be expected.

    ``beside`` says that this is the rate of what ran beside it, not of what ran before.
    """

    tasks: int
    looped: int
    usual: float
    dispersion: float
    beside: bool


def compare(slots: Sequence[Slot], usual: Baseline) -> Worse | None:
    """Return the verdict on a release, None as long as there is none against it."""
    tasks, looped = sum(slot[1] for slot in slots), sum(slot[2] for slot in slots)
    if tasks < FEWEST or looped < FEWEST_LOOPED:
        return None
    rate = looped / tasks
    score, ratio, variance = _beside(slots, usual.dispersion)
    if variance >= INFORMATIVE:
        other = rate / ratio
        if score < sqrt(2 * EVIDENCE) or ratio < RATIO or rate < other + POINTS:
            return None
        return Worse(tasks, looped, other, usual.dispersion, beside=True)
    if variance >= 1.0 and score < HINT:
        return None
    weight = min(usual.tasks, MOST_USUAL)
    if rate < RATIO * usual.limit or rate < usual.limit + POINTS:
        return None
    if likelihood_ratio(tasks, looped, weight, weight * usual.limit) / usual.dispersion < EVIDENCE:
        return None
    if not _bad_throughout(slots, tasks, looped, HALF_RATIO * usual.limit):
        return None
    return Worse(tasks, looped, usual.limit, usual.dispersion, beside=False)


def _beside(slots: Sequence[Slot], dispersion: float) -> tuple[float, float, float]:
    """Return the score, the ratio of the rates and the variance over slots (Mantel and Haenszel)."""
    observed = expected = variance = mine = theirs = 0.0
    for _, tasks, looped, others, others_looped in slots:
        both = tasks + others
        if not tasks or not others:
            continue
        bad = looped + others_looped
        observed += looped
        expected += tasks * bad / both
        variance += tasks * others * bad * (both - bad) / (both * both * (both - 1))
        mine += looped * others / both
        theirs += others_looped * tasks / both
    score = (observed - expected) / sqrt(variance * dispersion) if variance > 0 else 0.0
    return score, (mine + 0.25) / (theirs + 0.25), variance


def _bad_throughout(slots: Sequence[Slot], tasks: int, looped: int, least: float) -> bool:
    first = first_looped = 0
    for slot in slots:
        first += slot[1]
        first_looped += slot[2]
        if first >= tasks / 2:
            break
    if first_looped < least * first:
        return False
    return first == tasks or looped - first_looped >= least * (tasks - first)


def likelihood_ratio(tasks: float, looped: float, others: float, others_looped: float) -> float:
    """Return the logarithm of the likelihood ratio of two rates against one (half of a G-test)."""
    common = (looped + others_looped) / (tasks + others)
    return _gain(looped, tasks, common) + _gain(others_looped, others, common)


def _gain(looped: float, tasks: float, common: float) -> float:
    rate = looped / tasks
    gain = looped * log(rate / common) if looped > 0 else 0.0
    return gain + ((tasks - looped) * log((1 - rate) / (1 - common)) if tasks > looped else 0.0)
