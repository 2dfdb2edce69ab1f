"""How GuardOps itself is: a page for people, and /metrics for machines."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.htmx import wants_fragment
from guardops.tenants.access import require_storage_reader
from runs.reports.pages import PageRequest

from .metrics import CONTENT_TYPE, may_scrape
from .metrics import render as render_metrics
from .signs import read_versions, signs_of
from .vitals import read_vitals


@require_safe
@vary_on_headers("HX-Request")
def health(request: PageRequest) -> HttpResponse:
    require_storage_reader(request.user)
    now = timezone.now()
    vitals = read_vitals(now)
    signs = signs_of(vitals)
    context = {
        "as_of": now,
        "vitals": vitals,
        "signs": signs,
        "wrong": [sign for sign in signs if sign.state in ("danger", "warn")],
        "versions": read_versions(),
    }
    return render(request, "runs/_health.html" if wants_fragment(request) else "runs/health.html", context)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    peer = request.META.get("REMOTE_ADDR", "")
    if not may_scrape(request.headers.get("Authorization", ""), peer, forwarded=forwarded):
        raise Http404("There is nothing here.")
    page = render_metrics(timezone.now())
    return HttpResponse(page, content_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})
