"""Reads the audit trail, newest first: one short query a kind, by an index, merged into one list."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Self

from django.db.models import OuterRef, Q, Subquery

from guardops.tenants.models import Tenant

from .entries import Entry, Row, entries
from .kinds import Kind, kinds
from .scope import TrailScope

PAGE = 50
CHUNK = 1000  # rows read at once for a file

_PLACE = re.compile(r"(\d{20})\.([a-z-]{1,32})\.([1-9]\d{0,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the trail: rows are ordered by their moment, kind and number, the newest first."""

    at: datetime
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y%m%d%H%M%S%f}.{self.kind}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str`` wrote; raises ValueError for anything else."""
        match = _PLACE.fullmatch(text)
        if match is None or int(match[3]) >= 2**31:
            raise ValueError("That is no place in the trail.")
        return cls(datetime.strptime(match[1], "%Y%m%d%H%M%S%f").replace(tzinfo=UTC), match[2], int(match[3]))

    def beyond(self, kind: str, *, newer: bool) -> Q:
        """Return the condition on rows of ``kind`` that stand before this place (newer) or after it."""
        way = "gt" if newer else "lt"
        further, not_back = (
            Q(**{f"pgh_created_at__{way}": self.at}),
            Q(**{f"pgh_created_at__{way}e": self.at}),
        )
        if kind == self.kind:
            # Said twice, so that the index on the moment is entered at the right place.
            return not_back & (further | Q(**{f"pgh_id__{way}": self.number}))
        # Of one moment, kinds stand in the order of their slugs.
        return not_back if (kind < self.kind) == newer else further


@dataclass(frozen=True, slots=True)
class Asked:
    """Which audit rows: half-open from ``since`` (all where None), narrowed by whatever else is given."""

    since: datetime | None = None
    kind: str = ""
    action: str = ""
    tenant: Tenant | None = None
    who: str = ""
    after: Place | None = None
    before: Place | None = None


@dataclass(frozen=True, slots=True)
class TrailPage:
    """One page, newest first, and the places where the next newer and older ones begin."""

    entries: Sequence[Entry]
    newer: Place | None
    older: Place | None


def read_page(scope: TrailScope, asked: Asked, *, size: int = PAGE) -> TrailPage:
    """Return the rows that follow ``asked.after``, or stand before ``asked.before``, at most ``size``."""
    backwards = asked.before is not None
    found = _merged(scope, asked, size + 1, newer=backwards)
    rows, more = found[:size], len(found) > size
    if backwards:
        rows.reverse()
    has_newer = more if backwards else asked.after is not None
    has_older = True if backwards else more
    return TrailPage(
        entries=entries(_with_before(rows)),
        newer=_place(*rows[0]) if rows and has_newer else None,
        older=_place(*rows[-1]) if rows and has_older else None,
    )


def read_all(scope: TrailScope, asked: Asked) -> Iterator[Entry]:
    """Yield all rows asked for, newest first, with a few short queries for every thousand."""
    place: Place | None = None
    while True:
        page = read_page(scope, replace(asked, after=place, before=None), size=CHUNK)
        yield from page.entries
        if page.older is None:
            return
        place = page.older


def _merged(scope: TrailScope, asked: Asked, limit: int, *, newer: bool) -> list[tuple[Kind, Any]]:
    lists = [
        [(kind, event) for event in _events(kind, scope, asked, limit, newer=newer)]
        for kind in kinds()
        if asked.kind in {"", kind.slug} and (asked.tenant is None or kind.of_tenants)
    ]
    # Each list is sorted, and so is the order of the lists, in which rows of one moment are merged.
    order = lists[::-1] if newer else lists
    merged = heapq.merge(*order, key=lambda row: row[1].pgh_created_at, reverse=not newer)
    return list(islice(merged, limit))


def _events(kind: Kind, scope: TrailScope, asked: Asked, limit: int, *, newer: bool) -> Any:
    rows = kind.event.objects.filter(scope.rows_of(kind))
    if asked.since is not None:
        rows = rows.filter(pgh_created_at__gte=asked.since)
    if asked.action:
        rows = rows.filter(pgh_label=asked.action)
    if asked.tenant is not None and kind.of_tenants is not None:
        rows = rows.filter(kind.of_tenants([asked.tenant.pk]))
    if asked.who:
        rows = rows.filter(pgh_context__actor__name=asked.who)
    place = asked.before or asked.after
    if place is not None:
        rows = rows.filter(place.beyond(kind.slug, newer=newer))
    order = ("pgh_created_at", "pgh_id") if newer else ("-pgh_created_at", "-pgh_id")
    earlier = kind.event.objects.filter(pgh_obj=OuterRef("pgh_obj"), pgh_id__lt=OuterRef("pgh_id"))
    before = Subquery(earlier.order_by("-pgh_id").values("pgh_id")[:1])
    return rows.annotate(before=before).order_by(*order)[:limit]


def _with_before(rows: Sequence[tuple[Kind, Any]]) -> list[Row]:
    """Add to each row of a change the row before it of the same thing, with one query a kind."""
    wanted: dict[str, list[int]] = {}
    for kind, event in rows:
        if event.pgh_label == "update" and event.before is not None:
            wanted.setdefault(kind.slug, []).append(event.before)
    found = {
        kind.slug: kind.event.objects.in_bulk(wanted[kind.slug]) for kind in kinds() if kind.slug in wanted
    }
    return [Row(kind, event, found.get(kind.slug, {}).get(event.before)) for kind, event in rows]


def _place(kind: Kind, event: Any) -> Place:
    return Place(event.pgh_created_at, kind.slug, event.pgh_id)
