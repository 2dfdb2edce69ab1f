"""Whole days: the partitions of runs that nobody keeps any longer are detached and dropped.

Detaching takes the run table from readers and writers for as long as it takes to change a few rows of the
catalogue. ``DETACH PARTITION CONCURRENTLY`` would not, but it is no part of a transaction: it could not look
for uncounted runs in the same breath, it waits for every page that is being read, and what dies in between
leaves a day that takes no runs and cannot be made again. So the lock is asked for, for a fifth of a second at
a time, which is the longest that ingest can wait for retention, and after a few times left for the next run.
"""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from enum import Enum, auto

from django.db import OperationalError, connection, transaction

from runs.partitions import LOCK_SPACE, existing_days, partition_name

from .beside import enter_tasks_of_day

LOCK_TIMEOUT = "200ms"
TRIES = 5
PAUSE_S = 0.5
_GONE = "gone_"
"""What a detached partition is called until it is dropped."""


class Day(Enum):
    """What became of a day that is due."""

    DETACHED = auto()
    UNCOUNTED = auto()  # fold has to count some of its runs first
    LOCKED = auto()  # somebody reads or writes runs all the time


def due_days(kept_from: datetime) -> list[date]:
    """Return the days with a partition whose runs are all placed before ``kept_from``, a UTC midnight.

    A run may be placed a day after its id was made, so that the day before ``kept_from`` is not among them.
    """
    last = kept_from.date() - timedelta(days=2)
    return [day for day in existing_days() if day <= last]


def detach_day(day: date, *, counted: int, tries: int = TRIES, pause_s: float = PAUSE_S) -> Day:
    """Detach a day's partition unless it holds a run whose mark is not below ``counted``.

    What completed a task is entered first; what arrived meanwhile has a higher mark, and keeps the day.
    """
    name = partition_name(day)
    enter_tasks_of_day(name, counted=counted)
    for attempt in range(tries):
        if attempt:
            time.sleep(pause_s)
        try:
            return _detach(name, counted)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != "55P03":  # lock_not_available
                raise
    return Day.LOCKED


def _detach(name: str, counted: int) -> Day:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        # The parent alone, as ATTACH and DETACH do: every reader and writer of runs passes through it.
        cursor.execute("LOCK TABLE ONLY run IN ACCESS EXCLUSIVE MODE")
        cursor.execute(f"SELECT EXISTS (SELECT FROM {name} WHERE ingest_mark >= %s)", [counted])
        if cursor.fetchone()[0]:
            return Day.UNCOUNTED
        cursor.execute(f"ALTER TABLE run DETACH PARTITION {name}")
        cursor.execute(f"ALTER TABLE {name} RENAME TO {_GONE}{name}")
    return Day.DETACHED


def drop_detached() -> int:
    """Drop what is detached, by this run of retention or one that died; return how many bytes that frees."""
    freed = 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
            " WHERE relkind = 'r' AND relname ~ %s AND pg_table_is_visible(oid)",
            [rf"^{_GONE}run_\d{{8}}$"],
        )
        for name, size in cursor.fetchall():
            cursor.execute(f"DROP TABLE {name}")
            freed += size
    return freed
