"""What the audit trail shows of runs: how stops were judged, and from when on runs are kept."""

from __future__ import annotations

from django.db.models import Q

from guardops.tenants.trail.kinds import Kind

from .models import Channel, Decision, RunHorizon, StopReview

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
]
