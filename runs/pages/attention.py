"""The strip on top of the overview: what waits for somebody. A fragment that renews itself."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.htmx import wants_fragment
from guardops.tenants.access import visible
from runs.reports.attention import read_attention
from runs.reports.pages import PageRequest


@require_safe
def attention(request: PageRequest) -> HttpResponse:
    if not wants_fragment(request):
        return redirect("runs:overview")
    now = timezone.now()
    found = read_attention(visible(request.user), now)
    return render(request, "runs/_attention.html", {"attention": found, "as_of": now})
