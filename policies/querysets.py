from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.models import Organisation, Tenant
    from guardops.tenants.querysets import TenantQuerySet

    from .models import BlockedSource, JobPolicy, Stop  # noqa: F401 (named in quotes below)


class JobPolicyQuerySet(models.QuerySet["JobPolicy"]):
    def for_tenants(self, tenants: TenantQuerySet) -> JobPolicyQuerySet:
        """Policies of these tenants, and of their organisations."""
        return self.filter(
            Q(tenant__in=tenants) | Q(tenant=None, organisation__in=tenants.values("organisation"))
        )

    def at(self, organisation: Organisation, tenant: Tenant | None) -> JobPolicyQuerySet:
        """Policies of one level: of the tenant, or of the organisation alone."""
        return self.filter(organisation=organisation, tenant=tenant)


class BlockedSourceQuerySet(models.QuerySet["BlockedSource"]):
    def for_tenants(self, tenants: TenantQuerySet) -> BlockedSourceQuerySet:
        """Sources blocked for these tenants: their own, their organisations', and everybody's."""
        return self.filter(
            Q(tenant__in=tenants)
            | Q(tenant=None, organisation__in=tenants.values("organisation"))
            | Q(organisation=None)
        )

    def standing(self, now: datetime) -> BlockedSourceQuerySet:
        """Neither removed nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), removed_at=None)


class StopQuerySet(models.QuerySet["Stop"]):
    def for_tenants(self, tenants: TenantQuerySet) -> StopQuerySet:
        return self.filter(tenant__in=tenants)

    def standing(self, now: datetime) -> StopQuerySet:
        """Neither lifted nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), lifted_at=None)
