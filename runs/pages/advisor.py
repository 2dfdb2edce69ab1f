"""The advisor beside the policy editor: steps and seconds of completed tasks, and what cap fits them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import OperationalError
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from psycopg.errors import QueryCanceled

from guardops.htmx import wants_fragment
from guardops.viewer import current_zone
from policies.limits import LIMITS
from policies.pages.places import place_query
from runs.advisor.advice import CAP_OF_UNIT, Advice, near_from, spread_of
from runs.advisor.measures import Measures, read_measures
from runs.reports.metrics import AsOf, Scope, Window
from runs.reports.pages import PageRequest
from runs.reports.panels.steps import UNITS
from runs.reports.windows import ceil_quarter, parse_window
from runs.retention.horizon import gone_before

from .draft_caps import DraftCaps, read_draft

if TYPE_CHECKING:
    from collections import Counter

RANGE = "30d"


@dataclass(frozen=True, slots=True)
class Row:
    """An advice with what the page says beside it; links are empty where no list holds just these rows."""

    advice: Advice
    label: str
    unit: str
    tasks_href: str
    near_href: str
    take_href: str


@require_safe
@vary_on_headers("HX-Request")
def advisor(request: PageRequest) -> HttpResponse:
    now, fragment = timezone.now(), wants_fragment(request)
    draft = read_draft(request.user, request.GET, now)
    state, rows, window, as_of = "nobody", [], _window(draft, now), AsOf(now, exact=True, tail_rows=0)
    if draft.tenant_ids:
        try:
            measures = _read(draft, window, now)
        except OperationalError as error:
            if not isinstance(error.__cause__, QueryCanceled):
                raise
            state = "slow"
        else:
            rows, as_of = rows_of(draft, measures, window), measures.as_of
            state = "rows" if rows else "none"
    context = {
        "asked": draft,
        "place": draft.place,
        "query": place_query(draft.place),
        "state": state,
        "rows": rows,
        "window": window,
        "as_of": as_of.at,
        "behind": 0 if as_of.exact else as_of.tail_rows,
    }
    # htmx shows no page that is an error: the words for it are the fragment.
    status = 503 if state == "slow" and not fragment else 200
    template = "runs/_advisor.html" if fragment else "runs/advisor.html"
    return render(request, template, context, status=status)


def _window(draft: DraftCaps, now: datetime) -> Window:
    """Return the last 30 days, or as far back as runs are kept."""
    window = parse_window({"range": RANGE}, now, current_zone())
    gone = gone_before(draft.tenant_ids)
    if gone is None or gone <= window.start:
        return window
    return replace(window, start=min(ceil_quarter(gone), window.end - timedelta(minutes=15)), key="custom")


def _read(draft: DraftCaps, window: Window, now: datetime) -> Measures:
    return read_measures(
        Scope(draft.tenant_ids, draft.place.job_type or None),
        window,
        now,
        today=draft.limit_in_force("max_seconds"),
        draft=draft.limit_typed("max_seconds"),
    )


def rows_of(draft: DraftCaps, measures: Measures, window: Window) -> list[Row]:
    """Return the advice on each unit of steps, most tasks first, and on seconds."""
    units = sorted(measures.steps.items(), key=lambda item: (-item[1].total(), item[0]))
    rows = [_of_steps(draft, unit, tasks, window) for unit, tasks in units]
    if measures.seconds is not None:
        today, typed = draft.limit_in_force("max_seconds"), draft.limit_typed("max_seconds")
        advice = Advice("max_seconds", measures.seconds, today, typed)
        rows.append(_row(draft, advice, *_named("max_seconds"), _list(draft, window)))
    return rows


def _of_steps(draft: DraftCaps, unit: str, tasks: Counter[int], window: Window) -> Row:
    name = CAP_OF_UNIT.get(unit, "")
    today = draft.limit_in_force(name) if name else None
    typed = draft.limit_typed(name) if name else None
    # A completed task's last turn was its answer, which no cap on turns cuts.
    advice = Advice(name, spread_of(tasks, today, typed, last_counts=name != "max_turns"), today, typed)
    near = "" if today is None else _list(draft, window, step_unit=unit, steps_min=near_from(today))
    label, words = _named(name) if name else ("Steps", UNITS[unit])
    return _row(draft, advice, label, words, _list(draft, window, step_unit=unit), near)


def _named(limit: str) -> tuple[str, str]:
    return LIMITS[limit].label, LIMITS[limit].unit


def _row(draft: DraftCaps, advice: Advice, label: str, unit: str, tasks: str, near: str = "") -> Row:
    suggestion = advice.suggestion
    take = "" if suggestion is None else draft.edit_with(**{advice.limit: suggestion})
    return Row(advice, label, unit, tasks, near, take)


def _list(draft: DraftCaps, window: Window, **filters: str | int) -> str:
    if draft.links is None:
        return ""
    return draft.links.runs(window.start, window.end, completes="1", answered="1", **filters)
