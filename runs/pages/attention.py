"""The strip on top of the overview, which renews itself: what waits for somebody."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.htmx import wants_fragment
from guardops.tenants.access import visible
from runs.reports.attention import read_attention
from runs.reports.pages import PageRequest


@require_safe
def attention(request: PageRequest) -> HttpResponse:
    now = timezone.now()
    found = read_attention(visible(request.user), now)
    page = "runs/_attention.html" if wants_fragment(request) else "runs/attention.html"
    return render(request, page, {"attention": found, "as_of": now})
