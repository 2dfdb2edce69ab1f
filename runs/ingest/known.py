"""What the database holds already of the runs in a request, read under the tenant's lock for `record`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from .rows import Row
from .signs import Sign

# The ids are a literal in the statement, so that PostgreSQL plans only the partitions that can hold them.
_STORED = """
SELECT run_id, body_digest, completes, announced FROM run
WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])"""
_LIVE = "SELECT run_id, seq, started_digest FROM live_run WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])"
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
_MAP = """
INSERT INTO external_run (tenant_id, external_id, run_id) VALUES (%s, %s, %s)
ON CONFLICT (tenant_id, external_id) DO UPDATE SET run_id = excluded.run_id"""
_NO_ID = bytes(16)


class Stored(NamedTuple):
    """What counts of a run that ended."""

    digest: bytes
    completes: bool  # its task
    announced: bool  # its run.started had arrived


@dataclass(slots=True)
class Live:
    """What counts of a run that has not ended."""

    seq: int = -1  # of the heartbeat that counts
    started: bytes | None = None  # the digest of its run.started
    new: bool = False  # it has no row yet


@dataclass(slots=True)
class Known:
    """The runs of one tenant, the ids that stand for others, and the tasks that are completed.

    Run ids are bytes.
    """

    stored: dict[bytes, Stored] = field(default_factory=dict)
    live: dict[bytes, Live] = field(default_factory=dict)
    mapped: dict[str, bytes] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)  # tasks that runs with another id have completed
    # Root runs that had not arrived when their task was completed.
    awaited: set[bytes] = field(default_factory=set)

    def find(self, row: Row | Sign) -> bytes | None:
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

    def live_id(self, row: Row | Sign) -> bytes | None:
        """Return the id under which the row's run lives, if it does: as sent, or what stands for it."""
        return row.run_id if row.run_id is not None else self.mapped.get(row.foreign_id or "")


def read_known(cursor: CursorWrapper, tenant_id: int, ended: Sequence[Row], signs: Sequence[Sign]) -> Known:
    """Read what is known of these runs."""
    rows: list[Row | Sign] = [*ended, *signs]
    # Ids that no run is stored under are asked for one by one: random ones would span all that are mapped.
    fitting = [row.run_id for row in rows if row.run_id is not None and row.foreign_id is None]
    tasks = {row.task for row in ended if row.completing and row.task}
    known = Known()
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
    lives = {run_id for row in rows if (run_id := known.live_id(row)) is not None}
    cursor.execute(_LIVE, [tenant_id, array(sorted(lives))])
    known.live = {
        run_id.bytes: Live(seq, None if digest is None else bytes(digest))
        for run_id, seq, digest in cursor.fetchall()
    }
    ids = {row.run_id for row in ended if row.run_id is not None}
    # A run that lives has not ended, so that most heartbeats ask nothing here.
    ids |= {row.run_id for row in signs if row.run_id is not None and row.run_id not in known.live}
    ids |= {root for task in tasks if (root := as_run_id(task)) is not None}
    ids.update(known.mapped.values())
    cursor.execute(_STORED, [tenant_id, array(ids)])
    known.stored = {
        run_id.bytes: Stored(bytes(digest), completes, announced)
        for run_id, digest, completes, announced in cursor.fetchall()
    }
    return known


def write_mapped(cursor: CursorWrapper, mapped: Iterable[tuple[int, str, bytes]]) -> None:
    """Write which ids stand for others: tenant, the other's key in `ExternalRun`, and the id."""
    if rows := sorted((tenant_id, key, run_id.hex()) for tenant_id, key, run_id in mapped):
        cursor.executemany(_MAP, rows)


def array(ids: Iterable[bytes]) -> str:
    """Return ids as PostgreSQL's literal of an array of them."""
    return "{" + ",".join([run_id.hex() for run_id in ids]) + "}"


def as_run_id(task: str) -> bytes | None:
    """Return the run that a root task id names, where it has the form of a run id."""
    if len(task) != 36:
        return None
    try:
        return UUID(task).bytes
    except ValueError:
        return None
