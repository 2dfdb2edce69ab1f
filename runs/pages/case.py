"""A run's guard case as a file."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from guardops.tenants.access import visible
from runs.pages.detail import find_ended
from runs.pages.story import read_detail
from runs.reports.pages import PageRequest
from runs.review.case import case_line, case_of


@require_safe
def run_case(request: PageRequest, run_id: UUID) -> HttpResponse:
    run, tenant = find_ended(visible(request.user), run_id, request.GET.get("tenant", ""))
    detail, _ = read_detail(run.detail)
    line = case_line(case_of(run, detail, source=f"{tenant.slug}/{run.run_id}"))
    named = content_disposition_header(True, f"case-{tenant.slug}-{run.run_id}.json")
    headers = {"Content-Disposition": named or "attachment", "Cache-Control": "private, no-store"}
    return HttpResponse(line, content_type="application/json", headers=headers)
