"""How time is filled from roll-ups: days inside, hours around them, quarter-hours at the edges."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from runs.choices import Grain

from .metrics import GRAIN_LENGTH

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

FROM_PIECES = """\
unnest(%(grains)s::smallint[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
    AS p(grain, start, until)"""
"""Joined to a LATERAL read of the rows of ``p.grain`` with ``at`` in [p.start, p.until)."""


class Piece(NamedTuple):
    """Rows of one grain that begin in [start, end) fill just that."""

    grain: Grain
    start: datetime
    end: datetime


def pieces_of(start: datetime, end: datetime, *, hours_to: datetime, days_to: datetime) -> list[Piece]:
    """Fill [start, end), whole quarter-hours, with the coarsest rows that exist."""
    limits = {Grain.DAY: days_to, Grain.HOUR: hours_to}
    return [piece for piece in _fill(start, end, Grain.DAY, limits) if piece.start < piece.end]


def _fill(start: datetime, end: datetime, grain: Grain, limits: dict[Grain, datetime]) -> Iterable[Piece]:
    if grain == Grain.QUARTER:
        return [Piece(grain, start, end)]
    length = GRAIN_LENGTH[grain]
    first = start + (_EPOCH - start) % length
    last = min(end - (end - _EPOCH) % length, limits[grain])
    finer = Grain(grain - 1)
    if first >= last:
        return _fill(start, end, finer, limits)
    return [
        *_fill(start, first, finer, limits),
        Piece(grain, first, last),
        *_fill(last, end, finer, limits),
    ]


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return consecutive pieces with neighbours of one grain made one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].grain == piece.grain and found[-1].end == piece.start:
            found[-1] = found[-1]._replace(end=piece.end)
        else:
            found.append(piece)
    return found


def parameters(pieces: list[Piece]) -> dict[str, Any]:
    """Return the parameters of ``FROM_PIECES``."""
    return {
        "grains": "{" + ",".join(str(int(piece.grain)) for piece in pieces) + "}",
        "starts": array(piece.start for piece in pieces),
        "ends": array(piece.end for piece in pieces),
    }


def array(moments: Iterable[datetime]) -> str:
    """Return PostgreSQL's text of an array of times, which takes the driver milliseconds to write."""
    return "{" + ",".join(moment.isoformat() for moment in moments) + "}"
