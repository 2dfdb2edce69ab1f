"""What the roll-ups know of sources: a day's runs by tenant, with those that fold has not counted yet.

Everything is bounded, however many names are sent: a tenant has at most 200 a day in the roll-ups, and of
those only the ones with the most stopped runs are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from runs.querysets import ALL_TENANTS
from runs.reports.metrics import AsOf, Scope, Window
from runs.reports.reading import Reading, open_reading

MOST_SOURCES = 500
"""Sources that are ranked: those with the most stopped runs."""

LONGEST_TAIL = 2_000
"""Runs that fold has not counted and that a page adds by itself: each may have 20 names of its own."""

Source = tuple[str, str]
"""Kind and name."""

EVERY: Source = ("", "")
"""The row of a tenant's day that counts all of its runs."""


@dataclass(slots=True)
class Counted:
    """Runs that used a source, or all of them, and the calls and cost of those that used it."""

    stopped: int = 0
    completed: int = 0
    calls: int = 0
    cost: Decimal = Decimal(0)

    def add(self, stopped: int, completed: int, calls: int, cost: Decimal) -> None:
        self.stopped += stopped
        self.completed += completed
        self.calls += calls
        self.cost += cost


ByTenant = dict[int, Counted]


@dataclass(frozen=True, slots=True)
class Days:
    """Whole UTC days up to the one in progress; runs lie in [start, end)."""

    first: date
    last: date

    @classmethod
    def until(cls, now: datetime, number: int) -> Days:
        # A clock may be five minutes ahead: what it sends just before midnight lies in the next day.
        last = (now.astimezone(UTC) + timedelta(minutes=5)).date()
        return cls(last - timedelta(days=number - 1), last)

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime:
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)

    @property
    def all(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range((self.last - self.first).days + 1)]

    @property
    def window(self) -> Window:
        return Window(self.start, self.end, timedelta(days=1))


@dataclass(frozen=True, slots=True)
class Counts:
    """Sources by tenant in some days. ``found`` is how many the scope has, ranked or not."""

    days: Days
    as_of: AsOf
    every: ByTenant = field(default_factory=dict)
    sources: dict[Source, ByTenant] = field(default_factory=dict)
    found: int = 0


# Tenant 0 names the organisations in ascending order: there are several where the first and the last differ.
_LARGEST = """\
SELECT kind, name, count(*) OVER ()
FROM source_day WHERE tenant_id = ANY(%(tenant_ids)s) AND day = ANY(%(days)s) AND name <> ''
GROUP BY 1, 2 HAVING sum(stopped) >= %(at_least)s AND (NOT %(several)s
    OR min(organisations[1]) <> max(organisations[cardinality(organisations)]))
ORDER BY sum(stopped) DESC, 1, 2 LIMIT %(most)s"""

_BY_TENANT = """\
SELECT tenant_id, kind, name, sum(stopped)::bigint, sum(completed)::bigint, sum(calls)::bigint, sum(cost)
FROM source_day JOIN unnest(%(kinds)s::text[], %(names)s::text[]) AS asked(kind, name) USING (kind, name)
WHERE day BETWEEN %(first)s AND %(last)s AND tenant_id <> 0 GROUP BY 1, 2, 3"""


@dataclass(frozen=True, slots=True)
class Ask:
    """Which sources: with so many stopped runs in these tenants together.

    With ``owners``, each tenant's organisation, only those of several: one owner's made-up names
    could else take all places. That is for all tenants together alone.
    """

    tenant_ids: Collection[int]
    at_least: int = 1
    owners: Mapping[int, int] | None = None


def read_counts(asks: Sequence[Ask], days: Days, now: datetime, *, also: Iterable[Source] = ()) -> Counts:
    """Count the sources that are asked for in all tenants, and those of ``also``; it opens the snapshot.

    The counts are of everybody: what may be shown of them is for the caller to say. ``found`` is of the last
    of ``asks``.
    """
    with open_reading(Scope((ALL_TENANTS,)), days.window, now) as reading:
        tail, as_of = _tail(reading, days)
        asked, found = dict.fromkeys([EVERY, *also]), 0
        for ask in asks:
            ranked, found = _largest(reading, ask, days)
            fresh = [source for source in _fresh(tail, ask) if source not in ranked]
            asked |= dict.fromkeys([*ranked, *fresh[:MOST_SOURCES]])
            found += len(fresh)
        counted = _by_tenant(reading, asked, days, tail)
        return Counts(days, as_of, counted.pop(EVERY, {}), counted, found)


def _tail(reading: Reading, days: Days) -> tuple[Sequence[Any], AsOf]:
    """Return what fold has not counted, and what the numbers then hold; none of a tail that is too long."""
    rows = reading.tail.rows
    if rows > LONGEST_TAIL:
        folded_at = reading.state.folded_at if reading.state else None
        return [], AsOf(folded_at or days.start, exact=False, tail_rows=rows)
    return [cell for cell in reading.tail.sources if days.first <= cell["day"] <= days.last], reading.as_of


