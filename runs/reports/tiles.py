"""The tiles: what was counted in the window, in the period before, and in each bucket."""

from __future__ import annotations

from collections.abc import Sequence

from .counts import Sums, as_counts, total
from .metrics import Bucket, Tiles


def make_tiles(buckets: Sequence[Bucket], before: Sequence[Sums], now: Sequence[Sums]) -> Tiles:
    return Tiles(
        now=as_counts(total(now)),
        before=as_counts(total(before)),
        buckets=tuple(buckets),
        series=tuple(as_counts(sums) for sums in now),
    )
