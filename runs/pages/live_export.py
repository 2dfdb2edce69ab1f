"""The live runs as a file: exactly those that the list's filters match, the nearest to a limit first."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.addresses import first_page, tidy
from guardops.export import file_name, file_response
from guardops.tenants.access import visible
from runs.reports.asked import tenant_ids_of
from runs.reports.pages import PageRequest

from .live import LiveFilterForm

COLUMNS = [
    *("tenant", "run_id", "external_id", "root_task_id", "attempt", "job_type", "agent", "release"),
    *("started_at", "last_at", "steps", "turns", "cost", "pressure_percent", "nearest_limit"),
]
_FIELDS = [*COLUMNS[1:-2], "pressure", "pressure_limit"]


@require_GET
def live_export(request: PageRequest, form: str = "csv") -> HttpResponseBase:
    params, now, seen = first_page(tidy(request.GET)), timezone.now(), visible(request.user)
    tenant_ids = tenant_ids_of(params.get("tenant", ""), seen)
    asked = LiveFilterForm(params)
    if not asked.is_valid():
        context = {"form": asked, "query": params.urlencode()}
        return render(request, "runs/export_invalid.html", context, status=400)
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    found = asked.narrow(tenant_ids, now).order_by("-pressure", "-run_id", "-tenant_id")
    listed = found.values_list("tenant_id", *_FIELDS).iterator(chunk_size=1_000)
    rows = ([slugs.get(row[0], ""), *row[1:]] for row in listed)
    return file_response(form, file_name("live-runs", now), COLUMNS, rows)
