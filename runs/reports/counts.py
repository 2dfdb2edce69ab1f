"""Sums by bucket: roll-ups and the tail, for tiles and the chart of halts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal

from runs.rollup.projection import COUNTS

from .metrics import Bucket, Counts
from .pieces import FROM_PIECES, array, joined, parameters
from .reading import Reading

Sums = dict[str, int | Decimal]
"""A roll-up row's ``COUNTS``, summed."""

_FIELDS = tuple(field.name for field in fields(Counts))
_MONEY = frozenset(name for name in COUNTS if "cost" in name)
# OFFSET 0 keeps the read of each piece apart: an index range each, whatever the planner thinks of the join.
_BY_BUCKET = f"""\
SELECT width_bucket(r.at, %(edges)s::timestamptz[]) - 1 AS bucket,
    {", ".join(f"sum(r.{name}){'' if name in _MONEY else '::bigint'}" for name in COUNTS)}
FROM {FROM_PIECES}
CROSS JOIN LATERAL (
    SELECT * FROM rollup WHERE tenant_id = ANY(%(tenant_ids)s) AND cut = %(cut)s AND grain = p.grain
        AND job_type = %(job_type)s AND release = %(release)s AND at >= p.start AND at < p.until OFFSET 0
) AS r GROUP BY 1"""


def empty_sums() -> Sums:
    return {name: Decimal(0) if name in _MONEY else 0 for name in COUNTS}


def sums_by_bucket(reading: Reading, buckets: Sequence[Bucket]) -> list[Sums]:
    """Return what was counted in each of the buckets, which follow each other without gaps."""
    found = [empty_sums() for _ in buckets]
    edges = [bucket.start for bucket in buckets]
    scope = reading.scope
    pieces = joined(piece for bucket in buckets for piece in reading.pieces(bucket.start, bucket.end))
    if pieces:
        reading.cursor.execute(
            _BY_BUCKET,
            parameters(pieces)
            | reading.cut(job_type=scope.job_type, release=scope.release)
            | {"edges": array(edges)},
        )
        for bucket, *sums in reading.cursor.fetchall():
            found[bucket] = dict(zip(COUNTS, sums, strict=True))
    for cell in reading.in_scope(reading.tail.counts):
        if edges[0] <= cell["at"] < buckets[-1].end:
            _add(found[bisect_right(edges, cell["at"]) - 1], cell)
    return found


def _add(sums: Sums, cell: dict[str, int | Decimal]) -> None:
    for name in COUNTS:
        sums[name] += cell[name] if name in _MONEY else int(cell[name])


def total(parts: Sequence[Sums]) -> Sums:
    whole = empty_sums()
    for part in parts:
        _add(whole, part)
    return whole


def as_counts(sums: Sums) -> Counts:
    return Counts(**{name: sums[name] for name in _FIELDS})  # type: ignore[arg-type]
