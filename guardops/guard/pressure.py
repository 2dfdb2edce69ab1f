"""How near a run is to its limits: the share used of each."""

from __future__ import annotations

from guardops.guard.budgets import KINDS
from guardops.guard.state import RunState
from guardops.guard.summary import Counts


def pressure_on(run: RunState, counts: Counts, at: float) -> dict[str, float]:
    """Return the share used of each limit that a whole run is held to, by the limit's name.

    A budget shared with a root counts by whichever is nearer to its end. A limit of 0 allows nothing and so
    has no share. Limits of a single call (repeats, retries of one call) say nothing of the run and are left
    out. ``at`` is in seconds since the run's start.
    """
    limits, sources = run.limits, run.sources
    shares = {name: run.budgets.by_kind[kind].share for kind, name in KINDS.items()}
    shares["max_seconds"] = _share(at + run.carried_seconds, limits.max_seconds)
    if run.deadline is not None:
        shares["deadline"] = _share(at, run.deadline)
    shares["stall_limit"] = _share(run.stall.count, limits.stall_limit)
    shares["max_error_streak"] = _share(run.streak.count, limits.max_error_streak)
    shares["max_refusals"] = _share(counts.refusals_told, limits.max_refusals)
    calls = max((tally.calls for tally in sources.domains.values()), default=0)
    pages = max((len(pages) for pages in sources.listings.values()), default=0)
    shares["domain_cap"] = _share(calls, limits.domain_cap)
    shares["listing_cap"] = _share(pages, limits.listing_cap)
    return {name: round(share, 4) for name, share in shares.items() if share is not None}


def _share(used: float, limit: float) -> float | None:
    return max(0.0, used) / limit if limit > 0 else None
