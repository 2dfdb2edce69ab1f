"""Fold: counts what ingest has written since the last time, exactly once, and says how far it has come.

A run's ``ingest_mark`` is the transaction that wrote it. Every transaction below the snapshot's xmin has
ended, so its rows are all visible or will never be: fold adds those from ``last`` up to there, and moves
``last``, in one transaction. A page adds the rest, the tail, in the snapshot in which it reads ``last``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.db import connection, transaction

from guardops.tenants.cluster import read_system_identifier
from guardops.tenants.errors import GuardOpsError
from runs.choices import Grain

from .minutes import note_folded
from .state import State
from .upserts import additions, copies

LOCK_SPACE = 0x666F6C64
"""pg_try_advisory_xact_lock(LOCK_SPACE, 0): one fold at a time in a database."""
ROWS_A_TICK = 50_000
CLOSED_AFTER = timedelta(minutes=10)
"""How long after its end an hour or a day is copied; what comes later is added to the copy."""

NEW = "ingest_mark >= %(last)s AND ingest_mark < %(hi)s AND run_id BETWEEN %(min_run_id)s AND %(max_run_id)s"
_ADDITIONS = additions(NEW)
_COPIES = {grain: copies(grain) for grain in (Grain.HOUR, Grain.DAY)}


class ForeignCluster(GuardOpsError):
    """The roll-ups belong to another database cluster, whose transaction numbers mean nothing in this one."""

    default_code: ClassVar[str] = "foreign_cluster"


@dataclass(frozen=True, slots=True)
class FoldReport:
    """What one tick did."""

    rows: int = 0
    last: int = 0  # every mark below is counted
    pending: int = 0  # committed runs that are not counted yet
    more: bool = False  # another tick would count some of them now; otherwise an open transaction holds them
    busy: bool = False  # another fold holds the lock: nothing was done


@dataclass(frozen=True, slots=True)
class _Batch:
    hi: int
    next_mark: int  # no transaction had this number or a higher one when the batch was read
    rows: int
    parameters: dict[str, Any]
    more: bool


def fold_once(now: datetime, *, rows_a_tick: int = ROWS_A_TICK) -> FoldReport:
    """Add what ingest has committed to the roll-ups; about ``rows_a_tick`` runs at most.

    It must be the outermost transaction. Raises ForeignCluster where the roll-ups are another cluster's.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # A tick lost in a crash is done again. Compiling costs more than any of these statements.
        cursor.execute("SET LOCAL synchronous_commit = off; SET LOCAL jit = off; SET LOCAL work_mem = '64MB'")
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        if not cursor.fetchone()[0]:
            return FoldReport(busy=True)
        state = _state(cursor, now)
        batch = _next_batch(cursor, state, rows_a_tick)
        if batch.rows:
            for statement in _ADDITIONS:
                cursor.execute(statement, batch.parameters)
            cursor.execute("DELETE FROM ingest_span WHERE mark < %s", [batch.hi])
        hours_to = _copy_closed(cursor, Grain.HOUR, state.hours_to, now)
        days_to = _copy_closed(cursor, Grain.DAY, state.days_to, now)
        _save(cursor, state, batch, now, hours_to=hours_to, days_to=days_to)
        if batch.rows:
            note_folded(cursor, batch.parameters["min_run_id"], batch.parameters["max_run_id"])
        cursor.execute("SELECT coalesce(sum(runs), 0) FROM ingest_span")
        return FoldReport(batch.rows, batch.hi, int(cursor.fetchone()[0]), batch.more)


def _state(cursor: Any, now: datetime) -> State:
    """Return the state, made on demand; before it exists there are no rows that copies could lack."""
    identifier = read_system_identifier(cursor)
    cursor.execute(
        "INSERT INTO fold_state (id, last, system_identifier, hours_to, days_to, watched_mark, watched_at)"
        " VALUES (1, 0, %s, %s, %s, pg_snapshot_xmax(pg_current_snapshot())::text::bigint, %s)"
        " ON CONFLICT DO NOTHING",
        [identifier, _closed(Grain.HOUR, now), _closed(Grain.DAY, now), now],
    )
    state = State.read(cursor)
    assert state is not None
    if state.system_identifier != identifier:
        raise ForeignCluster(
            f"The roll-ups were folded in the database cluster {state.system_identifier}, this is"
            f" {identifier}. Transaction numbers start anew where a dump is restored: counting on would skip"
            " runs or count them twice. Stop the gate and re-base the marks: manage.py fold --rebase."
        )
    return state


def _next_batch(cursor: Any, state: State, rows_a_tick: int) -> _Batch:
    cursor.execute(
        "SELECT pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint"
        " FROM pg_current_snapshot() AS now"
    )
    hi, next_mark = cursor.fetchone()
    cursor.execute(
        """\
SELECT sum(runs), min(first), max(last), max(mark), (SELECT max(mark) FROM ingest_span WHERE mark < %(hi)s)
FROM (
    SELECT mark, sum(runs) AS runs, min(min_run_id::text) AS first, max(max_run_id::text) AS last,
        sum(sum(runs)) OVER (ORDER BY mark) AS total, row_number() OVER (ORDER BY mark) AS place
    FROM ingest_span WHERE mark < %(hi)s GROUP BY mark
) AS marks WHERE total <= %(limit)s OR place = 1""",
        {"hi": hi, "limit": rows_a_tick},
    )
    rows, first, last, taken, newest = cursor.fetchone()
    if not rows:
        return _Batch(hi, next_mark, 0, {}, more=False)
    more = taken < newest
    hi = taken + 1 if more else hi
    parameters = {
        "last": state.last,
        "hi": hi,
        "min_run_id": first,
        "max_run_id": last,
        "hours_to": state.hours_to,
        "days_to": state.days_to,
    }
    return _Batch(hi, next_mark, int(rows), parameters, more)


def _save(
    cursor: Any, state: State, batch: _Batch, now: datetime, *, hours_to: datetime, days_to: datetime
) -> None:
    folded_at, watched_mark, watched_at = state.folded_at, state.watched_mark, state.watched_at
    if batch.hi >= watched_mark:
        folded_at, watched_mark, watched_at = watched_at, batch.next_mark, now
    if batch.hi >= batch.next_mark:
        folded_at = now
    cursor.execute(
        "UPDATE fold_state SET last = %s, hours_to = %s, days_to = %s, folded_at = %s, watched_mark = %s,"
        " watched_at = %s",
        [batch.hi, hours_to, days_to, folded_at, watched_mark, watched_at],
    )


def _closed(grain: Grain, now: datetime) -> datetime:
    """Return the newest UTC hour's or day's start that ended long enough ago to have its copies."""
    moment = (now - CLOSED_AFTER).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return moment.replace(hour=0) if grain == Grain.DAY else moment


def _copy_closed(cursor: Any, grain: Grain, done_to: datetime, now: datetime) -> datetime:
    end = _closed(grain, now)
    if end <= done_to:
        return done_to
    for statement in _COPIES[grain]:
        cursor.execute(statement, {"start": done_to, "end": end})
    return end
