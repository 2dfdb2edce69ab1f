"""What the audit trail shows of policies, the blocklist, stops and signing secrets."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from guardops.tenants.trail.kinds import Kind
from guardops.tenants.trail.names import Names

from .models import BlockedSource, JobPolicy, SigningSecret, Stop


def _place(row: Any, names: Names) -> str:
    return names.of(row, "tenant") or names.of(row, "organisation") or "everybody"


def _policy(row: Any, names: Names) -> str:
    return f"{row.job_type or 'all job types'} in {_place(row, names)}"


def _stop(row: Any, names: Names) -> str:
    what = row.name if row.name else "everything"
    return f"{what} in {_place(row, names)}"


KINDS = [
    Kind(
        slug="policy",
        noun="the policy",
        model=JobPolicy,
        name=_policy,
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
    ),
    Kind(
        slug="blocked-source",
        noun="the blocked source",
        model=BlockedSource,
        name=lambda row, names: f"{row.name} for {_place(row, names)}",
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"removed_at": "unblocked"},
    ),
    Kind(
        slug="stop",
        noun="the stop",
        model=Stop,
        name=_stop,
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"lifted_at": "lifted"},
    ),
    Kind(
        slug="signing-secret",
        noun="the signing secret",
        model=SigningSecret,
        name=lambda row, names: f"{row.kid} of {_place(row, names)}",
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
    ),
]
