"""The overview. One address, two renderings: the page, and for htmx its panels alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRefresh, reswap

from guardops.htmx import HtmxRequest, wants_fragment
from guardops.tenants.access import visible
from guardops.viewer import current_zone

from .asked import Asked, NotAsked, read_asked
from .attention import read_attention
from .overview import read_overview
from .panels.filters import filters_of, window_name
from .panels.first_steps import first_steps
from .panels.halts import halts_panel
from .panels.live import live_panel
from .panels.releases import releases_panel
from .panels.sources import sources_panel
from .panels.steps import steps_panel
from .panels.tiles import tiles_panel
from .windows import WindowError

if TYPE_CHECKING:
    from guardops.tenants.models import User

    from .metrics import Overview


NO_RUNS = "none"


class PageRequest(HtmxRequest):
    """What LoginRequiredMiddleware lets through."""

    user: User


@require_safe
@vary_on_headers("HX-Request")
def overview(request: PageRequest) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    if not seen.tenants:
        return render(request, "runs/no_tenant.html")
    try:
        asked = read_asked(request.GET, seen, now=now, zone=current_zone())
    except (NotAsked, WindowError) as problem:
        return render(request, "400.html", {"problem": str(problem)}, status=400)
    found = read_overview(asked.scope, asked.window, now=now, steps_job=asked.steps_job)
    sources = sources_panel(seen, asked.tenant, now) if found.tiles.now.runs else None
    releases = releases_panel(seen, asked.tenant, now) if found.tiles.now.runs else None
    fragment, shown = wants_fragment(request), request.GET.get("seen")
    version = _version(found, (sources, releases))
    context = {"asked": asked, "as_of": found.as_of.at, "poll": asked.links.page(seen=version)}
    context["behind"] = 0 if found.as_of.exact else found.as_of.tail_rows
    if fragment and shown == version:  # nothing changed since the last poll: only the clock moves
        return reswap(render(request, "_as_of.html", context), "none")
    if fragment and found.any_runs and (shown or "").startswith(NO_RUNS):  # the first run ended
        return HttpResponseClientRefresh()
    if not fragment:
        context["attention"] = read_attention(seen, now)
    context["filters"] = filters_of(asked, seen, found)
    context["live"] = live_panel(found.live, asked.links.scope)
    if found.any_runs:
        context |= {**panels(found, asked, now), "sources": sources, "releases": releases}
    else:
        gate_url = settings.GATE_URL
        context["first"] = first_steps(request.user, seen, asked.tenant, gate_url=gate_url, now=now)
    return render(request, "runs/_overview.html" if fragment else "runs/overview.html", context)


def panels(found: Overview, asked: Asked, now: datetime) -> dict[str, Any]:
    """Return what the panels show; without runs in the window only that there are none."""
    links, window, comparable = asked.links, found.window, found.tiles.before.runs > 0
    shared = {"links": links, "window_name": window_name(window), "narrowed": asked.narrowed}
    if not found.tiles.now.runs:
        return {**shared, "nothing": True}
    return {
        **shared,
        "tiles": tiles_panel(found.tiles, window, links),
        "halts": halts_panel(found.halts, window, links, now, comparable=comparable, table=asked.halts_table),
        "steps": steps_panel(found.steps, window, links, table=asked.steps_table),
        "halts_views": links.page(halts=None),
        "halts_table": links.page(halts="table"),
    }


def _version(found: Overview, beside: object) -> str:
    """Name what is shown; before the first run has ended with ``NO_RUNS`` in front.

    A poll that would show the same costs neither drawing nor swapping it. The minute is in the name because
    the panels say how much of the last bar has passed.
    """
    if not found.any_runs:
        live = found.live
        return f"{NO_RUNS}-{live.runs}-{live.pressed}-{live.silent}" if live.runs else NO_RUNS
    as_of = replace(found.as_of, at=found.as_of.at.replace(second=0, microsecond=0))
    return blake2b(repr((replace(found, as_of=as_of), beside)).encode(), digest_size=9).hexdigest()
