"""The one writer of what guards say: stores a request's rows in one transaction and says what became of each.

Under an advisory lock a tenant it reads what is known of the runs, in statements of their own so that they
see what the last holder of the lock wrote, and writes what is new. Locks are taken in ascending order of
tenants and every write is ordered by its key, so that no two requests wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby
from typing import TypeVar
from uuid import UUID

from django.db import DataError, IntegrityError, OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from guardops.guard.ids import uuid7_ms
from guardops.tenants.errors import GuardOpsError
from runs.partitions import make_partitions

from .checkpoints import Opened, sift_checkpoints, write_checkpoints
from .ended import New, sift_ended, write_beside, write_ended
from .known import read_known, write_mapped
from .live import Taken, delete_live, take_signs, write_beats, write_starts
from .refusals import Refusal, sift_refusals, write_refusals
from .results import Recorded
from .rows import Row
from .signs import Heartbeat, Sign

AnyRow = Row | Sign | Refusal | Opened

# pg_advisory_xact_lock(LOCK_SPACE, tenant_id): one request at a time writes a tenant's runs.
LOCK_SPACE = 0x72756E73
LOCK_TIMEOUT = "2s"
ATTEMPTS = 3
_LOCK_NOT_AVAILABLE = "55P03"
_RETRIED = frozenset({"40001", "40P01"})  # serialization failure, deadlock

T = TypeVar("T")


class TenantBusy(GuardOpsError):
    """Other requests held the lock of one of the tenants for too long; nothing was stored."""

    default_code = "busy"


def record_runs(rows: Sequence[AnyRow]) -> Recorded:
    """Store rows, each in its tenant, all or none of them but for those that a column refuses.

    What is stored already is a duplicate, or a conflict where its body differs: the first one stays. Of a
    live run the heartbeat with the highest number counts; one that ended lives no longer, whatever is late.
    Raises TenantBusy, or OperationalError where the database is out of reach: nothing was stored then.
    """
    if not rows:
        return Recorded()
    careful = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _Recording(careful=careful).record(rows)
        except (DataError, IntegrityError):
            # A day has no partition yet, or a column refuses a value: then the row is found by halves.
            if careful:
                raise
            make_partitions({_day(row) for row in rows if isinstance(row, Row)})
            careful = True
        except OperationalError as error:
            state = getattr(error.__cause__, "sqlstate", None)
            if state == _LOCK_NOT_AVAILABLE:
                raise TenantBusy("This tenant's runs are being written by others.") from error
            if state not in _RETRIED or attempt == ATTEMPTS:
                raise
    raise TenantBusy("This tenant's runs are being written by others.")


def lock_tenants(cursor: CursorWrapper, tenant_ids: Iterable[int]) -> int:
    """Lock the tenants, in this order, and return the transaction's id: the mark by which fold counts."""
    locks = "".join(f"pg_advisory_xact_lock({LOCK_SPACE}, {tenant_id:d}), " for tenant_id in tenant_ids)
    cursor.execute(
        f"SELECT set_config('lock_timeout', %s, true), {locks}pg_current_xact_id()::text::bigint",
        [LOCK_TIMEOUT],
    )
    mark: int = cursor.fetchone()[-1]
    return mark


