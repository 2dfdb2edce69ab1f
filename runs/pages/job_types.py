"""Job types that ran of late and have no policy of their own, for the list of policies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.htmx import wants_fragment
from guardops.tenants.access import administered_tenants
from guardops.tenants.models import Tenant
from policies.models import JobPolicy
from policies.pages.places import place_query
from policies.publish.policies import Place
from runs.choices import Cut
from runs.models import Rollup
from runs.reports.pages import PageRequest

DAYS = 7
MOST = 50


@dataclass(frozen=True, slots=True)
class Unruled:
    """A job type that ran in a tenant, and the query of the editor that gives it a policy."""

    job_type: str
    tenant: Tenant
    query: str


@require_safe
@vary_on_headers("HX-Request")
def job_types(request: PageRequest) -> HttpResponse:
    tenants = list(administered_tenants(request.user).select_related("organisation"))
    found = unruled(tenants, timezone.now() - timedelta(days=DAYS))
    context = {"found": found[:MOST], "more": len(found) > MOST, "days": DAYS}
    page = "runs/_job_types.html" if wants_fragment(request) else "runs/job_types.html"
    return render(request, page, context)


def unruled(tenants: Collection[Tenant], since: datetime) -> list[Unruled]:
    """Return the job types without a policy of their own that ran in these tenants, in two queries.

    One of the organisation's counts as well. What ran in the last seconds may not be counted yet.
    """
    by_id = {tenant.pk: tenant for tenant in tenants}
    ran = Rollup.objects.filter(tenant_id__in=by_id, cut=Cut.JOB, at__gte=since).exclude(job_type="")
    pairs = ran.values_list("job_type", "tenant_id").distinct().order_by("job_type", "tenant_id")
    policies = JobPolicy.objects.for_tenants(Tenant.objects.filter(pk__in=by_id))
    ruled = set(policies.values_list("organisation", "tenant", "job_type"))
    return [
        Unruled(job_type, tenant, place_query(Place(tenant.organisation, tenant, job_type)))
        for job_type, tenant_id in pairs
        for tenant in [by_id[tenant_id]]
        for level in [tenant.organisation_id]
        if not ruled & {(level, None, job_type), (level, tenant_id, job_type)}
    ]
