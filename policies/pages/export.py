"""Policies, their versions, stops and guards as files: exactly what the lists show, narrowed alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.addresses import tidy
from guardops.export import Cell, file_name, file_response
from guardops.tenants import access
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.drafts import versions_of
from policies.forms.filters import PolicyFilterForm
from policies.models import JobPolicy, Stop

from .guards import GuardFilterForm
from .places import place_or_404
from .policies import CAPS, administered, in_order, rows_of

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.models import User

POLICIES = ["job_type", "organisation", "tenant", "mode", *CAPS, "fields_set", "version", "author", "at"]
VERSIONS = ["version", "at", "author", "note", "until", "restored_from", "document"]
STOPS = [
    *("created_at", "tenant", "scope", "name", "reason", "created_by", "expires_at", "lifted_at"),
    *("lifted_by", "in_force"),
]
GUARDS = [
    *("tenant", "instance", "state", "version", "applied_revision", "source", "age_s"),
    *("rejected_revision", "reject_code", "first_seen", "last_seen"),
]
_AT_ONCE = 100


@require_GET
def policies_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    now, tenants = timezone.now(), access.visible(request.user).tenants
    asked = PolicyFilterForm(tidy(request.GET), tenants=tenants)
    if not asked.is_valid():
        context = {"form": asked, "page": [], "state": "invalid"}
        return render(request, "policies/list.html", context, status=400)
    seen = JobPolicy.objects.for_tenants(access.visible_tenants(request.user))
    rows = _policies(in_order(asked.narrow(seen, tenants)), request.user, now)
    return file_response(form, file_name("policies", now), POLICIES, rows)


def _policies(listed: Any, reader: User, now: datetime) -> Iterator[list[Cell]]:
    found, mine = listed.iterator(chunk_size=_AT_ONCE), administered(reader)
    while some := list(islice(found, _AT_ONCE)):
        for row in rows_of(some, mine, now):
            yield [
                row.policy.job_type,
                row.policy.organisation.slug,
                row.policy.tenant.slug if row.policy.tenant else None,
                row.mode,
                *(value.text for _, value in row.caps),
                row.sets,
                row.version.number,
                row.version.author.get_username() if row.version.author else None,
                row.version.created_at,
            ]


@require_GET
def versions_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    place = place_or_404(request.user, request.GET)
    rows = (
        [
            *(version.number, version.created_at),
            version.author.get_username() if version.author else None,
            *(version.note, version.until, version.restored_from, json.dumps(version.document)),
        ]
        for version in versions_of(place).iterator(chunk_size=_AT_ONCE)
    )
    return file_response(form, file_name("policy-versions", timezone.now()), VERSIONS, rows)


@require_GET
def stops_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    now = timezone.now()
    found = Stop.objects.for_tenants(access.visible_tenants(request.user)).order_by("-created_at", "-id")
    listed = found.select_related("tenant", "created_by", "lifted_by")
    rows = (_stop(stop, now) for stop in listed.iterator(chunk_size=1_000))
    return file_response(form, file_name("stops", now), STOPS, rows)


def _stop(stop: Stop, now: datetime) -> list[Cell]:
    return [
        *(stop.created_at, stop.tenant.slug, stop.scope, stop.name, stop.reason),
        stop.created_by.get_username() if stop.created_by else None,
        *(stop.expires_at, stop.lifted_at),
        stop.lifted_by.get_username() if stop.lifted_by else None,
        stop.lifted_at is None and (stop.expires_at is None or stop.expires_at > now),
    ]


@require_GET
def guards_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    tenants, now = access.visible_tenants(request.user), timezone.now()
    asked = GuardFilterForm(request.GET, tenants)
    if not asked.is_valid():
        context = {"form": asked, "page": [], "as_of": now}
        return render(request, "policies/guards.html", context, status=400)
    listed = asked.narrow(tenants, now).select_related("tenant").order_by("-last_seen", "instance")
    rows = (
        [guard.tenant.slug, *(getattr(guard, name) for name in GUARDS[1:])]
        for guard in listed.iterator(chunk_size=1_000)
    )
    return file_response(form, file_name("guards", now), GUARDS, rows)