class _Recording:
    """One transaction's work: what is new of each kind, tenant by tenant, then a write a kind."""

    def __init__(self, *, careful: bool) -> None:
        self._careful = careful  # find what a column refuses, instead of failing
        self._recorded = Recorded()
        self._ended: list[New] = []
        self._signs: list[Taken] = []
        self._refusals: list[Refusal] = []
        self._opened: list[Opened] = []

    def record(self, rows: Sequence[AnyRow]) -> Recorded:
        groups = {
            tenant_id: list(group)
            for tenant_id, group in groupby(sorted(rows, key=_tenant_and_index), lambda row: row.tenant_id)
        }
        with transaction.atomic(), connection.cursor() as cursor:
            mark = lock_tenants(cursor, groups)
            for tenant_id, group in groups.items():
                self._sift(cursor, tenant_id, group)
            self._write_live(cursor, self._write_ended(cursor, mark))
            self._write(partial(write_refusals, cursor), self._refusals, lambda refusal: refusal)
            # Last: what stands for a sender's own id may be of this very request.
            self._write(partial(write_checkpoints, cursor), self._opened, lambda opened: opened)
        self._recorded.results.sort(key=lambda result: result.index)
        return self._recorded

    def _sift(self, cursor: CursorWrapper, tenant_id: int, rows: Sequence[AnyRow]) -> None:
        ended = [row for row in rows if isinstance(row, Row)]
        signs = [row for row in rows if isinstance(row, Sign)]
        refusals = [row for row in rows if isinstance(row, Refusal)]
        opened = [row for row in rows if isinstance(row, Opened)]
        if ended or signs:
            known = read_known(cursor, tenant_id, ended, signs)
            self._signs += take_signs(signs, known, self._recorded)
            self._ended += sift_ended(ended, known, self._recorded)
        if refusals:
            self._refusals += sift_refusals(cursor, tenant_id, refusals, self._recorded)
        if opened:
            self._opened += sift_checkpoints(cursor, tenant_id, opened, self._recorded)

    def _write_ended(self, cursor: CursorWrapper, mark: int) -> list[New]:
        self._ended.sort(key=lambda run: (run.row.tenant_id, run.run_id))
        stored = self._write(partial(write_ended, cursor, mark), self._ended, lambda run: run.row)
        write_beside(cursor, stored, mark)
        return stored

    def _write_live(self, cursor: CursorWrapper, ended: Sequence[New]) -> None:
        """Delete the rows of runs that ended, and write the signs of the others."""
        gone = {(run.row.tenant_id, run.lived_as) for run in ended if run.lived_as is not None}
        for tenant_id, lives in groupby(sorted(gone), lambda life: life[0]):
            delete_live(cursor, tenant_id, [run_id for _, run_id in lives])
        starts: dict[tuple[int, bytes], Taken] = {}
        beats: dict[tuple[int, bytes], Taken] = {}
        for taken in self._signs:
            if taken.key in gone:
                self._recorded.accept(taken.row)
                continue
            kind = beats if isinstance(taken.row, Heartbeat) else starts
            if (older := kind.get(taken.key)) is not None:
                self._recorded.accept(older.row)
            kind[taken.key] = taken
        started = self._write(partial(write_starts, cursor), [*starts.values()], lambda taken: taken.row)
        beaten = self._write(partial(write_beats, cursor), [*beats.values()], lambda taken: taken.row)
        write_mapped(cursor, [taken.mapping for taken in [*started, *beaten] if taken.mapping])

    def _write(
        self, write: Callable[[Sequence[T]], None], new: Sequence[T], row_of: Callable[[T], AnyRow]
    ) -> list[T]:
        """Write what is new, if anything is, and return what the columns take."""
        refused = self._write_by_halves(write, new) if self._careful else []
        if not self._careful and new:
            write(new)
        for one in new:
            if one in refused:
                self._recorded.refuse(row_of(one).index)
            else:
                self._recorded.accept(row_of(one))
        return [one for one in new if one not in refused] if refused else list(new)

    def _write_by_halves(self, write: Callable[[Sequence[T]], None], new: Sequence[T]) -> list[T]:
        """Write what the columns take; return what they refuse."""
        if not new:
            return []
        try:
            with transaction.atomic():
                write(new)
            return []
        except (DataError, IntegrityError):
            if len(new) == 1:
                return list(new)
        middle = len(new) // 2
        return self._write_by_halves(write, new[:middle]) + self._write_by_halves(write, new[middle:])


def _tenant_and_index(row: AnyRow) -> tuple[int, int]:
    return row.tenant_id, row.index


def _day(row: Row) -> date:
    """Return the day whose partition the run goes to."""
    if row.foreign_id is None and row.run_id is not None:
        return datetime.fromtimestamp(uuid7_ms(UUID(bytes=row.run_id)) / 1000, UTC).date()
    return row.at.astimezone(UTC).date()
