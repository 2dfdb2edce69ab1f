"""Whose audit rows somebody may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.db.models import Q

from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User

from .kinds import Kind


@dataclass(frozen=True, slots=True)
class TrailScope:
    """What one person may read: operators everything, admins what concerns their organisations or tenants."""

    everything: bool
    organisations: Sequence[int]
    tenants: Sequence[Tenant]
    """The tenants that the trail may be narrowed to."""

    def rows_of(self, kind: Kind) -> Q:
        """Return the condition on audit rows of ``kind``."""
        if self.everything:
            return Q()
        allowed = kind.of_organisations(self.organisations) if self.organisations else Q(pk__in=[])
        alone = [tenant.pk for tenant in self.tenants if tenant.organisation_id not in self.organisations]
        return allowed | kind.of_tenants(alone) if kind.of_tenants and alone else allowed


def trail_scope(user: User) -> TrailScope:
    """Return whose audit rows ``user`` may read; raises PermissionDenied where it is nobody's."""
    if user.is_operator:
        return TrailScope(True, (), list(access.visible_tenants(user)))
    held = user.memberships.filter(role=Role.ADMIN, tenant=None).order_by("organisation")
    organisations = list(held.values_list("organisation", flat=True))
    tenants = list(access.administered_tenants(user))
    if not organisations and not tenants:
        raise PermissionDenied("This needs the role admin in a tenant.")
    return TrailScope(False, organisations, tenants)
