"""What is kept, how much room it takes, and how retention fares: what the page of storage shows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import count, takewhile
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from pghistory.models import Event

from guardops.celery import app
from guardops.tenants.models import Organisation
from runs.models import RetentionRun
from runs.partitions import DAYS_AHEAD, existing_days, partition_name
from runs.rollup.state import State

RECENT = 5

_ROLLUPS = ("rollup", "histogram", "source_day")
_BESIDE = (
    "external_run",
    "task_completion",
    "run_source",
    "live_run",
    "refused_work",
    "checkpoint",
    "decision",
    "checkpoint_note",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the database and its size in bytes, indexes included."""

    name: str
    holds: str
    size: int


@dataclass(frozen=True, slots=True)
class DayKept:
    """The runs whose ids were made on a UTC day; ``empty`` where there are none."""

    day: date
    size: int
    empty: bool


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that the database is on, in bytes."""

    free: int
    total: int


@dataclass(frozen=True, slots=True)
class Storage:
    """Sizes are in bytes."""

    size: int
    parts: tuple[Part, ...]
    days: tuple[DayKept, ...]
    ahead: int  # days from tomorrow on that have their place, one after the other
    disk: Disk | None  # None where the database is on another machine, or does not say where
    uncounted: int  # runs that fold has not counted
    folded_at: datetime | None  # what was acknowledged by then is counted
    keeps: int  # days
    shorter: tuple[Organisation, ...]  # who keeps their runs for less, of those that are shown
    recent: tuple[RetentionRun, ...]  # the newest first
    next_at: datetime

    @property
    def oldest(self) -> date | None:
        return next((kept.day for kept in self.days if not kept.empty), None)

    @property
    def places_missing(self) -> bool:
        return self.ahead < DAYS_AHEAD


def read_storage(organisations: Sequence[Organisation], *, now: datetime) -> Storage:
    """Return what is stored; ``organisations`` are those whose own settings may be shown."""
    with connection.cursor() as cursor:
        days = _days(cursor)
        size, parts = _parts(cursor, sum(kept.size for kept in days))
        state = State.read(cursor)
        cursor.execute("SELECT coalesce(sum(runs), 0)::bigint FROM ingest_span")
        (uncounted,) = cursor.fetchone()
        disk = read_disk(cursor)
    today = now.astimezone(UTC).date()
    return Storage(
        size=size,
        parts=parts,
        days=days,
        ahead=_ahead({kept.day for kept in days}, today),
        disk=disk,
        uncounted=uncounted,
        folded_at=state.folded_at if state else None,
        keeps=settings.RETENTION_DAYS,
        shorter=tuple(each for each in organisations if _is_shorter(each)),
        recent=tuple(RetentionRun.objects.order_by("-started_at")[:RECENT]),
        next_at=next_retention(now),
    )


def _ahead(days: Set[date], today: date) -> int:
    following = (today + timedelta(days=number) for number in count(1))
    return sum(1 for _ in takewhile(days.__contains__, following))


def _is_shorter(organisation: Organisation) -> bool:
    days = organisation.retention_days
    return days is not None and days < settings.RETENTION_DAYS


def next_retention(now: datetime) -> datetime:
    """Return when beat asks for retention next, every hour at the same minute."""
    (minute,) = app.conf.beat_schedule["apply-retention"]["schedule"].minute
    due = now.replace(minute=minute, second=0, microsecond=0)
    return due if due > now else due + timedelta(hours=1)


def _days(cursor: Any) -> tuple[DayKept, ...]:
    days = {partition_name(day): day for day in existing_days()}
    if not days:
        return ()
    questions = [
        f"SELECT '{name}' AS name, pg_total_relation_size('{name}'), NOT EXISTS (SELECT FROM {name})"
        for name in days
    ]
    cursor.execute(f"{' UNION ALL '.join(questions)} ORDER BY name")
    return tuple(DayKept(days[name], size, empty) for name, size, empty in cursor.fetchall())


def _parts(cursor: Any, runs: int) -> tuple[int, tuple[Part, ...]]:
    """Return the size of the database and of its parts, the largest first and the rest last."""
    trails = [model._meta.db_table for model in apps.get_models() if issubclass(model, Event)]
    cursor.execute("SELECT pg_database_size(current_database())")
    (whole,) = cursor.fetchone()
    named = [
        Part("Runs", "every run that ended, by the day of its id", runs),
        Part("Roll-ups", "counts by quarter-hour, hour and day; kept for ever", _size(cursor, _ROLLUPS)),
        Part(
            "Beside runs",
            "foreign ids, sources, completed tasks, live runs, checkpoints",
            _size(cursor, _BESIDE),
        ),
        Part("Audit trail", "who changed what; kept for ever", _size(cursor, trails)),
    ]
    rest = max(0, whole - sum(part.size for part in named))
    named.sort(key=lambda part: -part.size)
    return whole, (*named, Part("The rest", "people, keys, sessions and PostgreSQL's own tables", rest))


def _size(cursor: Any, tables: Sequence[str]) -> int:
    cursor.execute(
        "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::bigint"
        " FROM unnest(%s::text[]) AS name",
        [list(tables)],
    )
    return int(cursor.fetchone()[0])


def read_disk(cursor: Any) -> Disk | None:
    """Return the disk of the database's data, where that is on this machine and it is known where."""
    folder = settings.DATABASE_FOLDER or _data_directory(cursor)
    if not folder:
        return None
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(usage.free, usage.total)


def _data_directory(cursor: Any) -> str:
    """Ask the server, which tells those who may know; empty where it does not, or is on another machine."""
    cursor.execute(
        "SELECT setting FROM pg_settings WHERE name = 'data_directory'"
        " AND (inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr())"
    )
    found = cursor.fetchone()
    return str(found[0] or "") if found else ""
