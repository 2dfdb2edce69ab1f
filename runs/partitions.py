"""The day partitions of the run table, and what a time range says about run ids.

A run's id is a UUIDv7 made within the day before, or five minutes after, the time that places the run on
every chart (``at``). Ingest sees to it (`runs.ingest.rows`), so that a reader who wants ``at`` in a range may
add the range of ids of `run_id_bounds`, and PostgreSQL reads only the partitions that can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from guardops.guard.ids import lowest_id

DAYS_BACK = 35
DAYS_AHEAD = 2
ID_EARLIER = timedelta(days=1)
ID_LATER = timedelta(minutes=5)
# pg_advisory_xact_lock(LOCK_SPACE, 0): one process makes or drops partitions at a time.
LOCK_SPACE = 0x70617274
LOCK_TIMEOUT = "2s"
_NAME = "run_%Y%m%d"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unix_ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def run_id_bounds(start: datetime, end: datetime) -> tuple[UUID, UUID]:
    """Return the ids [low, high) that hold every run whose ``at`` is in [start, end)."""
    return lowest_id(max(0, unix_ms(start - ID_EARLIER))), lowest_id(unix_ms(end + ID_LATER) + 1)


def kept_days(now: datetime, days_back: int = DAYS_BACK) -> list[date]:
    """Return the days that always have a partition; ``days_back`` is how many days runs are kept."""
    today = now.astimezone(UTC).date()
    return [today + timedelta(days=offset) for offset in range(-days_back - 1, DAYS_AHEAD + 1)]


def ensure_partitions(now: datetime) -> list[date]:
    """Make the partitions around ``now`` that do not exist yet; return their days. See `make_partitions`.

    A run of a day before them still finds a place: ingest makes it, and retention drops it again.
    """
    return make_partitions(kept_days(now, min(DAYS_BACK, settings.RETENTION_DAYS)))


def make_partitions(days: Iterable[date]) -> list[date]:
    """Make the partitions of these days that do not exist yet; return their days.

    Safe to call from several processes at once. Raises OperationalError where a lock takes longer than two
    seconds: nothing is half made then, and the next call goes on.
    """
    existing = existing_partitions()
    missing = [day for day in sorted(set(days)) if partition_name(day) not in existing]
    for day in missing:
        _make(day)
    return missing


def existing_partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass('run')::oid"
        )
        return {name for (name,) in cursor.fetchall()}


def existing_days() -> list[date]:
    """Return the days that have a partition, the oldest first."""
    return sorted(datetime.strptime(name, _NAME).date() for name in existing_partitions())  # noqa: DTZ007


def partition_name(day: date) -> str:
    return f"{day:{_NAME}}"


def first_id(day: date) -> UUID:
    """Return the lowest run id that was made on this UTC day."""
    return lowest_id(unix_ms(datetime.combine(day, time(), UTC)))


def _make(day: date) -> None:
    name = partition_name(day)
    low, high = first_id(day), first_id(day + timedelta(days=1))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        cursor.execute("SELECT to_regclass(%s)", [name])
        if cursor.fetchone()[0] is not None:
            return
        # Made beside the table and attached, which unlike PARTITION OF blocks no reader or writer of it.
        cursor.execute(f"CREATE TABLE {name} (LIKE run INCLUDING ALL) WITH (toast_tuple_target = 8160)")
        cursor.execute(f"ALTER TABLE run ATTACH PARTITION {name} FOR VALUES FROM ('{low}') TO ('{high}')")
