"""The one writer of runs: stores a request's rows in one transaction and says what became of each.

Under an advisory lock a tenant it reads which runs exist, in a statement of its own so that it sees what the
last holder of the lock wrote, and copies the others. Locks are taken in ascending order of tenants and every
write is ordered by its key, so that no two requests wait for each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import groupby
from uuid import UUID

from django.db import DataError, IntegrityError, OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from guardops.guard.ids import uuid7, uuid7_ms
from guardops.guard.replies import EventResult, ResultStatus
from guardops.tenants.errors import GuardOpsError
from runs.partitions import make_partitions, unix_ms

from . import copy
from .decode import Rejected
from .known import Known, as_run_id, read_known
from .rows import Row

# pg_advisory_xact_lock(LOCK_SPACE, tenant_id): one request at a time writes a tenant's runs.
LOCK_SPACE = 0x72756E73
LOCK_TIMEOUT = "2s"
ATTEMPTS = 3
_LOCK_NOT_AVAILABLE = "55P03"
_MAP = """
INSERT INTO external_run (tenant_id, external_id, run_id) VALUES (%s, %s, %s)
ON CONFLICT (tenant_id, external_id) DO UPDATE SET run_id = excluded.run_id"""
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
_RETRIED = frozenset({"40001", "40P01"})  # serialization failure, deadlock


class TenantBusy(GuardOpsError):
    """Other requests held the lock of one of the tenants for too long; nothing was stored."""

    default_code = "busy"


@dataclass(slots=True)
class Recorded:
    """What became of a request's rows; ``results`` names those that were not plainly accepted."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    results: list[EventResult] = field(default_factory=list)


@dataclass(slots=True)
class _New:
    """A run that is not stored yet, and its place."""

    row: Row
    run_id: bytes
    completes: bool
    awaited: bytes | None = None  # the root run of the task it completes, where that has not arrived


def record_runs(rows: Sequence[Row]) -> Recorded:
    """Store rows, each in its tenant, all or none of them but for those that a column refuses.

    A run that is stored already is a duplicate, or a conflict where its body differs: the first one stays.
    Raises TenantBusy, or OperationalError where the database is out of reach: nothing was stored then.
    """
    if not rows:
        return Recorded()
    careful = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _record(rows, careful=careful)
        except (DataError, IntegrityError):
            # A day has no partition yet, or a column refuses a value: then the row is found by halves.
            if careful:
                raise
            make_partitions({_day(row) for row in rows})
            careful = True
        except OperationalError as error:
            state = getattr(error.__cause__, "sqlstate", None)
            if state == _LOCK_NOT_AVAILABLE:
                raise TenantBusy("This tenant's runs are being written by others.") from error
            if state not in _RETRIED or attempt == ATTEMPTS:
                raise
    raise TenantBusy("This tenant's runs are being written by others.")


def _record(rows: Sequence[Row], *, careful: bool) -> Recorded:
    recorded = Recorded()
    groups = {
        tenant_id: list(group)
        for tenant_id, group in groupby(sorted(rows, key=_tenant_and_index), lambda row: row.tenant_id)
    }
    with transaction.atomic(), connection.cursor() as cursor:
        mark = _lock(cursor, groups)
        new: list[_New] = []
        for tenant_id, group in groups.items():
            new += _sift(group, read_known(cursor, tenant_id, group), recorded)
        new.sort(key=_tenant_and_run)
        refused = _copy_by_halves(cursor, new, mark) if careful else _copy_runs(cursor, new, mark)
        recorded.refused = len(refused)
        recorded.results += [_refusal(run.row) for run in refused]
        new = [run for run in new if run not in refused] if refused else new
        _write_beside(cursor, new, mark)
    recorded.accepted = len(new)
    recorded.results += [
        EventResult(index=run.row.index, status=ResultStatus.SANITIZED, code="sanitized")
        for run in new
        if run.row.sanitized
    ]
    recorded.results.sort(key=lambda result: result.index)
    return recorded


def _lock(cursor: CursorWrapper, tenant_ids: Iterable[int]) -> int:
    """Lock the tenants, in this order, and return the transaction's id: the mark by which fold counts."""
    locks = "".join(f"pg_advisory_xact_lock({LOCK_SPACE}, {tenant_id:d}), " for tenant_id in tenant_ids)
    cursor.execute(
        f"SELECT set_config('lock_timeout', %s, true), {locks}pg_current_xact_id()::text::bigint",
        [LOCK_TIMEOUT],
    )
    mark: int = cursor.fetchone()[-1]
    return mark


