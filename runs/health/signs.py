"""What the state of GuardOps means, in words: whether each part is well, and what to do if it isn't."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib import metadata

import django
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.template.defaultfilters import filesizeformat

from guardops import shown
from runs.partitions import DAYS_AHEAD

from .vitals import Vitals

_LATE = timedelta(seconds=30)
_DOWN = timedelta(minutes=3)
_MANY = 1_000
_LOW_SHARE, _LOWEST_SHARE = 0.1, 0.03


@dataclass(frozen=True, slots=True)
class Sign:
    """One part: ``state`` is ok, warn, danger or off; ``advice`` says what to do where it isn't well."""

    name: str
    state: str
    said: str
    advice: str = ""


def signs_of(vitals: Vitals) -> list[Sign]:
    """Return every part's sign, in the order in which a run and what is told of it pass through them."""
    parts: list[Callable[[Vitals], Sign]] = [
        *(_counting, _places, _disk, _beat, _queue, _rules, _outbox, _heartbeat, _guards),
    ]
    return [part(vitals) for part in parts]


def _counting(vitals: Vitals) -> Sign:
    counting = vitals.counting
    if counting.lag is None:
        return Sign("Counting", "warn", "fold has never counted", "Start manage.py fold --loop.")
    if counting.lag < _LATE:
        return Sign("Counting", "ok", f"{counting.waiting:,} runs wait")
    said = f"{shown.duration(counting.lag)} behind, {counting.waiting:,} runs wait"
    advice = f"Held up by {counting.held_by}." if counting.held_by else "Is manage.py fold --loop running?"
    return Sign("Counting", "danger" if counting.lag >= _DOWN else "warn", said, advice)


def _places(vitals: Vitals) -> Sign:
    said = f"{vitals.days_ahead} of {DAYS_AHEAD} days to come have a place for their runs"
    well = vitals.days_ahead >= DAYS_AHEAD
    return Sign("Days to come", "ok" if well else "danger", said, "" if well else "Run manage.py partitions.")


def _disk(vitals: Vitals) -> Sign:
    disk = vitals.disk
    if disk is None:
        return Sign("Disk", "off", "on another machine, or unknown to the database")
    said = f"{filesizeformat(disk.free)} of {filesizeformat(disk.total)} free"
    share = disk.free / disk.total
    if share >= _LOW_SHARE:
        return Sign("Disk", "ok", said)
    advice = "A full disk refuses every run. Keep runs for less long, or make room."
    return Sign("Disk", "danger" if share < _LOWEST_SHARE else "warn", said, advice)


def _beat(vitals: Vitals) -> Sign:
    age = vitals.beat_age
    if age is None:
        return Sign("Beat and worker", "danger", "have never worked", "Start a Celery beat and a worker.")
    said = f"a minute’s work was done {shown.duration(age)} ago"
    if age < _DOWN:
        return Sign("Beat and worker", "ok", said)
    advice = (
        "No beat holds the lock." if not vitals.beat_holds else "Beat is there: look at worker and broker."
    )
    return Sign("Beat and worker", "danger", said, advice)


def _queue(vitals: Vitals) -> Sign:
    if vitals.queue is None:
        advice = "Alerts and messages wait until it does; runs, pages and policies don’t need it."
        return Sign("Broker", "danger", "does not answer", advice)
    many = vitals.queue >= _MANY
    advice = "Is a worker running?" if many else ""
    return Sign("Broker", "warn" if many else "ok", f"{vitals.queue:,} tasks wait", advice)


def _rules(vitals: Vitals) -> Sign:
    failing = vitals.failing_rules
    if not failing:
        return Sign("Alert rules", "ok", "none fails")
    return Sign("Alert rules", "warn", f"{len(failing)} could not be judged", ", ".join(failing))


def _outbox(vitals: Vitals) -> Sign:
    outbox, late = vitals.outbox, vitals.outbox_late
    said = f"{outbox.waiting:,} notifications wait"
    if outbox.given_up:
        said += f", {outbox.given_up:,} were given up in the last day"
    if late < _DOWN:
        return Sign("Outbox", "warn" if outbox.given_up else "ok", said)
    said += f"; the oldest is {shown.duration(late)} late"
    return Sign("Outbox", "danger", said, "Is a worker running? Look at the deliveries of the channels.")


def _heartbeat(vitals: Vitals) -> Sign:
    pulse = vitals.heartbeat
    if pulse is None:
        said = "none is set" if not settings.HEARTBEAT_URL else "was never called"
        return Sign(
            "Outside watchdog", "off", said, "GUARDOPS_HEARTBEAT_URL names one that is called every minute."
        )
    if not pulse.error:
        return Sign("Outside watchdog", "ok", f"called {shown.duration(vitals.at - pulse.at)} ago")
    return Sign("Outside watchdog", "warn", "did not take the last call", shown.visible_text(pulse.error))


def _guards(vitals: Vitals) -> Sign:
    counted = [f"{number:,} {state}" for state, number in vitals.guards.items() if number]
    return Sign("Guards", "ok" if counted else "off", ", ".join(counted) or "none has pulled a policy yet")


def read_versions() -> list[tuple[str, str]]:
    """Return what runs here: names and versions, and whether the database is as this version expects."""
    executor = MigrationExecutor(connection)
    ahead = executor.migration_plan(executor.loader.graph.leaf_nodes())
    number = connection.pg_version  # type: ignore[attr-defined]
    return [
        ("GuardOps", metadata.version("guardops")),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        ("Celery", metadata.version("celery")),
        ("PostgreSQL", f"{number // 10_000}.{number % 10_000}"),
        ("Database schema", f"{len(ahead)} migrations to do" if ahead else "up to date"),
    ]
