"""The page that marks a stop as false or right: a plain form, so it works by keyboard and without scripts."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from guardops.tenants.access import require_role, visible
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.choices import StopVerdict
from runs.models import Run
from runs.pages.detail import find_ended
from runs.pages.story import read_detail
from runs.reasons_text import headline
from runs.reports.pages import PageRequest

from .forms import StopReviewForm
from .stops import NotStopped, ReviewChanged, current_review, judged_reason, review_stop, withdraw_review


@require_http_methods(["GET", "HEAD", "POST"])
def review(request: PageRequest, run_id: UUID) -> HttpResponse:
    run, tenant = find_ended(visible(request.user), run_id, request.GET.get("tenant", ""))
    require_role(request.user, tenant, Role.REVIEWER)
    current = current_review(run)
    if not judged_reason(run):
        messages.warning(request, "No guard stopped this run, so there is no stop to review.")
        return _back(run, tenant)
    form = StopReviewForm(
        request.POST if request.method == "POST" else None, reasons=reasons_of(run), current=current
    )
    context = {"run": run, "tenant": tenant, "title": headline(run), "current": current}
    if not form.is_valid():
        return render(request, "runs/review.html", {**context, "form": form})
    try:
        messages.success(request, save(run, form, request))
    except ReviewChanged as told:
        context |= {"form": form.as_seen(told.current), "current": told.current, "change": told.change}
        return render(request, "runs/review.html", context, status=409)
    except NotStopped as error:
        messages.warning(request, error.message)
    return _back(run, tenant)


def reasons_of(run: Run) -> list[str]:
    """Return the reasons that a reviewer may judge: what ended the run, what tripped first, interventions."""
    detail, _ = read_detail(run.detail)
    named = [
        judged_reason(run),
        run.would_halt,
        detail.first_reason,
        *(i.reason for i in detail.interventions),
    ]
    return list(dict.fromkeys(reason for reason in named if reason))


def save(run: Run, form: StopReviewForm, request: PageRequest) -> str:
    """Carry out what the form asks and return what to say; raises as the writers do."""
    said, actor = form.cleaned_data, request.user
    if "withdraw" in request.POST and said["seen"]:
        withdraw_review(run, actor=actor, seen=said["seen"])
        return "The review is withdrawn."
    verdict = StopVerdict(said["verdict"])
    review_stop(
        run,
        verdict=verdict,
        detector=said["detector"],
        note=said["note"],
        actor=actor,
        now=timezone.now(),
        seen=said["seen"],
    )
    return f"Marked as a {verdict.label.lower()}."


def _back(run: Run, tenant: Tenant) -> HttpResponse:
    address = reverse("runs:detail", args=[run.run_id])
    return redirect(f"{address}?{urlencode({'tenant': tenant.slug})}")