def _largest(reading: Reading, ask: Ask, days: Days) -> tuple[dict[Source, None], int]:
    parameters = {
        "tenant_ids": list(ask.tenant_ids),
        "days": days.all,
        "at_least": ask.at_least,
        "several": ask.owners is not None,
        "most": MOST_SOURCES,
    }
    reading.cursor.execute(_LARGEST, parameters)
    rows = reading.cursor.fetchall()
    return dict.fromkeys((kind, name) for kind, name, _ in rows), rows[0][2] if rows else 0


def _fresh(tail: Sequence[Any], ask: Ask) -> list[Source]:
    """Return what the tail has of it by itself, so that a new source is not overlooked until it is folded."""
    stopped: dict[Source, int] = defaultdict(int)
    organisations: dict[Source, set[int | None]] = defaultdict(set)
    owners = ask.owners
    for cell in tail:
        tenant_id, source = cell["tenant_id"], (cell["kind"], cell["name"])
        if cell["name"] and cell["stopped"] and not {ALL_TENANTS, tenant_id}.isdisjoint(ask.tenant_ids):
            stopped[source] += cell["stopped"]
            organisations[source].add(owners.get(tenant_id) if owners else None)
    enough = [
        source
        for source, number in stopped.items()
        if number >= ask.at_least and (owners is None or len(organisations[source]) > 1)
    ]
    return sorted(enough, key=lambda source: (-stopped[source], source))


def _by_tenant(
    reading: Reading, asked: Collection[Source], days: Days, tail: Sequence[Any]
) -> dict[Source, ByTenant]:
    reading.cursor.execute(
        _BY_TENANT,
        {
            "kinds": [kind for kind, _ in asked],
            "names": [name for _, name in asked],
            "first": days.first,
            "last": days.last,
        },
    )
    found: dict[Source, ByTenant] = defaultdict(lambda: defaultdict(Counted))
    for tenant_id, kind, name, *numbers in reading.cursor.fetchall():
        found[kind, name][tenant_id].add(*numbers)
    for cell in tail:
        if (source := (cell["kind"], cell["name"])) in asked:
            numbers = [cell[column] for column in ("stopped", "completed", "calls", "cost")]
            found[source][cell["tenant_id"]].add(*numbers)
    return {source: dict(of) for source, of in found.items()}


_FIRST_SEEN = """\
SELECT kind, name, first.day FROM unnest(%(kinds)s::text[], %(names)s::text[]) AS asked(kind, name)
CROSS JOIN LATERAL (
    SELECT day FROM source_day AS s WHERE s.kind = asked.kind AND s.name = asked.name
        AND (%(tenant_ids)s::int[] IS NULL OR s.tenant_id = ANY(%(tenant_ids)s)) ORDER BY day LIMIT 1
) AS first"""


def read_first_seen(
    cursor: Any, sources: Collection[Source], tenant_ids: Sequence[int] | None = None
) -> dict[Source, date]:
    """Return the UTC day on which a run used each source first, as far as fold has counted.

    Anybody's run, or one of these tenants.
    """
    names = {"kinds": [kind for kind, _ in sources], "names": [name for _, name in sources]}
    cursor.execute(_FIRST_SEEN, names | {"tenant_ids": None if tenant_ids is None else list(tenant_ids)})
    return {(kind, name): day for kind, name, day in cursor.fetchall()}


_BY_DAY = """\
SELECT kind, name, day, sum(stopped)::bigint, sum(completed)::bigint, sum(calls)::bigint, sum(cost)
FROM source_day JOIN unnest(%(kinds)s::text[], %(names)s::text[]) AS asked(kind, name) USING (kind, name)
WHERE day BETWEEN %(first)s AND %(last)s AND tenant_id = ANY(%(tenant_ids)s) GROUP BY 1, 2, 3"""


def read_by_day(
    sources: Collection[Source], tenant_ids: Sequence[int], days: Days, now: datetime
) -> dict[Source, dict[date, Counted]]:
    """Return each source's counts in these tenants by UTC day; it opens a snapshot of its own."""
    found: dict[Source, dict[date, Counted]] = {source: {} for source in sources}
    with open_reading(Scope(tuple(tenant_ids)), days.window, now) as reading:
        parameters = {
            "kinds": [kind for kind, _ in sources],
            "names": [name for _, name in sources],
            "first": days.first,
            "last": days.last,
            "tenant_ids": list(tenant_ids),
        }
        reading.cursor.execute(_BY_DAY, parameters)
        for kind, name, day, *numbers in reading.cursor.fetchall():
            found[kind, name].setdefault(day, Counted()).add(*numbers)
        for cell in _tail(reading, days)[0]:
            source = cell["kind"], cell["name"]
            if source in found:
                numbers = [cell[column] for column in ("stopped", "completed", "calls", "cost")]
                found[source].setdefault(cell["day"], Counted()).add(*numbers)
    return found
