"""Pages of runs without OFFSET: a page begins after, or ends before, one run in the order of the list.

The order is the sort key, then run id, then tenant (the same run id may exist in two tenants), all in one
direction, so that a single row comparison finds the page and no two runs ever tie.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import F
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .models import Run
    from .querysets import RunQuerySet
    from .reports.metrics import Window

PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

COLUMNS = {"at": "at", "steps": "steps", "cost": "cost", "duration": "duration_ms"}
"""What a list may be sorted by, as the URL names it, and the column behind it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_BOUNDS = {"at": _LATEST, "steps": 2**31 - 1, "duration": 2**63 - 1, "tenant": 2**31 - 1}
_MICRO = Decimal("0.000001")
_MAX_CURSOR = 120


class BadCursor(ValueError):
    """The text in the URL is no place in this list."""


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort key and its direction; written ``-at`` for the newest first."""

    key: str = "at"
    descending: bool = True

    @classmethod
    def parse(cls, text: str) -> Sort:
        """Read ``-at``, ``cost`` and the like; the key must be one of ``COLUMNS``."""
        sort = cls(text.removeprefix("-"), text.startswith("-"))
        if sort.key not in COLUMNS:
            raise ValueError(text)
        return sort

    def __str__(self) -> str:
        return f"-{self.key}" if self.descending else self.key


@dataclass(frozen=True, slots=True)
class Cursor:
    """One run's place in a list sorted by ``key``."""

    key: str
    value: datetime | Decimal | int
    run_id: UUID
    tenant_id: int

    @classmethod
    def of(cls, run: Run, sort: Sort) -> Cursor:
        return cls(sort.key, getattr(run, COLUMNS[sort.key]), run.run_id, run.tenant_id)

    def encode(self) -> str:
        value = self.value
        number = (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
        text = f"{self.key} {number} {self.run_id.hex} {self.tenant_id}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Read what ``encode`` wrote; anything else, or a value no column can hold, is a `BadCursor`."""
        if len(text) > _MAX_CURSOR:
            raise BadCursor(text)
        try:
            plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode(
                "ascii"
            )
            key, number, run_id, tenant = plain.split(" ")
            return cls(key, _read_value(key, number), UUID(run_id), _whole(tenant, _BOUNDS["tenant"]))
        except (binascii.Error, ValueError, InvalidOperation) as error:
            raise BadCursor(text) from error


def _whole(text: str, high: int) -> int:
    value = int(text)
    if not 0 <= value <= high:
        raise ValueError(text)
    return value


def _read_value(key: str, text: str) -> datetime | Decimal | int:
    if key == "cost":
        value = Decimal(text)
        exact = value.quantize(_MICRO)  # a zero may have any exponent, also one that no column takes
        if not (0 <= value < 10**8 and value == exact):
            raise ValueError(text)
        return exact
    if key not in COLUMNS:
        raise ValueError(key)
    number = _whole(text, _BOUNDS[key])
    return _EPOCH + timedelta(microseconds=number) if key == "at" else number


@dataclass(frozen=True, slots=True)
class Page:
    """Up to a page of runs in the list's order, and where its neighbours begin; None where there are none."""

    runs: Sequence[Run]
    next: str | None
    previous: str | None


def read_page(
    runs: RunQuerySet,
    sort: Sort,
    window: Window,
    *,
    after: Cursor | None = None,
    before: Cursor | None = None,
    size: int = PAGE_SIZE,
) -> Page:
    """Return the page that follows ``after`` or ends at ``before``; at most one of them is given.

    ``runs`` lie in the window.
    """
    backwards = before is not None
    place = before if backwards else after
    descending = sort.descending != backwards
    if place is not None:
        runs = runs.filter(_beyond(_columns(sort), place, descending))
    runs = in_order(runs, Sort(sort.key, descending))
    found: list[Run] = []
    for start, end in _stretches(window, sort, place, descending):
        found += runs.between(start, end)[: size + 1 - len(found)]
        if len(found) > size:
            break
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    follows, precedes = (True, more) if backwards else (more, place is not None)
    return Page(
        runs=found,
        next=Cursor.of(found[-1], sort).encode() if found and follows else None,
        previous=Cursor.of(found[0], sort).encode() if found and precedes else None,
    )


def in_order(runs: RunQuerySet, sort: Sort) -> RunQuerySet:
    """Return the runs in the order of a list that is sorted so."""
    return runs.order_by(*(f"-{column}" if sort.descending else column for column in _columns(sort)))


def _columns(sort: Sort) -> list[str]:
    return [COLUMNS[sort.key], "run_id", "tenant_id"]


def _beyond(columns: list[str], place: Cursor, descending: bool) -> Any:
    lookup = TupleLessThan if descending else TupleGreaterThan
    return lookup(Tuple(*(F(column) for column in columns)), (place.value, place.run_id, place.tenant_id))


def _stretches(
    window: Window, sort: Sort, place: Cursor | None, descending: bool
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of the window to read, one after the other until the page is full.

    In the order of time the first part is small: it mostly fills the page, and of several tenants at once no
    index gives the newest runs, so that all of a part are sorted. In any other order it is the whole window.
    """
    start, end = window.start, window.end
    if sort.key != "at":
        yield start, end
        return
    if place is not None and isinstance(place.value, datetime):
        if descending:
            end = min(end, place.value + timedelta(microseconds=1))
        else:
            start = max(start, place.value)
    near, far = (end, start) if descending else (start, end)
    edges = [near + (far - near) / part for part in (512, 64, 8, 1)]
    for edge in edges if start < end else ():
        yield (edge, near) if descending else (near, edge)
        near = edge
