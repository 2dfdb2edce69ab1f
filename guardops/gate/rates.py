"""How many events a key may send: a bucket a key, in this process's memory; the clock is a parameter."""

from __future__ import annotations

from collections import OrderedDict

BURST_SECONDS = 10.0
MAX_KEYS = 10_000


class Rates:
    """A key may send ``per_second`` events, and ten seconds' worth at once."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = per_second * BURST_SECONDS
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()  # key -> events left, as of

    def take(self, key_id: int, events: int, now: float) -> float:
        """Take ``events`` from a key's bucket at ``now`` (seconds); return how long to wait, 0 if taken."""
        left, since = self._buckets.pop(key_id, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - since) * self._per_second)
        needed = min(events, self._burst)  # a request beyond the burst takes a full bucket
        taken = needed <= left
        self._buckets[key_id] = (left - needed if taken else left, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (needed - left) / self._per_second
