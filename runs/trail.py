"""What the audit trail shows of runs: how stops were judged, and from when on runs are kept."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from guardops.tenants.trail.kinds import Kind
from guardops.tenants.trail.names import Names

from .models import Channel, Decision, Rule, RunHorizon, Silence, StopReview


def _rule(row: Any, names: Names) -> str:
    job_type = f" for {row.job_type}" if row.job_type else ""
    return f"“{row.get_rule_display()}”{job_type} in {names.of(row, 'tenant') or 'the installation'}"


KINDS = [
    Kind(
        slug="stop-review",
        noun="the review of a stop",
        model=StopReview,
        name=lambda row, names: f"{row.run_id} in {names.of(row, 'tenant')}",
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        fields={"by": "reviewer", "at": "time"},
    ),
    Kind(
        slug="decision",
        noun="the decision",
        model=Decision,
        name=lambda row, names: f"{row.get_action_display()} in {names.of(row, 'tenant')}",
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"undone_at": "took back", "consumed_at": "handed out"},
        fields={"by": "decided by", "at": "time"},
    ),
    Kind(
        slug="retention",
        noun="the day that runs are kept from",
        model=RunHorizon,
        name=lambda row, names: names.of(row, "tenant") or "everywhere",
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
    ),
    Kind(
        slug="channel",
        noun="the channel",
        model=Channel,
        name=lambda row, names: (
            f"{row.name} of {names.of(row, 'tenant') or names.of(row, 'organisation') or 'the installation'}"
        ),
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"removed_at": "removed"},
        fields={"group_s": "seconds of one message", "repeat_h": "hours until it tells again"},
    ),
    Kind(
        slug="alert-rule",
        noun="the alert rule",
        model=Rule,
        name=_rule,
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        fields={"by": "set by", "at": "time"},
    ),
    Kind(
        slug="silence",
        noun="the silence",
        model=Silence,
        name=lambda row, names: f"{row.reason} of {names.of(row, 'tenant') or 'the installation'}",
        of_organisations=lambda ids: Q(tenant__organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"ended_at": "ended"},
    ),
]
