"""Counts everything again from the runs and says where the roll-ups differ: what `fold --verify` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from . import projection
from .projection import COUNTS
from .spread import ARRAYS, HISTOGRAM_KEY, KEY, REASONS, histogram_rows, rollup_rows
from .state import State

_COUNTED = "ingest_mark < %(last)s"
_TABLES = {
    "rollup": ((*KEY, *COUNTS, *REASONS), rollup_rows(_COUNTED)),
    "histogram": ((*HISTOGRAM_KEY, "tasks", "near_cap", "cap", *ARRAYS), histogram_rows(_COUNTED)),
}
_SOURCES = ("stopped", "completed", "calls", "cost")


@dataclass(frozen=True, slots=True)
class Difference:
    """How many rows of a table the recount does not have, and how many it has that the table lacks."""

    table: str
    stored: int
    counted: int


def recount() -> list[Difference]:
    """Return the tables that differ from a recount of all counted runs, in one snapshot; it reads every run.

    Runs whose partitions were dropped are missing from the recount and show as differences.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        state = State.read(cursor)
        if state is None:
            return []
        parameters = {"last": state.last, "hours_to": state.hours_to, "days_to": state.days_to}
        found = []
        for table, (columns, rows) in _TABLES.items():
            stored = f"SELECT {', '.join(columns)} FROM {table}"
            counted = f"SELECT {', '.join(columns)} FROM ({rows}) AS counted"
            found.append(Difference(table, *_differing(cursor, stored, counted, parameters)))
        found.append(Difference("source_day", *_differing(cursor, *_source_totals(), parameters)))
        return [difference for difference in found if difference.stored or difference.counted]


def _differing(cursor: Any, stored: str, counted: str, parameters: dict[str, Any]) -> tuple[int, int]:
    cursor.execute(
        f"SELECT (SELECT count(*) FROM ({stored} EXCEPT ALL {counted}) AS a),"
        f" (SELECT count(*) FROM ({counted} EXCEPT ALL {stored}) AS b)",
        parameters,
    )
    stored_only, counted_only = cursor.fetchone()
    return stored_only, counted_only


def _source_totals() -> tuple[str, str]:
    """Compare a tenant's day as a whole: which names were admitted depends on when they came."""
    sums = ", ".join(f"sum({column})" for column in _SOURCES)
    stored = f"SELECT tenant_id, day, kind, {sums} FROM source_day WHERE tenant_id <> 0 GROUP BY 1, 2, 3"
    counted = projection.sources(_COUNTED)
    return stored, f"SELECT tenant_id, day, kind, {sums} FROM ({counted}) AS s GROUP BY 1, 2, 3"
