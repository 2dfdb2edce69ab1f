"""Signals: sources that stand out in stopped runs of several tenants, whoever looks.

The rule is `design.md`'s: a registrable domain or tool in stopped runs of three tenants or more, of two
organisations or more (where the installation has one organisation, three of its tenants), which have
completed runs as well. Beyond it a signal has enough runs, a lift that is no chance, and one that stands
whichever owner is left out, so that nobody makes one alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from django.db import connection

from runs.querysets import ALL_TENANTS

from .counts import Ask, Days, read_counts, read_first_seen
from .crossing import LEAST_STOPPED, crossing_of, is_shared, read_owners
from .lift import Lift

DAYS = 7


@dataclass(frozen=True, slots=True)
class Signal:
    """A source and its evidence of the last seven UTC days. ``tenant_ids`` are for operators alone."""

    kind: str
    name: str
    tenant_ids: tuple[int, ...]
    organisations: int
    stopped: int  # runs
    completed: int  # runs
    lift: Lift
    first_seen: date
    start: datetime  # of the runs that are counted
    end: datetime

    @property
    def source(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def tenants(self) -> int:
        return len(self.tenant_ids)


def signals(now: datetime) -> list[Signal]:
    """Return the sources that stand out in the last seven UTC days, the highest lift first.

    It looks at all tenants: what of it may be shown is for the caller to say.
    """
    days = Days.until(now, DAYS)
    owners = read_owners()
    everywhere = Ask([ALL_TENANTS], LEAST_STOPPED, owners if is_shared(owners) else None)
    counts = read_counts([everywhere], days, now)
    crossing = {source: crossing_of(of, counts.every, owners) for source, of in counts.sources.items()}
    found = {source: cross for source, cross in crossing.items() if cross is not None and cross.stands_out}
    with connection.cursor() as cursor:
        first = read_first_seen(cursor, found)
    unseen = days.last  # by fold: it came a moment ago
    made = [
        Signal(
            kind=source[0],
            name=source[1],
            tenant_ids=cross.tenant_ids,
            organisations=cross.organisations,
            stopped=sum(of.stopped for of in counts.sources[source].values()),
            completed=sum(of.completed for of in counts.sources[source].values()),
            lift=cross.lift,
            first_seen=first.get(source, unseen),
            start=days.start,
            end=days.end,
        )
        for source, cross in found.items()
    ]
    return sorted(made, key=lambda signal: (-signal.lift.known, signal.kind, signal.name))
