"""Releases: what each changed, as a page and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_safe

from guardops.addresses import first_page, tidy
from guardops.export import Cell, file_response, range_name
from guardops.tenants.access import visible
from runs.pages.releases_form import ReleasesForm
from runs.reports.arrivals import MOST, Arrival, read_arrivals
from runs.reports.outages import read_outages
from runs.reports.pages import PageRequest
from runs.reports.panels.releases import outage_lines, release_lines
from runs.reports.releases import Compared, Estimate, Side, read_compared

if TYPE_CHECKING:
    from datetime import datetime

PER_PAGE = 10
SIDE = ("runs", "loop_rate", "p99_steps", "forced_share", "cost_per_completed_task_usd", "completed_tasks")
COLUMNS = [
    *("tenant", "job_type", "release", "first_seen", "verdict", "loops", "steps", "forced", "cost"),
    *(f"before_{name}" for name in SIDE),
    *(f"after_{name}" for name in SIDE),
    "new_halt_reasons",
]


@require_safe
def releases(request: PageRequest) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    form = ReleasesForm(tidy(request.GET), seen=seen)
    context: dict[str, Any] = {"form": form, "as_of": now}
    if not seen.tenants or not form.is_valid():
        state = "invalid" if seen.tenants else "nobody"
        status = 400 if seen.tenants else 200
        return render(request, "runs/releases.html", context | {"state": state}, status=status)
    tenants = {tenant.pk: tenant for tenant in form.scope}
    found = _asked(form, now)
    page = Paginator(found, PER_PAGE).get_page(form.cleaned_data["page"])
    context |= {
        "page": page,
        "lines": release_lines(read_compared(list(page.object_list), now), tenants),
        "outages": outage_lines(read_outages(list(tenants), now), tenants),
        "state": "rows" if found else "filtered" if form.narrows else "none",
        "cut": len(found) >= MOST,
    }
    return render(request, "runs/releases.html", context)


@require_GET
def releases_export(request: PageRequest, form: str = "csv") -> HttpResponseBase:
    now, seen = timezone.now(), visible(request.user)
    asked = ReleasesForm(first_page(tidy(request.GET)), seen=seen)
    if not seen.tenants or not asked.is_valid():
        state = "invalid" if seen.tenants else "nobody"
        context = {"form": asked, "state": state, "as_of": now}
        return render(request, "runs/releases.html", context, status=400 if seen.tenants else 200)
    slugs = {tenant.pk: tenant.slug for tenant in asked.scope}
    name = range_name("releases", asked.start(now), now)
    return file_response(form, name, COLUMNS, _cells(_asked(asked, now), slugs, now))


def _asked(form: ReleasesForm, now: datetime) -> list[Arrival]:
    found = read_arrivals([tenant.pk for tenant in form.scope], form.start(now), now)
    return [arrival for arrival in found if form.takes(arrival)]


def _cells(arrivals: list[Arrival], slugs: dict[int, str], now: datetime) -> Iterator[list[Cell]]:
    for place in range(0, len(arrivals), PER_PAGE):
        for each in read_compared(arrivals[place : place + PER_PAGE], now):
            of = each.arrival
            yield [
                *(slugs[of.tenant_id], of.job_type, of.release, of.at),
                *(str(each.worst), str(each.loops), str(each.steps), str(each.forced), str(each.cost)),
                *_side(each.before),
                *_side(each.after),
                _reasons(each),
            ]


def _side(side: Side) -> list[Cell]:
    return [
        side.counts.runs,
        _value(side.loop_rate, 5),
        _value(side.p99, 0),
        _value(side.forced, 5),
        None if side.counts.cost_per_completed_task is None else side.counts.cost_per_completed_task,
        side.counts.completed,
    ]


def _value(estimate: Estimate | None, digits: int) -> float | None:
    return None if estimate is None else round(estimate.value, digits)


def _reasons(each: Compared) -> str:
    return ", ".join(f"{code} {runs}" for code, runs in each.new_reasons.items())
