"""How many live runs an order would end: a sentence that the form of a stop asks for by its address."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from guardops.htmx import wants_fragment
from guardops.tenants.access import tenant_or_404
from policies.choices import StopScope
from runs.filters import NameField
from runs.models import LiveRun
from runs.querysets import LiveRunQuerySet, as_id
from runs.reports.pages import PageRequest


class LiveCountForm(forms.Form):
    """What would be stopped."""

    scope = forms.ChoiceField(choices=StopScope.choices, required=False)
    name = NameField(max_length=128, required=False)

    def narrow(self, runs: LiveRunQuerySet) -> LiveRunQuerySet:
        """Return those of the live runs that the order names."""
        name = self.cleaned_data["name"]
        match self.cleaned_data["scope"] or StopScope.TENANT:
            case StopScope.TENANT:
                return runs
            case StopScope.JOB_TYPE:
                return runs.filter(job_type=name)
            case StopScope.TASK:
                return runs.of_task(name)
        run_id = as_id(name)
        return runs.filter(run_id=run_id) if run_id else runs.none()


@require_safe
def live_count(request: PageRequest) -> HttpResponse:
    tenant = tenant_or_404(request.user, request.GET.get("tenant", ""))
    form = LiveCountForm(request.GET)
    live = LiveRun.objects.for_tenants([tenant.pk])
    runs = form.narrow(live).count() if form.is_valid() else None
    context = {"runs": runs, "tenant": tenant, "form": form}
    page = "runs/_live_count.html" if wants_fragment(request) else "runs/live_count.html"
    return render(request, page, context, status=200 if form.is_valid() else 400)
