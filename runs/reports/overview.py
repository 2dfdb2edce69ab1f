"""Everything on the overview, read in one snapshot."""

from __future__ import annotations

from datetime import datetime

from .counts import sums_by_bucket
from .facets import any_runs, read_job_types, read_releases
from .halts import read_halts
from .live import read_live
from .metrics import Overview, Scope, Window
from .reading import open_reading
from .steps import Job, read_steps
from .tiles import make_tiles
from .windows import buckets


def read_overview(scope: Scope, window: Window, *, now: datetime, steps_job: Job | None = None) -> Overview:
    """Read the overview of ``scope``; ``steps_job`` is the job type and unit whose steps are drawn over time.

    It must be the outermost transaction. A scope's tenant ids come from `guardops.tenants.access`: nothing
    here asks who may see them.
    """
    shown, earlier = buckets(window, now), buckets(window.before, now)
    with open_reading(scope, window, now) as reading:
        sums = sums_by_bucket(reading, [*earlier, *shown])
        before, current = sums[: len(earlier)], sums[len(earlier) :]
        return Overview(
            scope=scope,
            window=window,
            as_of=reading.as_of,
            tiles=make_tiles(shown, before, current),
            halts=read_halts(reading, earlier, before, shown, current),
            steps=read_steps(reading, shown, steps_job),
            any_runs=any_runs(reading),
            job_types=read_job_types(reading),
            releases=read_releases(reading),
            live=read_live(scope, now),
        )
