"""Closing minutes: what came in one is counted once, when it is over, and never changes afterwards.

Fold does it. A minute takes the runs that fold has counted since the last one closed; what comes later
belongs to the next minute, however late it is. So no run is missed or counted twice, whatever a clock does,
and a minute that was judged stays as it was. Runs that ended more than a day before they came say nothing of
now.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from runs.partitions import run_id_bounds

from .state import State

DAY = 1_440
KEPT_DAYS = 8
SETTLES = timedelta(seconds=2)
"""How long after its end a minute closes: fold ticks every second."""
LATE = timedelta(minutes=15)
OLD = timedelta(days=1)
RELEASES = 20
"""Of a job type in a minute that are told apart; what the others did counts without a release."""

_COUNTED = f"""\
WITH fresh AS (
    SELECT tenant_id, job_type, release, {{minute}} AS minute, looped, provider_failure,
        received_at - ended_at > %(late)s AS late,
        CASE WHEN root_task_id = '' THEN run_id::text ELSE root_task_id END AS task
    FROM run WHERE {{where}}
), named AS (
    SELECT tenant_id, job_type, release, row_number() OVER (
        PARTITION BY tenant_id, job_type ORDER BY count(*) DESC, release
    ) <= {RELEASES} AS kept FROM fresh GROUP BY 1, 2, 3
), cells AS (
    SELECT f.*, CASE WHEN kept THEN f.release ELSE '' END AS named
    FROM fresh AS f JOIN named USING (tenant_id, job_type, release)
)
INSERT INTO loop_minute (tenant_id, job_type, minute, release, runs, looped, provider, provider_looped, late,
    late_looped, tasks, looped_tasks)
SELECT tenant_id, job_type, minute, named, count(*), count(*) FILTER (WHERE looped),
    count(*) FILTER (WHERE provider_failure), count(*) FILTER (WHERE provider_failure AND looped),
    count(*) FILTER (WHERE late), count(*) FILTER (WHERE late AND looped),
    count(DISTINCT task) FILTER (WHERE NOT provider_failure),
    count(DISTINCT task) FILTER (WHERE looped AND NOT provider_failure)
FROM cells GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""

_MINUTE = "floor(extract(epoch FROM {column}) / 60)::int"
_NEW = _COUNTED.format(
    minute=f"least(greatest({_MINUTE.format(column='received_at')}, %(after)s), %(upto)s)",
    where="ingest_mark >= %(mark)s AND ingest_mark < %(hi)s AND run_id BETWEEN %(first)s AND %(last)s"
    " AND received_at - ended_at < %(old)s",
)
_PAST = _COUNTED.format(
    minute=_MINUTE.format(column="at"),
    where="ingest_mark < %(hi)s AND run_id >= %(first)s AND at >= %(from)s AND at < %(to)s",
)


def minute_of(moment: datetime) -> int:
    """Return the minute since 1970 that a moment lies in."""
    return int(moment.timestamp() // 60)


def moment_of(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, tz=UTC)


def close_minutes(now: datetime) -> int:
    """Close the minutes that are over; return how many closed.

    It must be the outermost transaction, and fold's transaction numbers this database's own.
    """
    upto = minute_of(now - SETTLES) - 1
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off; SET LOCAL jit = off")
        state = State.read(cursor)
        if state is None:
            return 0
        # The lock keeps closers apart; whoever judges reads only what has closed.
        cursor.execute("SELECT closed, mark, first_run, last_run FROM loop_clock WHERE id = 1 FOR UPDATE")
        clock = cursor.fetchone()
        if clock is None:
            return _begin(cursor, upto)
        closed, mark, first, last = clock
        if upto <= closed:
            return 0
        # Read again: what fold had counted before the lock was ours is what the clock's bounds are of.
        state = State.read(cursor)
        assert state is not None
        if first is not None:
            bounds = {"first": first, "last": last, "mark": mark, "hi": state.last}
            spans = {"late": LATE, "old": OLD, "after": closed + 1, "upto": upto}
            cursor.execute(_NEW, bounds | spans)
        cursor.execute(
            "UPDATE loop_clock SET closed = %s, mark = %s, first_run = NULL, last_run = NULL",
            [upto, state.last],
        )
        if upto // DAY != closed // DAY:
            cursor.execute("DELETE FROM loop_minute WHERE minute < %s", [upto - (KEPT_DAYS + 1) * DAY])
        return int(upto - closed)


def note_folded(cursor: Any, first: Any, last: Any) -> None:
    """Remember the bounds of runs that fold counts, in its transaction, after its state is saved."""
    cursor.execute(
        "UPDATE loop_clock SET first_run = least(first_run, %s), last_run = greatest(last_run, %s)",
        [first, last],
    )


def _begin(cursor: Any, upto: int) -> int:
    """Start the clock, and count the past by when runs ended, so that what is usual is known at once."""
    cursor.execute(
        "INSERT INTO loop_clock (id, closed, mark) VALUES (1, %s, 0) ON CONFLICT DO NOTHING",
        [upto],
    )
    if not cursor.rowcount:
        return 0
    # Fold saves its state first and then notes the bounds of its runs: it waits here, and finds the row.
    cursor.execute("LOCK TABLE fold_state IN EXCLUSIVE MODE")
    state = State.read(cursor)
    assert state is not None
    start = moment_of(upto + 1 - KEPT_DAYS * DAY)
    cursor.execute(
        _PAST,
        {
            "hi": state.last,
            "first": run_id_bounds(start, moment_of(upto + 1))[0],
            "from": start,
            "to": moment_of(upto + 1),
            "late": LATE,
        },
    )
    cursor.execute("UPDATE loop_clock SET mark = %s", [state.last])
    return 1
