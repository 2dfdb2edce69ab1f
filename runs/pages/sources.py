"""The radar of sources: ranked, drawn and as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_safe

from guardops.addresses import first_page, tidy, without
from guardops.charts import sparkline
from guardops.export import Cell, file_response, range_name
from guardops.scatter import Point, ScatterChart, scatter_chart
from guardops.tenants.access import Visible, administers_something, visible
from runs.reports.pages import PageRequest
from runs.sources.counts import Days, read_by_day
from runs.sources.crossing import LEAST_TENANTS
from runs.sources.forms import RadarForm
from runs.sources.lift import Lift
from runs.sources.radar import Row, State, read_radar
from runs.sources.urls import page_of, runs_of

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.models import User

ROWS_PER_PAGE = 50
DRAWN = 40
COLUMNS = [
    *(
        "kind",
        "source",
        "readable",
        "state",
        "lift",
        "lift_low",
        "lift_high",
        "stopped_runs",
        "stopped_share",
    ),
    *("completed_runs", "completed_share", "tenants", "calls", "cost_usd", "first_seen"),
]


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the table; ``stopped`` and ``completed`` are the addresses of exactly the runs they count."""

    row: Row
    page: str
    stopped: str
    completed: str
    block: str  # empty where the reader blocks nothing
    trend: str


@require_safe
def sources(request: PageRequest) -> HttpResponse:
    params, now, seen = tidy(request.GET), timezone.now(), visible(request.user)
    form = RadarForm(params, seen=seen)
    context: dict[str, Any] = {"form": form, "as_of": now, "least": LEAST_TENANTS, "query": _kept(params)}
    if not seen.tenants:
        return render(request, "runs/sources.html", context | {"state": "nobody"})
    if not form.is_valid():
        return render(request, "runs/sources.html", context | {"state": "invalid"}, status=400)
    radar = read_radar(seen, form.scope, form.asked_days(now), now)
    asked = [row for row in radar.rows if form.takes(row)]
    page = Paginator(asked, ROWS_PER_PAGE).get_page(form.cleaned_data["page"])
    context |= {
        "radar": radar,
        "below": max(
            0, radar.found - sum(row.crossing is not None for row in radar.rows if row.mine.stopped)
        ),
        "page": page,
        "rows": _shown(list(page.object_list), form, radar.days, request.user, seen, now),
        "chart": None if form.cleaned_data["view"] else _chart(asked[:DRAWN], form),
        "as_of": radar.as_of.at,
        "state": "rows" if asked else "filtered" if radar.rows else "none",
        "capped": any(row.crossing for row in asked),
    }
    return render(request, "runs/sources.html", context)


@require_GET
def sources_export(request: PageRequest, form: str = "csv") -> HttpResponseBase:
    params, now, seen = first_page(tidy(request.GET)), timezone.now(), visible(request.user)
    asked = RadarForm(params, seen=seen)
    if not seen.tenants or not asked.is_valid():
        context = {"form": asked, "state": "invalid" if seen.tenants else "nobody", "as_of": now}
        return render(request, "runs/sources.html", context, status=400 if seen.tenants else 200)
    days = asked.asked_days(now)
    rows = [row for row in read_radar(seen, asked.scope, days, now).rows if asked.takes(row)]
    return file_response(form, range_name("sources", days.start, days.end), COLUMNS, _cells(rows))


def _kept(params: Any) -> str:
    return str(without(first_page(params), "view").urlencode())


def _shown(
    rows: Sequence[Row], form: RadarForm, days: Days, user: User, seen: Visible, now: datetime
) -> list[Shown]:
    # Two weeks, so that a range of a day has a line too.
    trend_days = Days.until(now, 14)
    scope = form.scope
    ids = [0] if seen.all_tenants and len(scope) == len(seen.tenants) else [tenant.pk for tenant in scope]
    by_day = read_by_day([row.source for row in rows], ids, trend_days, now) if rows else {}
    edits, tenant = administers_something(user) or user.is_operator, form.cleaned_data["tenant"]
    kept = {"tenant": tenant, "days": form.cleaned_data["days"]}
    found = []
    for row in rows:
        of = by_day[row.source]
        values = [float(of[day].stopped) if day in of else 0.0 for day in trend_days.all]
        found.append(
            Shown(
                row,
                page_of(row.source, **kept),
                runs_of(row.source, days, stopped=True, tenant=tenant),
                runs_of(row.source, days, stopped=False, tenant=tenant),
                f"{page_of(row.source, **kept)}#block" if edits and not row.refusal else "",
                sparkline(values) if any(values) else "",
            )
        )
    return found


def _chart(rows: Sequence[Row], form: RadarForm) -> ScatterChart | None:
    kept = {"tenant": form.cleaned_data["tenant"], "days": form.cleaned_data["days"]}
    points = [
        Point(
            x=row.tenants,
            ratio=row.lift.known,
            weight=row.stopped_share or 0.0,
            name=row.name,
            title=f"{row.name}: lift {_told(row.lift)}, tenants {row.tenants:,}, {row.state.label}",
            href=page_of(row.source, **kept),
            square=row.kind == "tool",
            strong=row.state in (State.SUGGESTED, State.BLOCKED),
        )
        for row in rows
        if row.lift is not None
    ]
    return (
        scatter_chart("Lift by number of tenants", "tenants with a stopped run", points) if points else None
    )


def _told(lift: Lift) -> str:
    return f"{'≥ ' if lift.at_least else ''}{lift.known:,.1f}×"


def _cells(rows: Sequence[Row]) -> Iterator[list[Cell]]:
    for row in rows:
        lift = row.lift
        yield [
            *(row.kind, row.name, row.look.readable, row.state.label),
            *(
                (round(lift.ratio, 2), round(lift.low, 2), round(lift.high, 2))
                if lift
                else (None, None, None)
            ),
            *(
                row.mine.stopped,
                _rounded(row.stopped_share),
                row.mine.completed,
                _rounded(row.completed_share),
            ),
            *(row.tenants, row.mine.calls, row.mine.cost, f"{row.first_seen:%Y-%m-%d}"),
        ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 5)
