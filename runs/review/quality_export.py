"""Guard quality as a file: precision by detector and job type, the rows of its page without their end."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.export import file_response, range_name
from guardops.tenants.access import visible
from guardops.viewer import current_zone
from runs.reports.asked import NotAsked
from runs.reports.pages import PageRequest
from runs.reports.windows import WindowError

from .quality import read_quality
from .quality_page import read_asked, rows_of

COLUMNS = [
    *("detector", "job_type", "mode", "stops", "reviewed", "false_stops"),
    *("precision", "precision_at_least", "precision_at_most"),
]


@require_GET
def quality_export(request: PageRequest, form: str = "csv") -> HttpResponseBase:
    seen = visible(request.user)
    if not seen.tenants:
        return render(request, "runs/no_tenant.html")
    try:
        asked = read_asked(request.GET, seen, zone=current_zone())
    except (NotAsked, WindowError) as problem:
        return render(request, "400.html", {"problem": str(problem)}, status=400)
    found = read_quality(asked.scope, asked.window, now=timezone.now())
    rows = []
    for row in rows_of(found, asked):
        said = row.cell.verdicts
        low, high = said.interval if said.reviewed else (None, None)
        mode = "shadow" if row.kind.watched else "enforce"
        stops = (row.cell.stops, said.reviewed, said.false)
        rows.append([row.kind.detector, row.kind.job_type, mode, *stops, said.precision, low, high])
    return file_response(form, range_name("quality", asked.window.start, asked.window.end), COLUMNS, rows)
