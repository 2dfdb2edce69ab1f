"""The page of storage: what is kept, how much room it takes, and how retention fares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.charts import Chart, Column, Layer, stacked_bars
from guardops.htmx import wants_fragment
from guardops.tenants.access import require_storage_reader
from runs.reports.pages import PageRequest
from runs.reports.panels.axis import LABEL_STEPS
from runs.retention.storage import DayKept, Storage, read_storage

_DAY = timedelta(days=1)
_UNITS = (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024))
_LOW_SHARE = 0.1
"""With less of the disk free than this the page warns."""


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day in the table under the chart; ``future`` where its runs are yet to come."""

    day: date
    size: int
    empty: bool
    future: bool
    href: str


@require_safe
@vary_on_headers("HX-Request")
def storage(request: PageRequest) -> HttpResponse:
    now, organisations = timezone.now(), require_storage_reader(request.user)
    found = read_storage(organisations, now=now)
    today, (unit, length) = now.astimezone(UTC).date(), _unit(found.days)
    context = {
        "as_of": now,
        "found": found,
        "chart": _chart(found.days, unit, length, today),
        "unit": unit,
        "rows": [_row(kept, today) for kept in reversed(found.days)],
        "at_work": _at_work(found, now),
        "disk_low": found.disk is not None and found.disk.free < found.disk.total * _LOW_SHARE,
    }
    return render(request, "runs/_storage.html" if wants_fragment(request) else "runs/storage.html", context)


def _at_work(found: Storage, now: datetime) -> bool:
    """Say whether the newest retention runs: one that died is taken for that for a quarter of an hour."""
    newest = found.recent[0] if found.recent else None
    return newest is not None and newest.ended_at is None and now - newest.started_at < _DAY / 96


def _row(kept: DayKept, today: date) -> DayRow:
    return DayRow(kept.day, kept.size, kept.empty, kept.day > today, _runs_of(kept.day))


def _unit(days: Sequence[DayKept]) -> tuple[str, int]:
    """Return the largest unit, with its bytes, in which the largest day is twenty or more."""
    largest = max((kept.size for kept in days), default=0)
    return next((unit for unit in _UNITS if largest >= 20 * unit[1]), _UNITS[-1])


def _chart(days: Sequence[DayKept], unit: str, length: int, today: date) -> Chart | None:
    """Draw the days up to today from the first one with runs; None without any."""
    first = next((kept.day for kept in days if not kept.empty), None)
    shown = [kept for kept in days if first and first <= kept.day <= today]
    if not shown:
        return None
    columns = [
        Column(
            f"{kept.day.day} {kept.day:%b}",
            f"{kept.day.day} {kept.day:%b} UTC",
            _runs_of(kept.day),
            kept.day.toordinal(),
        )
        for kept in shown
    ]
    sizes = [0 if kept.empty else round(kept.size / length) for kept in shown]
    layer = Layer("k-useful", "runs", sizes, [column.href for column in columns])
    return stacked_bars(
        f"Room that runs take by day, in {unit}", columns, [layer], noun=unit, label_steps=LABEL_STEPS[_DAY]
    )


def _runs_of(day: date) -> str:
    """Return the list of the day's runs: UTC days, as partitions have it."""
    ends = {"from": f"{day}T00:00Z", "to": f"{day + _DAY}T00:00Z"}
    return f"{reverse('runs:list')}?{urlencode(ends)}"
