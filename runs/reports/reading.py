"""One look at the numbers: a scope and a window, in one snapshot of the roll-ups and the unfolded tail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from runs.choices import Cut
from runs.querysets import ALL_TENANTS
from runs.rollup.state import State
from runs.rollup.tail import Cell, Tail

from .metrics import AsOf, Scope, Window
from .pieces import Piece, pieces_of


@dataclass(frozen=True, slots=True)
class Reading:
    """What every panel reads from: a snapshot, how far fold had come in it, and the tail behind."""

    cursor: Any
    scope: Scope
    window: Window
    now: datetime
    state: State | None
    tail: Tail

    @property
    def as_of(self) -> AsOf:
        if not self.tail.too_long:
            return AsOf(self.now, exact=True, tail_rows=self.tail.rows)
        folded_at = self.state.folded_at if self.state else None
        return AsOf(folded_at or self.window.start, exact=False, tail_rows=self.tail.rows)

    @property
    def tenant_ids(self) -> list[int]:
        return _tenant_ids(self.scope)

    def pieces(self, start: datetime, end: datetime) -> list[Piece]:
        """Return the stretches of roll-up rows that fill [start, end)."""
        if self.state is None:
            return []
        return pieces_of(start, end, hours_to=self.state.hours_to, days_to=self.state.days_to)

    def cut(self, *, job_type: str | None, release: str | None) -> dict[str, Any]:
        """Return the parameters of the rows of these tenants, narrowed like this."""
        by_job, by_release = job_type is not None, release is not None
        cut = (
            (Cut.JOB_RELEASE if by_release else Cut.JOB) if by_job else Cut.RELEASE if by_release else Cut.ALL
        )
        return {
            "tenant_ids": self.tenant_ids,
            "cut": int(cut),
            "job_type": job_type or "",
            "release": release or "",
        }

    def in_scope(self, cells: list[Cell]) -> Iterator[Cell]:
        """Yield the tail's cells of the scope's job type and release."""
        job_type, release = self.scope.job_type, self.scope.release
        for cell in cells:
            if job_type in (None, cell["job_type"]) and release in (None, cell["release"]):
                yield cell


@contextmanager
def open_reading(scope: Scope, window: Window, now: datetime) -> Iterator[Reading]:
    """Open the snapshot for one page; it must be the outermost transaction."""
    nested = connection.in_atomic_block  # in a test's transaction only: anywhere else ``durable`` refuses
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if not nested:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL jit = off")  # compiling takes longer than reading
        state = State.read(cursor)
        ids = _tenant_ids(scope)
        tail = Tail(
            cursor,
            state.last if state else 0,
            None if ids == [ALL_TENANTS] else tuple(ids),
            window.before.start,
            window.end,
        )
        yield Reading(cursor, scope, window, now, state, tail)


def _tenant_ids(scope: Scope) -> list[int]:
    return [ALL_TENANTS] if ALL_TENANTS in scope.tenant_ids else sorted(scope.tenant_ids)
