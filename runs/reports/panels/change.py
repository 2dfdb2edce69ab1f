"""A measure against the period before: how far it moved, whether that is worse, whether it is beyond noise.

Several red numbers at once hide the one that counts, so a change is loud only beyond the measure's usual
band: three robust standard errors (from the median absolute deviation of the buckets, which a spike does not
widen), and at least what chance alone moves a share or a count by, or a tenth of what an amount was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, sqrt
from statistics import median

from guardops import shown

_ERRORS = 3.0  # standard errors
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_FEWEST_BUCKETS = 4
_AMOUNT_FLOOR = 0.1  # of the amount before


@dataclass(frozen=True, slots=True)
class Change:
    """What stands beside a number: arrow, amount, verdict; ``beyond`` where it is worse beyond the band."""

    arrow: str  # up, down, same
    amount: str
    verdict: str  # worse, better, or empty where neither
    beyond: bool = False


def count_change(now: int, before: int) -> Change | None:
    """A neutral count, by percent; None where there was nothing before."""
    if not before:
        return None
    percent = abs(now - before) / before * 100
    return _change(now - before, f"{percent:.1f}\u00a0%" if percent >= 0.05 else "")


def share_change(
    now: float | None, before: float | None, sizes: tuple[int, int], spread: Sequence[float]
) -> Change | None:
    """A share where more is worse, in points; ``sizes`` are the runs behind both, ``spread`` the buckets'."""
    if now is None or before is None:
        return None
    pooled = (now * sizes[0] + before * sizes[1]) / sum(sizes)
    chance = _ERRORS * sqrt(pooled * (1 - pooled) * (1 / sizes[0] + 1 / sizes[1]))
    difference = now - before
    amount = shown.points(difference) if abs(difference) >= 0.0005 else ""
    return _change(difference, amount, worse=1, band=max(chance, usual_band(spread) or 0.0))


def mean_change(now: float | None, before: float | None, spread: Sequence[float]) -> Change | None:
    """A mean where more is worse."""
    if now is None or before is None:
        return None
    difference = now - before
    amount = shown.number(abs(difference)) if abs(difference) >= 0.005 else ""
    return _change(difference, amount, worse=1, band=_amount_band(before, spread))


def money_change(
    now: Decimal | None, before: Decimal | None, spread: Sequence[float], *, percent: bool = False
) -> Change | None:
    """An amount of money where more is worse."""
    if now is None or before is None:
        return None
    difference = now - before
    amount = shown.money(abs(difference)) if abs(difference) >= Decimal("0.0005") else ""
    if percent and amount and before:
        amount += f" ({abs(difference) / before * 100:.0f}\u00a0%)"
    return _change(float(difference), amount, worse=1, band=_amount_band(float(before), spread))


def halts_change(now: int, before: int) -> Change:
    """A count of halts where more is worse, with its sign."""
    band = max(_ERRORS * sqrt(now + before), _AMOUNT_FLOOR * before)
    difference = now - before
    amount = f"{'+' if difference > 0 else '−'}{abs(difference):,}" if difference else ""
    return _change(difference, amount, worse=1, band=band)


def usual_band(values: Sequence[float]) -> float | None:
    """How far two periods' means differ by the buckets' own spread; None where too few buckets tell."""
    if len(values) < _FEWEST_BUCKETS:
        return None
    middle = median(values)
    sigma = _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    return _ERRORS * sigma * sqrt(2 / len(values))


def _amount_band(before: float, spread: Sequence[float]) -> float:
    """The band of an amount, of which nothing but its buckets says how much chance moves it."""
    band = usual_band(spread)
    return inf if band is None else max(_AMOUNT_FLOOR * before, band)


def _change(difference: float, amount: str, *, worse: int = 0, band: float = 0.0) -> Change:
    if not amount:
        return Change("same", "no change", "")
    up = difference > 0
    verdict = "" if not worse else "worse" if up == (worse > 0) else "better"
    return Change("up" if up else "down", amount, verdict, verdict == "worse" and abs(difference) > band)
