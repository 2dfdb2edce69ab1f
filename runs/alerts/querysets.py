from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

from runs.choices import IncidentState

if TYPE_CHECKING:
    from guardops.tenants.access import Visible
    from guardops.tenants.models import User
    from runs.models import Incident, Silence  # noqa: F401 (named in quotes below)


def of_visible(seen: Visible) -> Q:
    """Rows of the tenants that somebody sees; for operators those of the installation too."""
    mine = Q(tenant__in=seen.ids)
    return mine | Q(tenant=None) if seen.is_operator else mine


class IncidentQuerySet(models.QuerySet["Incident"]):
    def seen_by(self, seen: Visible) -> IncidentQuerySet:
        """Incidents of the tenants that somebody sees; for operators the installation's too."""
        return self.filter(of_visible(seen))

    def for_tenant(self, tenant_id: int | None) -> IncidentQuerySet:
        """Incidents of a tenant, or without one of the installation."""
        return self.filter(tenant=tenant_id)

    def unresolved(self) -> IncidentQuerySet:
        """Incidents that are not over: open and acknowledged ones."""
        return self.exclude(state=IncidentState.RESOLVED)

    def among(self, states: Collection[str]) -> IncidentQuerySet:
        """Incidents in any of ``states``."""
        return self.filter(state__in=states)

    def of_rule(self, kind: str) -> IncidentQuerySet:
        return self.filter(rule=kind)

    def as_severe_as(self, severity: str) -> IncidentQuerySet:
        return self.filter(severity=severity)

    def looked_after_by(self, user: User) -> IncidentQuerySet:
        """Incidents that were given to somebody, or that nobody was given and they acknowledged."""
        return self.filter(Q(assigned_to=user) | Q(assigned_to=None, acknowledged_by=user))


class SilenceQuerySet(models.QuerySet["Silence"]):
    def seen_by(self, seen: Visible) -> SilenceQuerySet:
        """Silences of the tenants that somebody sees; for operators the installation's too."""
        return self.filter(of_visible(seen))

    def in_force(self, now: datetime) -> SilenceQuerySet:
        """Silences that have not ended, by their time or by a person."""
        return self.filter(ended_at=None, until__gt=now)

    def over(self, now: datetime) -> SilenceQuerySet:
        """Silences whose end has come and that have not been settled."""
        return self.filter(Q(until__lte=now) | Q(ended_at__isnull=False), settled_at=None)

    def covering(self, incident: Incident) -> SilenceQuerySet:
        """Silences that name the incident: its tenant, and its rule and subject or any."""
        return self.filter(
            Q(rule="") | Q(rule=incident.rule),
            Q(subject="") | Q(subject=incident.subject),
            tenant=incident.tenant_id,
        )
