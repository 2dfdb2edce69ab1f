"""The writer of runs that ended: which of them are new, and what is written for them and beside them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from django.db import connection
from django.db.backends.utils import CursorWrapper

from guardops.guard.ids import uuid7
from runs.partitions import unix_ms

from . import copy
from .known import Known, Stored, as_run_id, write_mapped
from .results import Recorded
from .rows import Row, fits

_COMPLETE = """
INSERT INTO task_completion (tenant_id, root_task_id, run_id, awaited_run_id) VALUES (%s, %s, %s, %s)"""
# One statement for both. A span is met again only where a caller's own transaction records twice.
_SPANS_AND_SOURCES = """
WITH span AS (
    INSERT INTO ingest_span AS span (mark, tenant_id, min_run_id, max_run_id, runs)
    SELECT %s, * FROM unnest(%s::int[], %s::uuid[], %s::uuid[], %s::int[])
    ON CONFLICT (mark, tenant_id) DO UPDATE SET min_run_id = least(span.min_run_id, excluded.min_run_id),
        max_run_id = greatest(span.max_run_id, excluded.max_run_id), runs = span.runs + excluded.runs
)
INSERT INTO run_source (tenant_id, kind, name, run_id)
SELECT * FROM unnest(%s::int[], %s::text[], %s::text[], %s::uuid[])"""


@dataclass(slots=True, eq=False)
class New:
    """A run that is not stored yet, and its place."""

    row: Row
    run_id: bytes
    completes: bool = False
    announced: bool = False
    awaited: bytes | None = None  # the root run of the task it completes, where that has not arrived
    lived_as: bytes | None = None  # the id under which it has a live row


def sift_ended(rows: Sequence[Row], known: Known, recorded: Recorded) -> list[New]:
    """Return the runs of one tenant that are new; the others are named in ``recorded``."""
    new: list[New] = []
    for row in rows:
        found = known.find(row)
        if found is not None:
            if known.stored[found].digest == row.digest:
                recorded.repeat(row.index)
            else:
                recorded.contradict(row.index, "A run", "run_id" if row.run_id else "external_id")
            continue
        run = New(row, b"")
        if known.live:
            _take_over(run, known)
        run.run_id = _place(row, known)
        if row.completing:
            _complete(run, known)
        known.stored[run.run_id] = Stored(row.digest, run.completes, run.announced)
        new.append(run)
    return new


def _take_over(run: New, known: Known) -> None:
    """Note under which id the run lived, and whether its start was told."""
    run_id = known.live_id(run.row)
    live = known.live.get(run_id) if run_id is not None else None
    if live is not None:
        run.announced = live.started is not None
        run.lived_as = run_id


def _place(row: Row, known: Known) -> bytes:
    """Return the id to store the run under: its own, that of its signs of life if it fits, or a new one."""
    if row.foreign_id is None and row.run_id is not None:
        return row.run_id
    key = str(row.foreign_id)
    run_id = known.mapped.get(key)
    if run_id is None or not fits(run_id, copy.microseconds(row.at)):
        run_id = known.mapped[key] = uuid7(unix_ms(row.at), secrets.randbits(74)).bytes
    return run_id


def _complete(run: New, known: Known) -> None:
    """Let the run complete its task, unless another one has: a task completes once, by what arrives first."""
    task = run.row.task
    if not task:
        elsewhere = known.completed and str(UUID(bytes=run.run_id)) in known.completed
        run.completes = not elsewhere and run.run_id not in known.awaited
        return
    root = as_run_id(task)
    stored = known.stored.get(root) if root is not None else None
    run.completes = task not in known.completed and not (stored and stored.completes)
    run.awaited = root if stored is None else None
    known.completed.add(task)


def write_ended(cursor: CursorWrapper, mark: int, new: Sequence[New]) -> None:
    """Copy the runs, in the order of their keys."""
    parts = [copy.HEADER]
    for run in new:
        parts += copy.place(run.row.tenant_id, run.run_id, mark, run.completes, run.announced), run.row.body
    parts.append(copy.TRAILER)
    statement = f"COPY run ({', '.join(copy.COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with connection.wrap_database_errors, cursor.copy(statement) as stream:
        stream.write(b"".join(parts))


def write_beside(cursor: CursorWrapper, new: Sequence[New], mark: int) -> None:
    """Write what is kept beside the runs: ids that stand for them, completed tasks, sources, and spans."""
    write_mapped(
        cursor,
        [(run.row.tenant_id, run.row.foreign_id, run.run_id) for run in new if run.row.foreign_id],
    )
    if tasks := sorted(
        (run.row.tenant_id, run.row.task, run.run_id.hex(), run.awaited.hex() if run.awaited else None)
        for run in new
        if run.completes and run.row.task
    ):
        cursor.executemany(_COMPLETE, tasks)
    sources = sorted(
        {
            (run.row.tenant_id, source.kind, source.name, run.run_id.hex())
            for run in new
            for source in run.row.sources
        }
    )
    spans = []
    for tenant_id, group in groupby(new, lambda run: run.row.tenant_id):
        ids = [run.run_id for run in group]
        spans.append((tenant_id, ids[0].hex(), ids[-1].hex(), len(ids)))
    if spans:
        cursor.execute(_SPANS_AND_SOURCES, [mark, *_columns(spans, 4), *_columns(sources, 4)])


def _columns(rows: Sequence[tuple[object, ...]], count: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
