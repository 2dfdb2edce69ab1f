"""One source: what it did in whose runs, day by day, and the form that blocks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from guardops.addresses import tidy
from guardops.charts import Chart, Column, Layer, stacked_bars
from guardops.tenants.access import Visible, administered_organisations, visible
from guardops.tenants.models import Tenant, User
from policies.blocklist.reach import refuse_below_admin, require_editor
from runs.models import Run
from runs.querysets import ALL_TENANTS
from runs.reports.pages import PageRequest
from runs.reports.panels.axis import LABEL_STEPS
from runs.sources.blocking import BlockSourceForm, places_of
from runs.sources.counts import Counted, Days, Source, read_by_day
from runs.sources.forms import DEFAULT_DAYS, RANGES, RadarForm
from runs.sources.radar import Row, read_row
from runs.sources.urls import page_of, runs_of

NEWEST = 10
_DAY = timedelta(days=1)
_LAYERS = (("k-source", "stopped", True), ("k-useful", "completed", False))


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day's runs, each number with its rows."""

    title: str
    counted: Counted
    stopped: str
    completed: str


@dataclass(frozen=True, slots=True)
class TenantRow:
    tenant: Tenant
    counted: Counted
    stopped: str
    completed: str


@never_cache
@require_safe
def source(request: PageRequest, kind: str, name: str) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    form = RadarForm(tidy(request.GET), seen=seen)
    if not form.is_valid():
        return render(
            request, "runs/sources.html", {"form": form, "state": "invalid", "as_of": now}, status=400
        )
    days, asked = form.asked_days(now), (kind, name)
    row = _row_or_404(seen, asked, days, now)
    context = {
        **_counts(seen, row, days, now),
        "range": form.cleaned_data["days"] or DEFAULT_DAYS,
        "table": form.cleaned_data["view"] == "table",
        "views": [page_of(asked, days=form.cleaned_data["days"], view=view) for view in ("", "table")],
        "organisations": administered_organisations(request.user),
        "blocking": _form(request.user, row),
        "as_of": now,
    }
    return render(request, "runs/source.html", context)


def _counts(seen: Visible, row: Row, days: Days, now: datetime) -> dict[str, Any]:
    """Return what the page counts, each number with the list of its runs."""
    asked = row.source
    by_day = read_by_day([asked], _ids(seen), days, now)[asked]
    return {
        "row": row,
        "days": days,
        "ranges": [(key, label, page_of(asked, days=key)) for key, label in RANGES.items()],
        "stopped": runs_of(asked, days, stopped=True),
        "completed": runs_of(asked, days, stopped=False),
        "chart": _chart(asked, days, by_day),
        "times": _times(asked, days, by_day),
        "tenants": _tenants(seen, row, days),
        "runs": _newest(seen, asked, days),
        "using": sum(bool(of.completed) for of in row.by_tenant.values()),
    }


def _form(user: User, row: Row) -> BlockSourceForm:
    """Return the form that blocks the source, with the tenants chosen whose runs were stopped with it."""
    places = places_of(user, row)
    chosen = [place.name for place in places if place.is_tenant and place.stopped]
    initial = {"kind": row.kind, "name": row.name, "places": chosen, "lasting": "7d"}
    return BlockSourceForm(initial=initial, places=places)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def source_block(request: PageRequest) -> HttpResponse:
    require_editor(request.user)
    for place in request.POST.getlist("places"):
        refuse_below_admin(request.user, place)
    now, seen = timezone.now(), visible(request.user)
    given = request.POST if request.method == "POST" else None
    asked = request.POST or request.GET
    row = _known(seen, asked.get("kind", ""), asked.get("name", ""), now)
    initial = {name: asked[name] for name in ("kind", "name") if name in asked}
    form = BlockSourceForm(given, initial=initial, places=places_of(request.user, row))
    if not form.is_valid():
        return render(request, "runs/source_block.html", {"blocking": form, "row": row, "as_of": now})
    results = form.block(actor=request.user, now=now)
    if len(results) == 1 and (change := results[0].change) is not None:
        return redirect("policies:change", change.pk)
    counts = Counter("error" if it.error else "blocked" if it.change else "already" for it in results)
    context = {"results": results, "counts": counts, "asked": form.cleaned_data, "as_of": now}
    return render(request, "runs/source_blocked.html", context)


def _known(seen: Visible, kind: str, name: str, now: datetime) -> Row | None:
    """Return what is known of a source that a form names, None for one that nobody has seen."""
    if not kind or not name or "\0" in kind + name:
        return None
    return read_row(seen.tenants, (kind, name), Days.until(now, int(DEFAULT_DAYS)), now)


def _row_or_404(seen: Visible, source: Source, days: Days, now: datetime) -> Row:
    """Return the source as its reader may know it: of the days asked for, or else of the last month."""
    if seen.tenants and "\0" not in source[1]:
        for span in (days, Days.until(now, max(map(int, RANGES)))):
            if row := read_row(seen.tenants, source, span, now):
                return row if span is days else row.without_counts()
    raise Http404("No such source.")


def _ids(seen: Visible) -> list[int]:
    return [ALL_TENANTS] if seen.all_tenants else seen.ids


def _day(day: date) -> Days:
    return Days(day, day)


def _chart(source: Source, days: Days, by_day: dict[date, Counted]) -> Chart:
    columns = [
        Column(
            label=f"{day.day} {day:%b}",
            title=f"{day.day} {day:%b} UTC",
            href=runs_of(source, _day(day), stopped=True),
            ordinal=day.toordinal(),
            partial=day == days.last,
        )
        for day in days.all
    ]
    layers = [
        Layer(
            css,
            name,
            [getattr(by_day.get(day, Counted()), name) for day in days.all],
            [runs_of(source, _day(day), stopped=stopped) for day in days.all],
        )
        for css, name, stopped in _LAYERS
    ]
    steps = LABEL_STEPS[_DAY]
    return stacked_bars("Runs that used it, by day", columns, layers, noun="runs", label_steps=steps)


def _times(source: Source, days: Days, by_day: dict[date, Counted]) -> list[DayRow]:
    return [
        DayRow(
            f"{day.day} {day:%b}",
            by_day.get(day, Counted()),
            runs_of(source, _day(day), stopped=True),
            runs_of(source, _day(day), stopped=False),
        )
        for day in reversed(days.all)
    ]


def _tenants(seen: Visible, row: Row, days: Days) -> list[TenantRow]:
    used = [(tenant, row.by_tenant[tenant.pk]) for tenant in seen.tenants if tenant.pk in row.by_tenant]
    return [
        TenantRow(
            tenant,
            counted,
            runs_of(row.source, days, stopped=True, tenant=tenant.slug),
            runs_of(row.source, days, stopped=False, tenant=tenant.slug),
        )
        for tenant, counted in sorted(used, key=lambda pair: (-pair[1].stopped, -pair[1].completed))
        if counted.stopped or counted.completed
    ]


def _newest(seen: Visible, source: Source, days: Days) -> Sequence[Run]:
    runs = Run.objects.for_tenants(_ids(seen)).between(days.start, days.end)
    return list(runs.stopped_with(*source).without_detail().order_by("-at", "-run_id")[:NEWEST])
