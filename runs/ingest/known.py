"""What the database holds already of the runs in a request, read under the tenant's lock for `record`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from .rows import Row

_MAPPED = """
SELECT external_id, run_id FROM external_run WHERE tenant_id = %s AND external_id = ANY(%s)
UNION ALL
SELECT external_id, run_id FROM external_run WHERE tenant_id = %s AND external_id BETWEEN %s AND %s"""
# The ids are a literal in the statement, so that PostgreSQL plans only the partitions that can hold them.
_STORED = "SELECT run_id, body_digest, completes FROM run WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])"
_COMPLETED = "SELECT root_task_id FROM task_completion WHERE tenant_id = %s AND root_task_id = ANY(%s)"
_AWAITED = """
SELECT awaited_run_id FROM task_completion WHERE tenant_id = %s AND awaited_run_id BETWEEN %s AND %s"""


@dataclass(slots=True)
class Known:
    """The stored runs of one tenant, the ids that stand for others, and the tasks that are completed."""

    stored: dict[UUID, tuple[bytes, bool]]  # run_id -> digest, completes its task
    mapped: dict[str, UUID]
    completed: set[str]  # tasks that runs with another id have completed
    awaited: set[UUID]  # root runs that had not arrived when their task was completed

    def find(self, row: Row) -> UUID | None:
        """Return the id under which the row's run is stored, if it is."""
        if row.foreign_id is None:
            assert row.run_id is not None
            found = self.mapped.get(f"run:{row.run_id}", row.run_id) if self.mapped else row.run_id
        else:
            # A run that was sent while its clock was good is stored under its own id, whatever it is now.
            found = self.mapped.get(row.foreign_id) or row.run_id  # type: ignore[assignment]
        return found if found in self.stored else None


def read_known(cursor: CursorWrapper, tenant_id: int, rows: Sequence[Row]) -> Known:
    own = [row.run_id for row in rows if row.run_id is not None]
    mapped = _read_mapped(cursor, tenant_id, rows, own)
    completing = [row for row in rows if row.completing]
    tasks = {row.task for row in completing if row.task}
    roots = {root for task in tasks if (root := as_run_id(task)) is not None}
    cursor.execute(_STORED, [tenant_id, _literal({*own, *mapped.values(), *roots})])
    stored = {run_id: (bytes(digest), completes) for run_id, digest, completes in cursor.fetchall()}
    completed: set[str] = set()
    if tasks:
        cursor.execute(_COMPLETED, [tenant_id, sorted(tasks)])
        completed = {task for (task,) in cursor.fetchall()}
    awaited: set[UUID] = set()
    if ids := [row.run_id for row in completing if not row.task and row.run_id is not None]:
        cursor.execute(_AWAITED, [tenant_id, min(ids), max(ids)])
        awaited = {run_id for (run_id,) in cursor.fetchall()}
    return Known(stored, mapped, completed, awaited)


def as_run_id(task: str) -> UUID | None:
    """Return the run that a root task id names, where it has the form of a run id."""
    if len(task) != 36:
        return None
    try:
        return UUID(task)
    except ValueError:
        return None


def _read_mapped(
    cursor: CursorWrapper, tenant_id: int, rows: Sequence[Row], own: Sequence[UUID]
) -> dict[str, UUID]:
    foreign = sorted({row.foreign_id for row in rows if row.foreign_id is not None})
    # A run_id that fits now may have been mapped when its clock was ahead: few are, so a range finds them.
    low, high = (f"run:{min(own)}", f"run:{max(own)}") if own else ("", "")
    cursor.execute(_MAPPED, [tenant_id, foreign, tenant_id, low, high])
    return dict(cursor.fetchall())


def _literal(ids: Iterable[UUID]) -> str:
    return "{" + ",".join([f"{run_id.int:032x}" for run_id in ids]) + "}"
