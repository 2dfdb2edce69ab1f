"""Silences: what nobody is told of now, what was, and a form that makes more."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.alerts.access import places_to_silence, require_place, silence_to_end
from runs.alerts.forms import SilenceForm
from runs.alerts.silences import end_silence
from runs.models import Silence

PER_PAGE = 50


@require_safe
def silences(request: AuthenticatedRequest) -> HttpResponse:
    now, seen = timezone.now(), access.visible(request.user)
    found = Silence.objects.seen_by(seen).select_related("tenant", "created_by", "ended_by")
    over = found.filter(Q(ended_at__isnull=False) | Q(until__lte=now)).order_by("-created_at", "-id")
    context = {
        "standing": found.in_force(now).order_by("until", "id"),
        "page": Paginator(over, PER_PAGE).get_page(request.GET.get("page")),
        "acts_in": set(access.tenants_with_role(request.user, Role.REVIEWER).values_list("pk", flat=True)),
        "operator": seen.is_operator,
        "as_of": now,
    }
    return render(request, "runs/alerts/silences.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def silence_new(request: AuthenticatedRequest) -> HttpResponse:
    places = places_to_silence(request.user)
    given = request.POST if request.method == "POST" else None
    if given is not None and "\0" not in given.get("tenant", ""):
        require_place(request.user, given.get("tenant", ""), places)
    form = SilenceForm(given, places=places, initial={"lasting": "4h"} | request.GET.dict())
    if not form.is_valid() or form.save(request.user, timezone.now()) is None:
        return render(request, "runs/alerts/silence_new.html", {"form": form})
    messages.success(
        request, "Nobody is told of it from now on. What is still there at the end is told then."
    )
    return redirect("runs:silences")


@require_http_methods(["GET", "HEAD", "POST"])
def silence_end(request: AuthenticatedRequest, silence_id: int) -> HttpResponse:
    found = silence_to_end(request.user, silence_id)
    if request.method != "POST":
        return render(request, "runs/alerts/silence_end.html", {"silence": found})
    if end_silence(found, actor=request.user, now=timezone.now()):
        messages.success(request, "The silence has ended. What it covered and is still there is told now.")
    else:
        messages.warning(request, "It had ended already.")
    return redirect("runs:silences")
