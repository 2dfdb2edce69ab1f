"""The list of policies: job types in tenants and organisations, with mode and caps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models import F
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from guardops.addresses import tidy
from guardops.tenants import access
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.compose import levels_in, read_policies
from policies.differences import Inheritance, Value, paths_of, said
from policies.forms.filters import PolicyFilterForm
from policies.limits import LIMITS
from policies.models import JobPolicy, PolicyVersion
from policies.publish.policies import Place

from .places import place_query

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.models import User

POLICIES_PER_PAGE = 100
CAPS = ("max_steps", "max_turns", "max_seconds", "max_cost", "domain_cap")


@dataclass(frozen=True, slots=True)
class Row:
    """A policy in the list: its mode and main caps as they hold, what it says itself without a source."""

    policy: JobPolicy
    version: PolicyVersion
    mode: str
    """As documents write it: off, shadow or enforce."""
    mode_value: Value
    caps: Sequence[tuple[str, Value]]
    sets: int
    """How many fields it says itself."""
    query: str
    may_edit: bool


@dataclass(frozen=True, slots=True)
class Administered:
    """Where somebody is admin, by ids."""

    organisations: frozenset[int]
    tenants: frozenset[int]

    def covers(self, policy: JobPolicy) -> bool:
        if policy.tenant_id is None:
            return policy.organisation_id in self.organisations
        return policy.tenant_id in self.tenants


@never_cache
@require_safe
def policies(request: AuthenticatedRequest) -> HttpResponse:
    now, tenants = timezone.now(), access.visible(request.user).tenants
    form = PolicyFilterForm(tidy(request.GET), tenants=tenants)
    seen = JobPolicy.objects.for_tenants(access.visible_tenants(request.user))
    listed = form.narrow(seen, tenants) if form.is_valid() else seen.none()
    page = Paginator(in_order(listed), POLICIES_PER_PAGE).get_page(form.cleaned_data.get("page"))
    context = {
        "form": form,
        "page": page,
        "rows": rows_of(page.object_list, administered(request.user), now),
        "caps": [LIMITS[name] for name in CAPS],
        "places": places_to_edit(request.user),
        "job_types": list(
            seen.exclude(job_type="").order_by("job_type").values_list("job_type", flat=True).distinct()[:500]
        ),
        "state": _state(form, bool(tenants), any_listed=bool(page.object_list), any_seen=seen.exists),
    }
    return render(request, "policies/list.html", context)


def _state(form: PolicyFilterForm, member: bool, *, any_listed: bool, any_seen: Any) -> str:
    if not member:
        return "nobody"
    if not form.is_valid():
        return "invalid"
    if any_listed:
        return "rows"
    return "filtered" if form.narrows and any_seen() else "first"


def in_order(policies: Any) -> Any:
    in_order = policies.select_related("organisation", "tenant")
    return in_order.order_by("job_type", "organisation__slug", F("tenant__slug").asc(nulls_first=True))


def rows_of(policies: Iterable[JobPolicy], mine: Administered, now: datetime) -> list[Row]:
    """Return the rows of a page in two or three statements, however many there are."""
    page = list(policies)
    read = read_policies(
        {policy.organisation_id for policy in page},
        [policy.tenant_id for policy in page if policy.tenant_id is not None],
    )
    current = PolicyVersion.objects.filter(
        policy__in=[policy.pk for policy in page], number=F("policy__version")
    )
    versions = {version.policy_id: version for version in current.select_related("author")}
    return [_row(policy, versions[policy.pk], read, mine, now) for policy in page]


def _row(
    policy: JobPolicy, version: PolicyVersion, read: Mapping[Any, Any], mine: Administered, now: datetime
) -> Row:
    document = read[policy.organisation_id, policy.tenant_id][policy.job_type].at(now)
    own = paths_of(document)
    inherited = Inheritance(levels_in(read, policy.organisation_id, policy.tenant_id, policy.job_type, now))

    def value(*path: str) -> Value:
        return Value(said(path, own[path])) if path in own else inherited.value(path)

    return Row(
        policy=policy,
        version=version,
        mode=str(own.get(("mode",)) or inherited.raw(("mode",))),
        mode_value=value("mode"),
        caps=[(LIMITS[name].label, value("limits", name)) for name in CAPS],
        sets=len(own),
        query=place_query(Place(policy.organisation, policy.tenant, policy.job_type)),
        may_edit=mine.covers(policy),
    )


def administered(user: User) -> Administered:
    """Return where ``user`` is admin."""
    return Administered(
        frozenset(access.administered_organisations(user).values_list("pk", flat=True)),
        frozenset(access.administered_tenants(user).values_list("pk", flat=True)),
    )


def places_to_edit(user: User) -> list[tuple[str, str]]:
    """Return where ``user`` may make policies, as ``place`` names it, with labels."""
    organisations = [
        (f"organisation:{organisation.slug}", f"{organisation.name}, all tenants")
        for organisation in access.administered_organisations(user)
    ]
    tenants = [(f"tenant:{tenant.slug}", tenant.name) for tenant in access.administered_tenants(user)]
    return organisations + tenants
