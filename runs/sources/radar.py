"""The radar: sources in stopped runs, ranked by lift, as one reader may see them.

Counts, shares and links are of the tenants that the reader asks about, which they see anyway. That a source
crosses tenants is told to everybody, with its lift over all of them, the number of tenants (three at least)
and the day on which it was first seen: no names, no counts of others, no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connection
from django.db.models import TextChoices

from guardops.tenants.access import Visible
from guardops.tenants.models import Tenant
from policies.blocklist.looks import Look, look_of
from policies.choices import SourceKind
from policies.errors import InvalidSource
from policies.models import BlockedSource
from policies.names import canonical_source
from runs.querysets import ALL_TENANTS

from .counts import Ask, ByTenant, Counted, Counts, Days, Source, read_counts, read_first_seen
from .crossing import LEAST_TENANTS, Crossing, crossing_of, is_shared, read_owners, tallies_of
from .lift import Lift, lift_of

if TYPE_CHECKING:
    from runs.reports.metrics import AsOf

NEW_FOR = timedelta(days=7)
LEAST_SAID = 5
"""Stopped runs under which a source that crosses nothing has no lift: it would say nothing."""


class State(TextChoices):
    SUGGESTED = "suggested", "Suggested"
    WATCHED = "watched", "Watched"
    BLOCKED = "blocked", "Blocked"
    ALLOWED = "allowed", "Allow-listed"
    NORMAL = "normal", "Normal"


@dataclass(frozen=True, slots=True)
class Row:
    """A source. ``mine`` are the counts of the tenants that are asked about, ``every`` all of their runs."""

    kind: str
    name: str
    state: State
    mine: Counted
    every: Counted
    tenants: int  # with a stopped run: of all where it crosses, else of those that are asked about
    crossing: Crossing | None
    lift: Lift | None
    first_seen: date
    is_new: bool
    asked: int  # how many tenants are asked about
    blocked_in: int  # of them
    refusal: str  # why it can't be blocked, empty where it can
    by_tenant: Mapping[int, Counted] = field(default_factory=dict)  # those that are asked about

    @property
    def look(self) -> Look:
        return look_of(self.name)

    @property
    def source(self) -> Source:
        return self.kind, self.name

    @property
    def stopped_share(self) -> float | None:
        return self.mine.stopped / self.every.stopped if self.every.stopped else None

    @property
    def completed_share(self) -> float | None:
        return self.mine.completed / self.every.completed if self.every.completed else None

    def without_counts(self) -> Row:
        """Return the row as it is over days in which nobody used the source."""
        return replace(self, mine=Counted(), by_tenant={}, lift=None)


@dataclass(frozen=True, slots=True)
class Radar:
    """``found`` is how many sources the tenants' stopped runs have; ``rows`` holds those that are ranked."""

    days: Days
    as_of: AsOf
    rows: Sequence[Row]
    found: int

    @property
    def crossing(self) -> int:
        return sum(row.crossing is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Reader:
    """What is the same for all rows of one page."""

    tenants: Sequence[Tenant]
    counts: Counts
    owners: Mapping[int, int]
    every: ByTenant  # of these tenants
    total: Counted  # of these tenants
    allowed: frozenset[frozenset[str]]  # each organisation's allowed domains
    first: Mapping[Source, date]  # anybody's
    own_first: Mapping[Source, date]  # of these tenants

    @classmethod
    def of(cls, tenants: Sequence[Tenant], counts: Counts, owners: Mapping[int, int]) -> _Reader:
        every = {tenant.pk: counts.every[tenant.pk] for tenant in tenants if tenant.pk in counts.every}
        allowed = frozenset(frozenset(tenant.organisation.allowed_domains) for tenant in tenants)
        ids = [tenant.pk for tenant in tenants]
        with connection.cursor() as cursor:
            first = read_first_seen(cursor, counts.sources)
            own = read_first_seen(cursor, counts.sources, ids)
        return cls(tenants, counts, owners, every, _sum(every.values()), allowed, first, own)

    def first_seen(self, source: Source, crossing: Crossing | None) -> date:
        """Return when it was first seen: by others only where that it crosses tenants is told anyway."""
        return (self.first if crossing else self.own_first).get(source, self.counts.days.last)


def read_radar(seen: Visible, tenants: Sequence[Tenant], days: Days, now: datetime) -> Radar:
    """Return the sources of these tenants, which are among those ``seen``, and all that cross tenants."""
    owners = read_owners()
    ids = [tenant.pk for tenant in tenants]
    whole = seen.all_tenants and len(ids) == len(seen.tenants)
    everywhere = Ask([ALL_TENANTS], LEAST_TENANTS, owners if is_shared(owners) else None)
    counts = read_counts([everywhere, Ask([ALL_TENANTS] if whole else ids)], days, now)
    blocks, reader = _blocks(tenants, counts.sources, now), _Reader.of(tenants, counts, owners)
    rows = [_row(source, reader, blocks.get(source, set())) for source in counts.sources]
    shown = [row for row in rows if row.crossing is not None or row.mine.stopped]
    return Radar(days, counts.as_of, sorted(shown, key=_rank), counts.found)


def read_row(tenants: Sequence[Tenant], source: Source, days: Days, now: datetime) -> Row | None:
    """Return one source as these tenants know it; None where none used it and it does not cross tenants."""
    counts = read_counts([], days, now, also=[source])
    if source not in counts.sources:
        return None
    blocks, reader = _blocks(tenants, [source], now), _Reader.of(tenants, counts, read_owners())
    row = _row(source, reader, blocks.get(source, set()))
    return row if row.by_tenant or row.crossing else None


def _rank(row: Row) -> tuple[object, ...]:
    """Put what crosses tenants first, by lift; then the others, by the least that their lift may be.

    Most of those were used in a handful of runs, which says little.
    """
    lift = (row.lift.known if row.crossing else row.lift.low) if row.lift else 0.0
    return (row.crossing is None, -lift, -row.mine.stopped, row.kind, row.name)


def _row(source: Source, reader: _Reader, blocked: set[int]) -> Row:
    counts, tenants = reader.counts, reader.tenants
    used = counts.sources[source]
    crossing = crossing_of(used, counts.every, reader.owners)
    mine = {tenant.pk: used[tenant.pk] for tenant in tenants if tenant.pk in used}
    lift = crossing.lift if crossing else _own_lift(mine, reader)
    refusal, first_seen = _refusal(source, reader.allowed), reader.first_seen(source, crossing)
    return Row(
        kind=source[0],
        name=source[1],
        state=_state(crossing, lift, refused=refusal, blocked=blocked),
        mine=_sum(mine.values()),
        every=reader.total,
        tenants=len(crossing.tenant_ids) if crossing else sum(bool(of.stopped) for of in mine.values()),
        crossing=crossing,
        lift=lift,
        first_seen=first_seen,
        is_new=first_seen > counts.days.last - NEW_FOR,
        asked=len(tenants),
        blocked_in=len(blocked),
        refusal=refusal.message if refusal else "",
        by_tenant=mine,
    )


def _own_lift(mine: ByTenant, reader: _Reader) -> Lift | None:
    if sum(counted.stopped for counted in mine.values()) < LEAST_SAID:
        return None
    return lift_of(tallies_of(mine, reader.every, reader.owners))


def _state(
    crossing: Crossing | None, lift: Lift | None, *, refused: InvalidSource | None, blocked: set[int]
) -> State:
    if blocked:
        return State.BLOCKED
    if refused is not None and refused.code == "own_domain":
        return State.ALLOWED
    if crossing is not None and crossing.stands_out:
        return State.SUGGESTED
    return State.WATCHED if lift is not None and lift.low > 1 else State.NORMAL


def _refusal(source: Source, allowed_domains: Iterable[frozenset[str]]) -> InvalidSource | None:
    """Return why the source can't be blocked for any of the tenants, None where it can for one."""
    error = None
    for allowed in allowed_domains:
        try:
            canonical_source(SourceKind(source[0]), source[1], exact=False, allowed=allowed)
        except InvalidSource as refused:
            error = refused
        except ValueError:
            return InvalidSource("This is neither a domain nor a tool.", code="no_kind")
        else:
            return None
    return error


def _blocks(tenants: Sequence[Tenant], sources: Iterable[Source], now: datetime) -> dict[Source, set[int]]:
    """Return in which of the tenants each source is on the blocklist."""
    found: dict[Source, set[int]] = {}
    names = {name for _, name in sources}
    standing = BlockedSource.objects.standing(now).filter(name__in=names, exact=False)
    for block in standing.filter(organisation=None) | standing.filter(
        organisation__in={tenant.organisation_id for tenant in tenants}
    ):
        held = found.setdefault((block.kind, block.name), set())
        held.update(tenant.pk for tenant in tenants if _covers(block, tenant))
    return {source: held for source, held in found.items() if held}


def _covers(block: BlockedSource, tenant: Tenant) -> bool:
    if block.tenant_id is not None:
        return bool(block.tenant_id == tenant.pk)
    return block.organisation_id in (None, tenant.organisation_id)


def _sum(counts: Iterable[Counted]) -> Counted:
    total = Counted()
    for counted in counts:
        total.add(counted.stopped, counted.completed, counted.calls, counted.cost)
    return total
