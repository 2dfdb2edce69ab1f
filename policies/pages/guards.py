"""The guards: which processes pull policies, what they have in force, and who is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.tenants import access
from guardops.tenants.models import Tenant
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.choices import GuardState
from policies.fleet import read_applied
from policies.models import GuardInstance

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.querysets import TenantQuerySet
    from policies.querysets import GuardInstanceQuerySet

GUARDS_PER_PAGE = 100


class GuardFilterForm(forms.Form):
    """Which guards: of a tenant that its reader sees, in one state."""

    tenant = forms.ChoiceField(required=False)
    state = forms.ChoiceField(choices=[("", "All"), *GuardState.choices], required=False)

    def __init__(self, data: object, tenants: TenantQuerySet) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        slugs = list(tenants.values_list("slug", flat=True))
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", f"All {len(slugs)}"), *((slug, slug) for slug in slugs)]

    def narrow(self, tenants: TenantQuerySet, now: datetime) -> GuardInstanceQuerySet:
        asked = self.cleaned_data
        if asked["tenant"]:
            tenants = tenants.filter(slug=asked["tenant"])
        guards = GuardInstance.objects.for_tenants(tenants).with_state(now)
        narrowed: GuardInstanceQuerySet = (
            guards.filter(state=asked["state"]) if asked["state"] else guards.exclude(state=GuardState.GONE)
        )
        return narrowed


@require_safe
def guards(request: AuthenticatedRequest) -> HttpResponse:
    tenants, now = access.visible_tenants(request.user), timezone.now()
    form = GuardFilterForm(request.GET, tenants)
    found = form.narrow(tenants, now) if form.is_valid() else GuardInstance.objects.none()
    listed = found.select_related("tenant").order_by("-last_seen", "instance")
    context = {
        "form": form,
        "page": Paginator(listed, GUARDS_PER_PAGE).get_page(request.GET.get("page")),
        "applied": read_applied(tenants, now),
        "administers": access.administers_something(request.user),
        "as_of": now,
    }
    return render(request, "policies/guards.html", context, status=200 if form.is_valid() else 400)


@require_safe
def applied(request: AuthenticatedRequest) -> HttpResponse:
    """Say how many guards of a tenant, or of an organisation's tenants, hold the newest bundle."""
    now = timezone.now()
    tenants: TenantQuerySet = Tenant.objects.all()
    if slug := request.GET.get("tenant", ""):
        tenants = tenants.filter(pk=access.tenant_or_404(request.user, slug).pk)
    else:
        found = access.organisation_or_404(request.user, request.GET.get("organisation", ""))
        tenants = access.visible_tenants(request.user).filter(organisation=found)
    revision = tenants.first().bundle_revision if slug else None  # type: ignore[union-attr]
    context = {"applied": read_applied(tenants, now), "revision": revision, "query": request.GET.urlencode()}
    return render(request, "policies/_applied.html", context)
