"""Puts recorded runs onto recent days: the same run and window always give the same time and run id.

A run's start is drawn from a window of 13 days that closes at ``until``, seeded by its recorded id alone,
so that it stays inside a view of the last 14 days for one day more. Density follows working hours in UTC:
an hour by day weighs four times one at night, and a day at the weekend 0.6 of one in the week. Runs that
cannot end by ``until`` start earlier by as much.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import accumulate
from uuid import UUID

from guardops.guard.ids import uuid7

SPREAD = timedelta(days=13)
HOUR = timedelta(hours=1)
WEEKEND = 0.6
HOURS = (1, 1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4, 3, 4, 4, 4, 4, 3, 2, 2, 2, 1, 1, 1)
"""Weight of each hour of the day, UTC."""

_UNIT = 2**64
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window_end(now: datetime) -> datetime:
    """Return the full hour: a second replay within it gives the same ids."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


class Calendar:
    """Draws start times from the days before ``until``."""

    def __init__(self, until: datetime, spread: timedelta = SPREAD) -> None:
        self.until = until.astimezone(UTC)
        self.begin = self.until - spread
        self._ends: Sequence[float] = list(accumulate(self._weights(spread // HOUR)))

    def start(self, seed: str, duration_s: float) -> datetime:
        """Return when the run ``seed``, that lasts ``duration_s`` seconds, starts; to the millisecond."""
        share = fraction(seed, "start") * self._ends[-1]
        hour = min(bisect_right(self._ends, share), len(self._ends) - 1)
        before = self._ends[hour - 1] if hour else 0.0
        within = (share - before) / (self._ends[hour] - before)
        drawn = self.begin + HOUR * (hour + within)
        latest = self.until - timedelta(seconds=duration_s)
        return _EPOCH + (min(drawn, latest) - _EPOCH) // _MILLISECOND * _MILLISECOND

    def _weights(self, hours: int) -> list[float]:
        moments = (self.begin + HOUR * index for index in range(hours))
        return [HOURS[at.hour] * (WEEKEND if at.weekday() >= 5 else 1.0) for at in moments]


def fraction(seed: str, purpose: str) -> float:
    """Return a number in [0, 1) that ``seed`` and ``purpose`` alone decide."""
    digest = sha256(f"{purpose}\0{seed}".encode()).digest()
    return int.from_bytes(digest[:8]) / _UNIT


def stable_id(start: datetime, seed: str) -> UUID:
    """Return the UUIDv7 of ``start`` whose random bits are from SHA-256 of ``seed``."""
    return uuid7((start - _EPOCH) // _MILLISECOND, int.from_bytes(sha256(seed.encode()).digest()[:10]) >> 6)
