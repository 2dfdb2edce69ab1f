from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

from guardops.tenants.models import Tenant
from runs.choices import NotificationState, Severity

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from runs.models import Channel, Notification  # noqa: F401 (named in quotes below)


class ChannelQuerySet(models.QuerySet["Channel"]):
    def kept(self) -> ChannelQuerySet:
        """Those that nobody has removed."""
        return self.filter(removed_at=None)

    def hearing(self, tenant_id: int | None) -> ChannelQuerySet:
        """Those that are told of what happens in a tenant, or without one in the installation itself."""
        if tenant_id is None:
            whose = Q(organisation=None)
        else:
            # Not by a join, which would give a tenant's channel once for each tenant of the organisation.
            owner = Tenant.objects.filter(pk=tenant_id).values("organisation")
            whose = Q(tenant=tenant_id) | Q(tenant=None, organisation__in=owner)
        return self.kept().filter(whose, enabled=True)

    def wanting(self, severity: str) -> ChannelQuerySet:
        """Those that are told of incidents as severe as that."""
        enough = list(Severity)[: Severity(severity).rank + 1]
        return self.filter(incidents=True, severity__in=enough)


class NotificationQuerySet(models.QuerySet["Notification"]):
    def waiting(self) -> NotificationQuerySet:
        return self.filter(state=NotificationState.WAITING)

    def told(self, kind: str, subjects: Collection[UUID]) -> NotificationQuerySet:
        """Those of the subjects that a receiver may have seen."""
        return self.filter(kind=kind, subject__in=subjects, attempts__gt=0)
