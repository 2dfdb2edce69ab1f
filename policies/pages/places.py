"""Which policy a page is about: read from the address or the form, and only where its reader may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404

from guardops.shown import from_visible, visible_text
from guardops.tenants import access
from guardops.tenants.choices import Role
from policies.models.policy import MAX_JOB_TYPE
from policies.publish.policies import Place

if TYPE_CHECKING:
    from django.http import HttpRequest, QueryDict

    from guardops.tenants.models import User


def asked_params(request: HttpRequest) -> QueryDict:
    return request.POST if request.method == "POST" else request.GET


def place_or_404(user: User, params: QueryDict) -> Place:
    """Return the place that ``organisation`` or ``tenant`` and ``job`` name ('' is the defaults).

    ``place`` may name it too, as a list of both kinds does: ``tenant:<slug>`` or ``organisation:<slug>``.
    Raises Http404 for what ``user`` may not see, and for what is no name of a job type.
    """
    job_type = from_visible(params.get("job", "")).strip()
    if len(job_type) > MAX_JOB_TYPE or "\0" in job_type:
        raise Http404("No such job type.")
    kind, _, slug = params.get("place", "").partition(":")
    organisation_slug = slug if kind == "organisation" else params.get("organisation", "")
    if slug := slug if kind == "tenant" else params.get("tenant", ""):
        tenant = access.tenant_or_404(user, slug)
        if organisation_slug not in ("", tenant.organisation.slug):
            raise Http404("No such tenant.")
        return Place(tenant.organisation, tenant, job_type)
    return Place(access.organisation_or_404(user, organisation_slug), None, job_type)


def may_edit(user: User, place: Place) -> bool:
    return access.administers(user, place.organisation.pk, place.tenant.pk if place.tenant else None)


def place_to_edit(user: User, params: QueryDict) -> Place:
    """Return the place where ``user`` is admin; raises Http404 as above, PermissionDenied below admin."""
    place = place_or_404(user, params)
    if place.tenant is not None:
        access.require_role(user, place.tenant, Role.ADMIN)
    elif not may_edit(user, place):
        raise PermissionDenied(f"This needs the role admin in all of {place.organisation.name}.")
    return place


def place_query(place: Place, **more: object) -> str:
    """Return the query of a page about that place."""
    named = {"tenant": place.tenant.slug} if place.tenant else {"organisation": place.organisation.slug}
    job = {"job": place.job_type} if place.job_type else {}
    return urlencode({**named, **job, **more})


def title_of(place: Place) -> str:
    """Return what the policy is called in a title, as text without markup."""
    return visible_text(place.job_type) if place.job_type else "All job types"
