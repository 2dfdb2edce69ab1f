"""Retention: what is older than its time goes, runs day by day or one by one, and their counts stay.

Roll-ups are kept whole. Their quarter-hours are not thinned out to hours either: a day begins at a quarter
past or to the hour in Kathmandu, at half past in Delhi, and must add up however far back it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from guardops.tenants.cluster import read_system_identifier
from runs.ingest.sweep import sweep_live
from runs.models import RetentionRun
from runs.partitions import DAYS_BACK, existing_days, first_id
from runs.rollup.fold import ForeignCluster
from runs.rollup.state import State

from .beside import delete_beside_before
from .days import Day, detach_day, drop_detached, due_days
from .early import delete_checkpoints, delete_early, delete_refused_work, shorter_kept
from .horizon import kept_from, move_horizon

LOCK_SPACE = 0x6B656570
"""pg_try_advisory_lock(LOCK_SPACE, 0), a session's: one retention at a time in a database."""
RECORDS_KEPT = timedelta(days=90)

log = structlog.get_logger(__name__)


def apply_retention(now: datetime, *, seconds: float | None = None) -> RetentionRun | None:
    """Delete what is due at ``now`` and return the record of it; None where another retention is at work.

    With ``seconds`` it stops after about as many, and the next one goes on: every step is done for good. It
    must be the outermost transaction. What fails is in the record, and raised.
    """
    with _alone() as alone:
        if not alone:
            return None
        RetentionRun.objects.filter(started_at__lt=now - RECORDS_KEPT).delete()
        record = RetentionRun.objects.create(started_at=now)
        try:
            _work(record, now, _until(seconds))
        except (DatabaseError, ForeignCluster) as error:
            record.error = first_line(error)
            raise
        finally:
            record.ended_at = timezone.now()
            record.save()
    log.info("retention.done", days=len(record.days), runs=record.runs, freed=record.bytes_freed)
    return record


@contextmanager
def _alone() -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LOCK_SPACE])
        alone = bool(cursor.fetchone()[0])
    try:
        yield alone
    finally:
        if alone and connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK_SPACE])


def _until(seconds: float | None) -> Callable[[], bool]:
    """Return what says whether the time is up."""
    end = None if seconds is None else time.monotonic() + seconds
    return lambda: end is not None and time.monotonic() >= end


def _work(record: RetentionRun, now: datetime, time_is_up: Callable[[], bool]) -> None:
    counted = _counted()
    whole = kept_from(now, settings.RETENTION_DAYS)
    if _drop_days(record, whole, counted, time_is_up) and _delete_early(record, now, counted, time_is_up):
        first = min([*existing_days(), whole.date() - timedelta(days=1)])
        remembered = whole.date() - timedelta(days=DAYS_BACK)
        record.beside += delete_beside_before(first_id(first), first_id(min(first, remembered)))
        record.beside += delete_refused_work(whole) + delete_checkpoints(whole) + sweep_live(now)
        record.finished = not record.postponed
    record.progress = ""


def _counted() -> int:
    """Return the mark below which fold has counted every run: 0 where it has never run."""
    with connection.cursor() as cursor:
        state = State.read(cursor)
        if state is None:
            return 0
        if state.system_identifier != read_system_identifier(cursor):
            raise ForeignCluster("What is counted is not known before the marks are re-based.")
        return state.last


def _drop_days(record: RetentionRun, whole: datetime, counted: int, time_is_up: Callable[[], bool]) -> bool:
    """Drop the days that are due; say whether there was time for all of them."""
    record.bytes_freed += drop_detached()  # of a retention that died
    days = due_days(whole)
    if days:
        move_horizon(None, whole)
    for place, day in enumerate(days, start=1):
        if time_is_up():
            return False
        _show(record, f"Day {place} of {len(days)}: {day}")
        if detach_day(day, counted=counted) is Day.DETACHED:
            record.bytes_freed += drop_detached()
            record.days.append(day)
        else:
            record.postponed.append(day)
    return True


def _delete_early(record: RetentionRun, now: datetime, counted: int, time_is_up: Callable[[], bool]) -> bool:
    """Delete what organisations keep for less; say whether there was time for all of it."""
    for tenant, until in shorter_kept(now, settings.RETENTION_DAYS):
        for runs, beside in delete_early(tenant, until, counted=counted):
            record.runs += runs
            record.beside += beside
            # Without a name: other organisations' admins read this as well.
            _show(record, f"Single runs: {record.runs:,} deleted so far")
            if time_is_up():
                return False
        record.beside += delete_refused_work(until, tenant) + delete_checkpoints(until, tenant)
    return True


def _show(record: RetentionRun, progress: str) -> None:
    record.progress = progress
    record.save(update_fields=["progress", "days", "runs", "beside", "bytes_freed"])


def first_line(error: Exception) -> str:
    """Return what an error says, without the lines in which the database quotes rows: others read it."""
    return str(error).strip().partition("\n")[0]