def _sift(rows: Sequence[Row], known: Known, recorded: Recorded) -> list[_New]:
    """Return the runs of one tenant that are new; the others are named in ``recorded``."""
    new: list[_New] = []
    for row in rows:
        found = known.find(row)
        if found is not None:
            recorded.results.append(_repeat(row, known.stored[found][0]))
            recorded.duplicates += recorded.results[-1].status == ResultStatus.DUPLICATE
            continue
        run_id = row.run_id
        if row.foreign_id is not None or run_id is None:
            run_id = uuid7(unix_ms(row.at), secrets.randbits(74)).bytes
            known.mapped[str(row.foreign_id)] = run_id
        run = _New(row, run_id, completes=False)
        if row.completing:
            _complete(run, known)
        known.stored[run_id] = (row.digest, run.completes)
        new.append(run)
    return new


def _repeat(row: Row, digest: bytes) -> EventResult:
    if digest == row.digest:
        return EventResult(index=row.index, status=ResultStatus.DUPLICATE, code="duplicate")
    return EventResult(
        index=row.index,
        status=ResultStatus.CONFLICT,
        code="different_body",
        field="run_id" if row.run_id else "external_id",
        message="A run with this id and another body is stored already; it stays.",
    )


def _complete(run: _New, known: Known) -> None:
    """Let the run complete its task, unless another one has: a task completes once, by what arrives first."""
    task = run.row.task
    if not task:
        elsewhere = known.completed and str(UUID(bytes=run.run_id)) in known.completed
        run.completes = not elsewhere and run.run_id not in known.awaited
        return
    root = as_run_id(task)
    stored = known.stored.get(root) if root is not None else None
    run.completes = task not in known.completed and not (stored and stored[1])
    run.awaited = root if stored is None else None
    known.completed.add(task)


def _copy_runs(cursor: CursorWrapper, new: Sequence[_New], mark: int) -> list[_New]:
    """Copy the runs, in the order of their keys; returns those refused, of which there are none here."""
    if new:
        parts = [copy.HEADER]
        for run in new:
            parts += copy.place(run.row.tenant_id, run.run_id, mark, run.completes), run.row.body
        parts.append(copy.TRAILER)
        statement = f"COPY run ({', '.join(copy.COLUMNS)}) FROM STDIN (FORMAT BINARY)"
        with connection.wrap_database_errors, cursor.copy(statement) as stream:
            stream.write(b"".join(parts))
    return []


def _copy_by_halves(cursor: CursorWrapper, new: Sequence[_New], mark: int) -> list[_New]:
    """Copy the runs that the columns take; return those they refuse."""
    try:
        with transaction.atomic():
            return _copy_runs(cursor, new, mark)
    except (DataError, IntegrityError):
        if len(new) == 1:
            return list(new)
    middle = len(new) // 2
    return _copy_by_halves(cursor, new[:middle], mark) + _copy_by_halves(cursor, new[middle:], mark)


def _refusal(row: Row) -> EventResult:
    return Rejected("The database refuses a value of this run.", code="refused").result(row.index)


def _write_beside(cursor: CursorWrapper, new: Sequence[_New], mark: int) -> None:
    """Write what is kept beside the runs: ids that stand for them, completed tasks, sources, and spans."""
    if mapped := sorted(
        (run.row.tenant_id, run.row.foreign_id, run.run_id.hex()) for run in new if run.row.foreign_id
    ):
        cursor.executemany(_MAP, mapped)
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


def _tenant_and_index(row: Row) -> tuple[int, int]:
    return row.tenant_id, row.index


def _tenant_and_run(run: _New) -> tuple[int, bytes]:
    return run.row.tenant_id, run.run_id


def _day(row: Row) -> date:
    """Return the day whose partition the run goes to."""
    if row.foreign_id is None and row.run_id is not None:
        return datetime.fromtimestamp(uuid7_ms(UUID(bytes=row.run_id)) / 1000, UTC).date()
    return row.at.astimezone(UTC).date()
