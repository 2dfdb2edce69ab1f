"""Oscillation: the same few calls, over and over, with the same results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from guardops.guard.reasons import Reason

Entry = tuple[str, str, int]
"""Fingerprint, digest of how it ended, and the caller's evidence version."""

_REASONS = {2: Reason.CYCLE_PERIOD_2, 3: Reason.CYCLE_PERIOD_3, 4: Reason.CYCLE_PERIOD_4}


class CycleDetector:
    """Sees the last ``window`` calls; reported progress empties it, since what went before led somewhere."""

    __slots__ = ("_entries", "_max_period", "_repeats")

    def __init__(self, window: int, max_period: int, repeats: int, entries: Iterable[Entry] = ()) -> None:
        self._entries: deque[Entry] = deque(entries, maxlen=window)
        self._max_period = max_period
        self._repeats = repeats

    def add(self, entry: Entry) -> None:
        """Note one executed call."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Forget what was seen."""
        self._entries.clear()

    @property
    def entries(self) -> list[Entry]:
        """What the detector has in view, oldest first."""
        return list(self._entries)

    def period(self) -> int:
        """Return the shortest period of 2 or more that the newest calls repeat often enough, or 0."""
        entries = self._entries
        size = len(entries)
        for period in range(2, self._max_period + 1):
            if period * self._repeats > size:
                break
            # The cheap look first: most calls don't equal the one a period ago.
            if entries[-1] == entries[-1 - period] and self._repeats_with(period):
                return period
        return 0

    def _repeats_with(self, period: int) -> bool:
        newest = list(self._entries)[-period * self._repeats :]
        block = newest[:period]
        return len(set(block)) > 1 and newest == block * self._repeats


def reason_for(period: int) -> Reason:
    """Return the halt reason of a cycle; periods over 4, where a policy allows them, share the last code."""
    return _REASONS.get(period, Reason.CYCLE_PERIOD_4)


def ping_pong(edges: Sequence[object], max_period: int = 4) -> bool:
    """Say whether the newest hand-overs repeat twice with a period of 2 to ``max_period``.

    An edge is who hands what to whom, so a package that changed makes another edge. One A-B-A is an ordinary
    delegate-and-return.
    """
    for period in range(2, max_period + 1):
        newest = list(edges[-2 * period :])
        if len(newest) == 2 * period and newest[:period] == newest[period:] and len(set(newest)) > 1:
            return True
    return False
