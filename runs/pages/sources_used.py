"""Fragments about sources that the blocklist asks for by their address, each with a page of its own.

How many completed runs used a source, and what guards propose to block. Members see their own tenants' runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from guardops.htmx import wants_fragment
from guardops.tenants import access
from guardops.tenants.models import Tenant, User
from policies.blocklist.looks import Look, look_of
from policies.choices import SourceKind
from policies.errors import InvalidSource
from policies.models import BlockedSource
from policies.names import canonical_source
from runs.filters import NameField
from runs.reports.pages import PageRequest
from runs.reports.sources import (
    MOST_TENANTS,
    PROPOSED_DAYS,
    Proposal,
    Used,
    read_proposed,
    read_used,
    read_uses,
    runs_read,
)

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import QueryDict

LIMIT = 3
"""Calls a run that a link proposes where it limits a source."""


class SourceForm(forms.Form):
    """Which source."""

    kind = forms.ChoiceField(choices=SourceKind.choices, required=False)
    name = NameField(max_length=1_000, required=False)

    def clean(self) -> dict[str, str]:
        asked = super().clean() or {}
        asked["kind"] = SourceKind(asked.get("kind") or SourceKind.DOMAIN)
        if asked.get("name"):
            try:
                # Roll-ups count hosts under their registrable domain.
                asked["name"] = canonical_source(asked["kind"], asked["name"], exact=False)
            except InvalidSource as error:
                self.add_error("name", error.message)
        return asked


@dataclass(frozen=True, slots=True)
class ProposedRow:
    """A proposal with the tenant that it came from, and links that fill in the form of the blocklist."""

    proposal: Proposal
    tenant: Tenant
    used: Used
    blocked: bool
    refusal: str
    """Why it can't be blocked, empty where it can."""
    may_block: bool

    @property
    def look(self) -> Look:
        return look_of(self.proposal.name)

    @property
    def block(self) -> str:
        return self._link(action="block")

    @property
    def limit(self) -> str:
        return self._link(action="limit", most=LIMIT)

    def _link(self, **more: object) -> str:
        told = {
            "place": f"tenant:{self.tenant.slug}",
            "kind": self.proposal.kind,
            "name": self.proposal.name,
            "origin": "proposed",
            "evidence": reverse("runs:detail", args=[self.proposal.last_run]),
            **more,
        }
        return f"{reverse('policies:blocklist-add')}?{urlencode(told)}"


@never_cache
@require_safe
def sources_used(request: PageRequest) -> HttpResponse:
    tenants, form, now = _tenants(request.user, request.GET), SourceForm(request.GET), timezone.now()
    context: dict[str, object] = {"form": form, "as_of": now, "query": request.GET.urlencode()}
    if form.is_valid() and form.cleaned_data["name"]:
        kind, name = form.cleaned_data["kind"], form.cleaned_data["name"]
        used = read_used([tenant.pk for tenant in tenants], kind, name, now)
        slugs = {tenant.pk: tenant.name for tenant in tenants}
        rows = [(slugs[use.tenant_id], use) for use in used.uses]
        context |= {"used": used, "rows": rows, "kind": kind.value, "name": name, "look": look_of(name)}
    page = "runs/_sources_used.html" if wants_fragment(request) else "runs/sources_used.html"
    return render(request, page, context, status=200 if form.is_valid() else 400)


@never_cache
@require_safe
def sources_proposed(request: PageRequest) -> HttpResponse:
    tenants, now = _tenants(request.user, request.GET), timezone.now()
    rows = proposed_rows(request.user, tenants, now)
    context = {
        "rows": rows,
        "tenants": tenants,
        "left_out": max(0, len(tenants) - MOST_TENANTS),
        "runs_read": runs_read(len(tenants)),
        "days": PROPOSED_DAYS,
        "limit": LIMIT,
        "as_of": now,
    }
    page = "runs/_sources_proposed.html" if wants_fragment(request) else "runs/sources_proposed.html"
    return render(request, page, context)


def proposed_rows(user: User, tenants: Sequence[Tenant], now: datetime) -> list[ProposedRow]:
    """Return what guards of these tenants propose, with what is known of it, in a few statements."""
    proposals = read_proposed([tenant.pk for tenant in tenants], now)
    if not proposals:
        return []
    by_id = {tenant.pk: tenant for tenant in tenants}
    sources = sorted({(proposal.kind, proposal.name) for proposal in proposals})
    uses = read_uses([tenant.pk for tenant in tenants[:MOST_TENANTS]], sources, now)
    mine = set(access.administered_tenants(user).values_list("pk", flat=True))
    blocked = {tenant.pk: _blocked(tenant, now) for tenant in tenants[:MOST_TENANTS]}
    return [
        ProposedRow(
            proposal,
            tenant,
            _of_tenant(uses[proposal.kind, proposal.name], tenant),
            (proposal.kind, proposal.name) in blocked[tenant.pk],
            _refusal(proposal, tenant),
            tenant.pk in mine,
        )
        for proposal in proposals
        for tenant in [by_id[proposal.tenant_id]]
    ]


def _of_tenant(used: Used, tenant: Tenant) -> Used:
    uses = [use for use in used.uses if use.tenant_id == tenant.pk]
    return Used(uses, used.at_least, used.as_of)


def _blocked(tenant: Tenant, now: datetime) -> set[tuple[str, str]]:
    standing = BlockedSource.objects.concerning(tenant).standing(now)
    return set(standing.values_list("kind", "name"))


def _refusal(proposal: Proposal, tenant: Tenant) -> str:
    try:
        kind = SourceKind(proposal.kind)
        canonical_source(kind, proposal.name, exact=False, allowed=tenant.organisation.allowed_domains)
    except InvalidSource as error:
        return error.message
    except ValueError:
        return "This is neither a domain nor a tool."
    return ""


def _tenants(user: User, params: QueryDict) -> list[Tenant]:
    """Return the tenants that are asked about: one, an organisation's, or all; raises Http404 for none."""
    seen = access.visible_tenants(user).select_related("organisation")
    if slug := params.get("tenant", ""):
        return [access.tenant_or_404(user, slug)]
    if slug := params.get("organisation", ""):
        seen = seen.filter(organisation=access.organisation_or_404(user, slug))
    tenants = list(seen)
    if not tenants:
        raise Http404("No such tenant.")
    return tenants
