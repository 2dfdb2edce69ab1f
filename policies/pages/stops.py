"""Stop orders: what is stopped now, what was, and a form that stops more."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.models import User
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.forms.stops import StopForm
from policies.models import Stop
from policies.publish.stops import lift_stop

STOPS_PER_PAGE = 50


@require_safe
def stops(request: AuthenticatedRequest) -> HttpResponse:
    now, tenants = timezone.now(), access.visible_tenants(request.user)
    found = Stop.objects.for_tenants(tenants).select_related("tenant", "created_by", "lifted_by")
    over = found.filter(~Q(lifted_at=None) | Q(expires_at__lte=now)).order_by("-created_at", "-id")
    context = {
        "standing": found.standing(now),
        "page": Paginator(over, STOPS_PER_PAGE).get_page(request.GET.get("page")),
        "administered": set(access.administered_tenants(request.user).values_list("pk", flat=True)),
        "as_of": now,
    }
    return render(request, "policies/stops.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def issue(request: AuthenticatedRequest) -> HttpResponse:
    tenants, now = access.require_administered_tenants(request.user), timezone.now()
    form = StopForm(request.POST or None, tenants=tenants, initial=request.GET.dict())
    issued = None
    # The first answer says what the order would hit; the second, with ``sure``, gives it.
    if form.is_valid() and request.POST.get("sure"):
        issued = form.save(request.user, now)
    if issued is None:
        asks = form.is_bound and form.is_valid()
        return render(request, "policies/stop_new.html", {"form": form, "asks": asks})
    if issued.change is None:
        messages.warning(request, f"{issued.stop} is stopped already.")
        return redirect("policies:stops")
    return redirect("policies:change", issued.change.pk)


@require_http_methods(["GET", "HEAD", "POST"])
def lift(request: AuthenticatedRequest, stop_id: UUID) -> HttpResponse:
    stop = stop_to_lift(request.user, stop_id)
    if request.method != "POST":
        return render(request, "policies/stop_lift.html", {"stop": stop})
    change = lift_stop(stop, actor=request.user, now=timezone.now())
    if change is None:
        messages.warning(request, "Somebody has lifted it already.")
        return redirect("policies:stops")
    return redirect("policies:change", change.pk)


def stop_to_lift(user: User, stop_id: UUID) -> Stop:
    """Return an order of a tenant that ``user`` administers; raises Http404 and PermissionDenied."""
    found = Stop.objects.for_tenants(access.visible_tenants(user)).filter(pk=stop_id)
    stop = found.select_related("tenant", "created_by").first()
    if stop is None:
        raise Http404("No such stop.")
    access.require_role(user, stop.tenant, Role.ADMIN)
    return stop
