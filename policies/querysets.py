from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When

from .choices import GuardState

SILENT_AFTER = timedelta(seconds=90)
GONE_AFTER = timedelta(hours=24)
STALE_AFTER = timedelta(seconds=60)

if TYPE_CHECKING:
    from guardops.tenants.models import Organisation, Tenant
    from guardops.tenants.querysets import TenantQuerySet

    from .models import BlockedSource, GuardInstance, JobPolicy, Stop  # noqa: F401 (named in quotes below)


class JobPolicyQuerySet(models.QuerySet["JobPolicy"]):
    def for_tenants(self, tenants: TenantQuerySet) -> JobPolicyQuerySet:
        """Policies of these tenants, and of their organisations."""
        return self.filter(
            Q(tenant__in=tenants) | Q(tenant=None, organisation__in=tenants.values("organisation"))
        )

    def at(self, organisation: Organisation, tenant: Tenant | None) -> JobPolicyQuerySet:
        """Policies of one level: of the tenant, or of the organisation alone."""
        return self.filter(organisation=organisation, tenant=tenant)

    def concerning(self, tenant: Tenant) -> JobPolicyQuerySet:
        """What holds in a tenant: its own policies, and its organisation's."""
        return self.filter(Q(tenant=tenant) | Q(tenant=None), organisation=tenant.organisation_id)

    def saying_mode(self, mode: str) -> JobPolicyQuerySet:
        """Policies whose version in force sets this mode itself."""
        return self.filter(versions__number=F("version"), versions__document__mode=mode)


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

    def over(self, now: datetime) -> BlockedSourceQuerySet:
        """Removed or expired."""
        return self.filter(~Q(removed_at=None) | Q(expires_at__lte=now))

    def concerning(self, tenant: Tenant) -> BlockedSourceQuerySet:
        """What holds in a tenant: its own blocks, its organisation's, and everybody's."""
        levels = Q(organisation=tenant.organisation_id, tenant=None) | Q(organisation=None)
        return self.filter(Q(tenant=tenant) | levels)


class StopQuerySet(models.QuerySet["Stop"]):
    def for_tenants(self, tenants: TenantQuerySet) -> StopQuerySet:
        return self.filter(tenant__in=tenants)

    def standing(self, now: datetime) -> StopQuerySet:
        """Neither lifted nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), lifted_at=None)


class GuardInstanceQuerySet(models.QuerySet["GuardInstance"]):
    def for_tenants(self, tenants: TenantQuerySet) -> GuardInstanceQuerySet:
        return self.filter(tenant__in=tenants)

    def with_state(self, now: datetime) -> Any:
        """Add each guard's ``state`` at ``now``, and in ``missed_at`` when the first revision that it lacks
        was published (null where it lacks none)."""
        revisions = apps.get_model("policies", "BundleRevision").objects
        lacking = revisions.filter(tenant=OuterRef("tenant"), revision__gt=OuterRef("applied_revision"))
        newest = F("tenant__bundle_revision")
        state = Case(
            When(last_seen__lt=now - GONE_AFTER, then=Value(GuardState.GONE)),
            When(last_seen__lt=now - SILENT_AFTER, then=Value(GuardState.SILENT)),
            When(rejected_revision=newest, then=Value(GuardState.REJECTING)),
            When(applied_revision=newest, then=Value(GuardState.CURRENT)),
            When(missed_at__gt=now - STALE_AFTER, then=Value(GuardState.BEHIND)),
            default=Value(GuardState.STALE),
            output_field=models.TextField(),
        )
        first = lacking.order_by("revision").values("created_at")[:1]
        return self.annotate(missed_at=Subquery(first)).annotate(state=state)
