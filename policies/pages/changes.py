"""How far an edit has come: through the tenants that it concerns, and to their guards."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.htmx import HtmxRequest, wants_fragment
from guardops.tenants.access import administered_organisations, visible_tenants
from guardops.tenants.models import Tenant, User
from guardops.tenants.querysets import TenantQuerySet
from policies.fleet import read_applied
from policies.models import Change


class ChangeRequest(HtmxRequest):
    """What LoginRequiredMiddleware lets through."""

    user: User


@require_safe
def change(request: ChangeRequest, change_id: UUID) -> HttpResponse:
    found, now = change_or_404(request.user, change_id), timezone.now()
    context = {
        "change": found,
        "failure": _failure_for(request.user, found),
        "applied": read_applied(concerned(found), now),
        "as_of": now,
    }
    page = "policies/_change.html" if wants_fragment(request) else "policies/change.html"
    return render(request, page, context)


def change_or_404(user: User, change_id: UUID) -> Change:
    """Return a change of a tenant that ``user`` sees, or of a whole organisation where they have a role."""
    seen = visible_tenants(user)
    mine = Q(tenant__in=seen) | Q(tenant=None, organisation__in=seen.values("organisation"))
    everybody = Q(tenant=None, organisation=None) if user.is_operator else Q(pk=None)
    wide = Q(tenant=None, organisation__in=administered_organisations(user))
    found = Change.objects.filter(mine | wide | everybody, pk=change_id).select_related("actor").first()
    if found is None:
        raise Http404("No such change.")
    return found


def _failure_for(user: User, found: Change) -> str:
    """Return why a tenant could not take it, to who sees that tenant; the text begins with its slug."""
    slug = found.failure.partition(":")[0]
    return found.failure if slug and visible_tenants(user).filter(slug=slug).exists() else ""


def concerned(found: Change) -> TenantQuerySet:
    """Return the tenants whose bundles the change is carried to."""
    tenants: TenantQuerySet = Tenant.objects.all()
    if found.tenant_id:
        return tenants.filter(pk=found.tenant_id)
    return tenants.filter(organisation=found.organisation_id) if found.organisation_id else tenants
