"""The overview's tables as files: the same numbers, of the same moment's counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.export import Cell, file_response, range_name
from guardops.tenants.access import visible
from guardops.viewer import current_zone
from runs.choices import Family
from runs.reasons_text import clause

from .asked import NotAsked, read_asked
from .metrics import Overview
from .overview import read_overview
from .pages import PageRequest
from .windows import WindowError

Table = tuple[Sequence[str], Callable[[Overview], Iterable[Sequence[Cell]]]]


@require_GET
def overview_file(request: PageRequest, table: str, form: str = "csv") -> HttpResponseBase:
    now, seen = timezone.now(), visible(request.user)
    if not seen.tenants:
        return render(request, "runs/no_tenant.html")
    if table not in TABLES:
        raise Http404("No such table.")
    try:
        asked = read_asked(request.GET, seen, now=now, zone=current_zone())
    except (NotAsked, WindowError) as problem:
        return _nonsense(request, problem)
    found = read_overview(asked.scope, asked.window, now=now, steps_job=asked.steps_job)
    header, rows = TABLES[table]
    name = range_name(table, asked.window.start, asked.window.end)
    return file_response(form, name, header, rows(found))


def _nonsense(request: PageRequest, problem: Exception) -> HttpResponse:
    return render(request, "400.html", {"problem": str(problem)}, status=400)


def _halts(found: Overview) -> Iterator[Sequence[Cell]]:
    halts = found.halts
    for number, bucket in enumerate(halts.buckets):
        counts = [halts.families[family][number] if family in halts.families else 0 for family in Family]
        yield [bucket.start, bucket.end, *counts, sum(counts)]


def _reasons(found: Overview) -> Iterator[Sequence[Cell]]:
    for code, count in sorted(found.halts.reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        yield [code, clause(code), count]


def _steps(found: Overview) -> Iterator[Sequence[Cell]]:
    for row in found.steps.rows:
        yield [
            *(row.job_type, row.unit, row.tasks, row.p50, row.p95, row.p99, row.highest, row.cap),
            *(row.near_cap, row.near_cap_share),
        ]


def _steps_over_time(found: Overview) -> Iterator[Sequence[Cell]]:
    steps = found.steps
    if steps.shown is None:
        return
    for bucket, *numbers in zip(steps.buckets, steps.p50, steps.p95, steps.p99, steps.highest, strict=True):
        yield [bucket.start, bucket.end, steps.shown.job_type, steps.shown.unit, *numbers]


TABLES: Mapping[str, Table] = {
    "halts": (["start", "end", *Family.values, "all"], _halts),
    "reasons": (["reason", "meaning", "halts"], _reasons),
    "steps": (
        [
            *("job_type", "unit", "tasks", "p50", "p95", "p99", "highest", "cap"),
            *("at_90_percent_of_cap", "share_at_90_percent"),
        ],
        _steps,
    ),
    "steps-over-time": (
        ["start", "end", "job_type", "unit", "p50", "p95", "p99", "highest"],
        _steps_over_time,
    ),
}
"""The tables by their names in addresses: the columns, and where the rows come from."""
