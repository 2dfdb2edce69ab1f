"""The list of incidents: what is not over first, narrowed by its address."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.addresses import first_page, tidy
from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.alerts.access import places_seen
from runs.alerts.forms import IncidentFilterForm
from runs.alerts.standing import is_judged
from runs.models import Incident

PER_PAGE = 50


@require_safe
def incidents(request: AuthenticatedRequest) -> HttpResponse:
    params, now, seen = tidy(request.GET), timezone.now(), access.visible(request.user)
    form = IncidentFilterForm(params, places=places_seen(seen))
    context = {
        "form": form,
        "as_of": now,
        "judged": is_judged(now),
        "first": f"?{first_page(params).urlencode()}",
        "operator": seen.is_operator,
        "acts_in": set(access.tenants_with_role(request.user, Role.REVIEWER).values_list("pk", flat=True)),
    }
    if form.is_valid():
        mine = Incident.objects.seen_by(seen)
        found = form.narrow(mine, request.user).select_related("tenant", "assigned_to", "acknowledged_by")
        page = Paginator(found.order_by("-opened_at", "-id").defer("evidence", "query"), PER_PAGE)
        context |= {
            "page": page.get_page(form.cleaned_data["page"] or 1),
            "any": found.exists() or mine.exists(),
        }
    return render(request, "runs/alerts/incidents.html", context, status=200 if form.is_valid() else 400)
