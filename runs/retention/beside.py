"""What stands beside runs: the ids that stand for them, their sources, and that they completed a task.

The last outlives its run. A later attempt of a task completes it only if no other run has, and ingest asks
the first run, or ``task_completion``. So before a run goes that completed the task of its own id, that task
is entered there, and every entry stays for ``DAYS_BACK`` days more. It takes an eighth of what the run took.
Nothing else is left by which to know a run: an event that is sent again after its run has gone is a new run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction

PAGE = 5_000
"""Rows that one transaction writes at most."""

_TABLES = ("external_run", "run_source")
_ENTER_TASKS = """\
INSERT INTO task_completion (tenant_id, root_task_id, run_id)
SELECT tenant_id, run_id::text, run_id FROM run WHERE tenant_id = %(tenant)s
    AND run_id = ANY(%(ids)s::uuid[]) AND completes AND root_task_id = ''
ORDER BY 2 ON CONFLICT DO NOTHING"""
_NEXT_PAGE = """\
WITH page AS (
    SELECT tenant_id, run_id, completes AND root_task_id = '' AS own FROM {runs}
    WHERE (tenant_id, run_id) > (%(tenant)s, %(run)s) AND ingest_mark < %(counted)s
    ORDER BY tenant_id, run_id LIMIT %(page)s
), entered AS (
    INSERT INTO task_completion (tenant_id, root_task_id, run_id)
    SELECT tenant_id, run_id::text, run_id FROM page WHERE own ORDER BY 1, 2
    ON CONFLICT DO NOTHING
)
SELECT tenant_id, run_id FROM page ORDER BY tenant_id DESC, run_id DESC LIMIT 1"""
# By ctid, which needs no key of the table; a BRIN index on run_id finds the rows.
_DELETE_BEFORE = """\
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE run_id < %(before)s LIMIT %(page)s))"""
_DELETE_OF = """\
DELETE FROM {table} WHERE tenant_id = %(tenant)s AND run_id BETWEEN %(first)s AND %(last)s
    AND run_id = ANY(%(ids)s::uuid[])"""


def enter_tasks_of_day(partition: str, *, counted: int) -> None:
    """Enter the tasks that runs of a partition with a mark below ``counted`` completed, a page at a time."""
    place: tuple[int, UUID] | None = (0, UUID(int=0))
    while place is not None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                _NEXT_PAGE.format(runs=partition),
                {"tenant": place[0], "run": place[1], "counted": counted, "page": PAGE},
            )
            place = cursor.fetchone()


def enter_tasks_of(tenant_id: int, run_ids: Sequence[UUID]) -> None:
    """Enter the tasks that these runs completed under their own ids, in the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTER_TASKS, {"tenant": tenant_id, "ids": list(run_ids)})


def delete_beside(tenant_id: int, run_ids: Sequence[UUID]) -> int:
    """Delete what stands beside these runs, in ascending order, in the caller's transaction; return rows."""
    ids: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": list(run_ids),
        "first": run_ids[0],
        "last": run_ids[-1],
    }
    rows = 0
    with connection.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(_DELETE_OF.format(table=table), ids)
            rows += cursor.rowcount
    return rows


def delete_beside_before(first_kept: UUID, first_task_kept: UUID) -> int:
    """Delete what stands beside runs with lower ids than these, a page at a time; return how many rows."""
    tables = [*((table, first_kept) for table in _TABLES), ("task_completion", first_task_kept)]
    return sum(_delete_before(table, before) for table, before in tables)


def _delete_before(table: str, before: UUID) -> int:
    rows = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_DELETE_BEFORE.format(table=table), {"before": before, "page": PAGE})
            deleted: int = cursor.rowcount
        rows += deleted
        if deleted < PAGE:
            return rows
