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
# Runs before a horizon are gone in part. Tenant 0 counts everybody's, so that every horizon is one for it.
_STILL_THERE = """\
NOT EXISTS (SELECT FROM run_horizon AS h WHERE {time} < h.kept_from
    AND (r.tenant_id = 0 OR h.tenant_id IS NULL OR h.tenant_id = r.tenant_id))"""
_OF_TIME = _STILL_THERE.format(time="r.at")
_OF_DAY = _STILL_THERE.format(time="r.day::timestamp AT TIME ZONE 'UTC'")


@dataclass(frozen=True, slots=True)
class Difference:
    """How many rows of a table the recount does not have, and how many it has that the table lacks."""

    table: str
    stored: int
    counted: int


def recount() -> list[Difference]:
    """Return the tables that differ from a recount of all counted runs, in one snapshot; it reads every run.

    Days whose runs retention has deleted, in part or whole, cannot be counted again and are left out.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        state = State.read(cursor)
        if state is None:
            return []
        parameters = {"last": state.last, "hours_to": state.hours_to, "days_to": state.days_to}
        found = []
        for table, (columns, rows) in _TABLES.items():
            stored = f"SELECT {', '.join(columns)} FROM {table} AS r WHERE {_OF_TIME}"
            counted = f"SELECT {', '.join(columns)} FROM ({rows}) AS r WHERE {_OF_TIME}"
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
    stored, counted = (
        f"SELECT tenant_id, day, kind, {sums} FROM {rows} AS r WHERE {_OF_DAY} GROUP BY 1, 2, 3"
        for rows in ("(SELECT * FROM source_day WHERE tenant_id <> 0)", f"({projection.sources(_COUNTED)})")
    )
    return stored, counted
