"""What the database holds already of the runs in a request, read under the tenant's lock for `record`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from .rows import Row

# The ids are a literal in the statement, so that PostgreSQL plans only the partitions that can hold them.
_STORED = "SELECT run_id, body_digest, completes FROM run WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])"
# What is kept beside the runs. A run_id that fits now may have been mapped when its clock was ahead, and the
# task of a root run may have been completed before it came: both are few, so that a range finds them.
_BESIDE = """
SELECT 'mapped', external_id, run_id FROM external_run
    WHERE tenant_id = %(tenant)s AND external_id = ANY(%(foreign)s)
UNION ALL
SELECT 'mapped', external_id, run_id FROM external_run
    WHERE tenant_id = %(tenant)s AND external_id BETWEEN 'run:' || %(first)s AND 'run:' || %(last)s
UNION ALL
SELECT 'completed', root_task_id, run_id FROM task_completion
    WHERE tenant_id = %(tenant)s AND root_task_id = ANY(%(tasks)s)
UNION ALL
SELECT 'awaited', '', awaited_run_id FROM task_completion
    WHERE tenant_id = %(tenant)s AND awaited_run_id BETWEEN %(first)s AND %(last)s"""
_NO_ID = bytes(16)


@dataclass(slots=True)
class Known:
    """The stored runs of one tenant, the ids that stand for others, and the tasks that are completed.

    Run ids are bytes.
    """

    stored: dict[bytes, tuple[bytes, bool]]  # run_id -> digest, completes its task
    mapped: dict[str, bytes]
    completed: set[str]  # tasks that runs with another id have completed
    awaited: set[bytes]  # root runs that had not arrived when their task was completed

    def find(self, row: Row) -> bytes | None:
        """Return the id under which the row's run is stored, if it is.

        A run is found whatever its clock is now: sent while that fitted, it is stored under its own id; sent
        while it did not, it is mapped.
        """
        found = row.run_id
        if self.mapped:
            key = row.foreign_id
            if key is None and row.run_id is not None:
                key = f"run:{UUID(bytes=row.run_id)}"
            found = self.mapped.get(key or "", found)
        return found if found in self.stored else None


def read_known(cursor: CursorWrapper, tenant_id: int, rows: Sequence[Row]) -> Known:
    own = [row.run_id for row in rows if row.run_id is not None]
    # Ids that no run is stored under are asked for one by one: random ones would span all that are mapped.
    fitting = [row.run_id for row in rows if row.run_id is not None and row.foreign_id is None]
    tasks = {row.task for row in rows if row.completing and row.task}
    known = Known({}, {}, set(), set())
    cursor.execute(
        _BESIDE,
        {
            "tenant": tenant_id,
            "foreign": [row.foreign_id for row in rows if row.foreign_id is not None],
            "tasks": list(tasks),
            "first": str(UUID(bytes=min(fitting, default=_NO_ID))),
            "last": str(UUID(bytes=max(fitting, default=_NO_ID))),
        },
    )
    for kind, name, run_id in cursor.fetchall():
        if kind == "mapped":
            known.mapped[name] = run_id.bytes
        elif kind == "completed":
            known.completed.add(name)
        else:
            known.awaited.add(run_id.bytes)
    roots = {root for task in tasks if (root := as_run_id(task)) is not None}
    ids = [run_id.hex() for run_id in (*own, *known.mapped.values(), *roots)]
    cursor.execute(_STORED, [tenant_id, "{" + ",".join(ids) + "}"])
    known.stored = {
        run_id.bytes: (bytes(digest), completes) for run_id, digest, completes in cursor.fetchall()
    }
    return known


def as_run_id(task: str) -> bytes | None:
    """Return the run that a root task id names, where it has the form of a run id."""
    if len(task) != 36:
        return None
    try:
        return UUID(task).bytes
    except ValueError:
        return None
