"""The audit trail: who changed what, and when; as a page and as a file."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from guardops.export import Cell, file_name, file_response
from guardops.tenants.forms.trail import TrailForm
from guardops.tenants.trail.entries import Entry
from guardops.tenants.trail.reading import Asked, read_all, read_page
from guardops.tenants.trail.scope import TrailScope, trail_scope

from .requests import AuthenticatedRequest

COLUMNS = ["at", "actor", "action", "kind", "thing", "changes", "request_id"]


@never_cache
@require_safe
def audit(request: AuthenticatedRequest) -> HttpResponse:
    scope = trail_scope(request.user)
    form = TrailForm(request.GET, tenants=scope.tenants)
    page = read_page(scope, form.asked(timezone.now())) if form.is_valid() else None
    return render(request, "tenants/audit.html", {"form": form, "page": page})


@never_cache
@require_GET
def audit_file(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    scope = trail_scope(request.user)
    asked = TrailForm(request.GET, tenants=scope.tenants)
    if not asked.is_valid():
        return render(request, "tenants/audit.html", {"form": asked}, status=400)
    now = timezone.now()
    return file_response(form, file_name("audit", now), COLUMNS, _rows(scope, asked.asked(now)))


def _rows(scope: TrailScope, asked: Asked) -> Iterator[list[Cell]]:
    for entry in read_all(scope, asked):
        yield [
            entry.at,
            entry.actor,
            entry.label,
            entry.kind.slug,
            entry.name,
            _told(entry),
            entry.request_id,
        ]


def _told(entry: Entry) -> str:
    return "; ".join(f"{change.field}: {change.old} → {change.new}" for change in entry.changes)
