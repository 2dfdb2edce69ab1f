"""A tenant's work over days, as rows of the run table, evenly spread so that every number can be foretold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection

from guardops.tenants.models import Tenant
from runs.rollup.fold import fold_once
from tests.runs.rows import insert_rows, make_row

_REAL_MARKS = 500  # numbers below are no transaction's that wrote a row
# One span a tenant, since all have one mark.
_SPANS = """\
WITH old AS (DELETE FROM ingest_span RETURNING *)
INSERT INTO ingest_span (mark, tenant_id, min_run_id, max_run_id, runs)
SELECT %s, tenant_id, min(min_run_id::text)::uuid, max(max_run_id::text)::uuid, sum(runs)
FROM old GROUP BY tenant_id"""


def work(
    tenant: Tenant,
    start: datetime,
    end: datetime,
    *,
    every: timedelta = timedelta(minutes=10),
    steps: tuple[int, ...] = (4, 5, 6),
    cost: str = "0.10",
    forced_one_in: int = 50,
    **columns: Any,
) -> None:
    """Insert runs of [start, end), one ``every`` so often; every forced_one_in-th answer is forced."""
    fields = {"tenant_id": tenant.pk, "job_type": "research", "cost": Decimal(cost)}
    insert_rows(
        make_row(at, **(fields | _ending(number, forced_one_in) | columns), steps=steps[number % len(steps)])
        for number, at in enumerate(_moments(start, end, every))
    )


def count(now: datetime) -> None:
    """Have fold count what was inserted, though the test's transaction is not over, and say so at ``now``.

    Fold counts what ended transactions wrote: what this one wrote is marked as theirs, the n-th time as n's.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT last FROM fold_state")
        (number,) = cursor.fetchone() or (0,)
        cursor.execute("UPDATE run SET ingest_mark = %s WHERE ingest_mark >= %s", [number, _REAL_MARKS])
        cursor.execute(_SPANS, [number])
        fold_once(now)
        cursor.execute("UPDATE fold_state SET last = %s, folded_at = %s", [number + 1, now])


def _moments(start: datetime, end: datetime, every: timedelta) -> Iterator[datetime]:
    at = start
    while at < end:
        yield at
        at += every


def _ending(number: int, forced_one_in: int) -> dict[str, str]:
    if number % forced_one_in:
        return {}
    return {"outcome": "completed_forced", "answer": "forced", "halt_reason": "no_progress"}
