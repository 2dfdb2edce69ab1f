"""What the detector found, in sentences and figures: the raw rate, what is usual, and how many times that."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum

from guardops import shown
from runs.models import LoopMinute
from runs.rollup.minutes import moment_of

from .evidence import Evidence, Figure, Series

COLUMN = 15
COLUMNS = 96
"""A day in quarter-hours."""
BASIS = "last 24 h and same hour of the last 7 days, incidents left out"
OVER = {
    "back": "back to usual",
    "no_runs": "nothing has run for six hours",
    "new_normal": "it has been so for three days: it is the usual now",
    "gone": "the release runs no more",
}

Event = Mapping[str, Any]


def spike_said(event: Event) -> str:
    """Say what is on: ``37 of 446 tasks looped (8.3 %) since 02:58 UTC; usual …``."""
    return (
        f"{_counted(event)} since {_clock(event['started'])}; usual at this hour is"
        f" {shown.share(event['usual'])} ({BASIS}){_times(event)}"
    )


def release_said(event: Event) -> str:
    """Say what a release does: ``release r6 looped in 80 of its first 153 tasks …``."""
    other = "what ran beside it" if event["beside"] else "usual before it"
    share = shown.share(event["looped"] / event["tasks"])
    name = event["release"] or "(none given)"
    return (
        f"release {name} looped in {shown.count(event['looped'])} of its first"
        f" {shown.count(event['tasks'])} tasks ({share}); {other}: {shown.share(event['usual'])}"
        f"{_times(event)}"
    )


def sentence(job_type: str, said: str) -> str:
    return f"{job_type or 'Job types with few tasks, together'}: {said}."


def evidence_of(tenant_id: int, jobs: list[str], event: Event, minute: int) -> dict[str, Any]:
    """Return the figures and the last day of the series, as they are now."""
    release = event.get("release")
    figures = [
        Figure("Tasks that looped", shown.share(event["looped"] / event["tasks"]), _counted(event)),
        Figure(
            "Beside it" if event.get("beside") else "Usual",
            shown.share(event["usual"]),
            "what ran at the same time" if event.get("beside") else BASIS,
        ),
        Figure(
            "Began", _clock(event["started"]), shown.duration(timedelta(minutes=minute - event["started"]))
        ),
    ]
    start = (minute // COLUMN + 1 - COLUMNS) * COLUMN  # quarter-hours as lists of runs know them
    mine = _shares(tenant_id, jobs, start, release)
    lines = [Series("Looped", mine)]
    if release is not None:
        lines.append(
            Series("Other releases", _shares(tenant_id, jobs, start, release, others=True), usual=True)
        )
    else:
        lines.append(Series("Usual", [event["usual"] * 100] * COLUMNS, usual=True))
    return Evidence(
        figures=figures,
        title="Tasks that looped, by when their runs came in",
        unit="percent",
        start=moment_of(start),
        step_s=COLUMN * 60,
        series=lines,
        fired_at=moment_of(minute),
        facts=_facts(tenant_id, jobs, event["started"], minute),
    ).as_json()


def rows_of(job_type: str, event: Event, minute: int) -> dict[str, str]:
    """Return the parameters of the list of runs that looped in it."""
    query = {
        "job": job_type,
        "release": str(event.get("release", "")),
        "looped": "1",
        "from": moment_of(event["started"]).isoformat(),
        "to": moment_of(minute + 1).isoformat(),
    }
    return {name: value for name, value in query.items() if value}


def _counted(event: Event) -> str:
    looped, tasks = event["looped"], event["tasks"]
    return f"{shown.count(looped)} of {shown.count(tasks)} tasks looped ({shown.share(looped / tasks)})"


def _times(event: Event) -> str:
    """Say how many times the usual; nothing where the usual is none."""
    usual = event["usual"]
    return f", so {event['looped'] / event['tasks'] / usual:.1f}×" if usual > 0 else ""


def _clock(minute: int) -> str:
    moment: datetime = moment_of(minute)
    return f"{moment:%d %b %H:%M} UTC"


def _shares(
    tenant_id: int, jobs: list[str], start: int, release: str | None, *, others: bool = False
) -> list[float | None]:
    """Return the share of looped tasks in each quarter-hour, in percent; None where there were none."""
    rows = LoopMinute.objects.filter(
        tenant_id=tenant_id, job_type__in=jobs, minute__gte=start, minute__lt=start + COLUMN * COLUMNS
    )
    if release is not None:
        rows = rows.exclude(release=release) if others else rows.filter(release=release)
    tasks, looped = [0] * COLUMNS, [0] * COLUMNS
    for minute, here, bad in rows.values_list("minute", "tasks", "looped_tasks"):
        tasks[(minute - start) // COLUMN] += here
        looped[(minute - start) // COLUMN] += bad
    return [bad / here * 100 if here else None for here, bad in zip(tasks, looped, strict=True)]


def _facts(tenant_id: int, jobs: list[str], start: int, minute: int) -> list[str]:
    rows = LoopMinute.objects.filter(
        tenant_id=tenant_id, job_type__in=jobs, minute__gte=start, minute__lte=minute
    )
    sums = rows.aggregate(runs=Sum("runs"), provider=Sum("provider"), late=Sum("late"))
    facts = ["Distinct tasks are counted, since the runs of one task loop together."]
    if sums["provider"]:
        failures = f"{shown.count(sums['provider'])} of {shown.count(sums['runs'])} runs"
        facts.append(f"Provider failures are left out: {failures}.")
    if sums["late"]:
        facts.append(f"{shown.count(sums['late'])} runs came in more than 15 minutes after their end.")
    return facts
