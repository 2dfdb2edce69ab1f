from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

from .choices import Role

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.auth.models import AnonymousUser

    from .models import ApiKey, Tenant, User  # noqa: F401 (named in quotes below)


def roles_from(role: Role) -> list[Role]:
    """Return ``role`` and the ones that include it."""
    return list(Role)[role.rank :]


class TenantQuerySet(models.QuerySet["Tenant"]):
    def visible_to(self, user: User | AnonymousUser) -> TenantQuerySet:
        """Tenants that ``user`` is a member of, by tenant or by organisation; operators see all."""
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.with_role(user, Role.VIEWER)

    def with_role(self, user: User | AnonymousUser, role: Role) -> TenantQuerySet:
        """Tenants where ``user`` is a member with at least ``role``, by tenant or by organisation."""
        if not user.is_authenticated:
            return self.none()
        held = user.memberships.filter(role__in=roles_from(role))
        return self.filter(
            Q(pk__in=held.exclude(tenant=None).values("tenant"))
            | Q(organisation__in=held.filter(tenant=None).values("organisation"))
        )


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def live(self, now: datetime) -> ApiKeyQuerySet:
        """Keys that are neither revoked nor expired at ``now``."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)

    def for_tenants(self, tenants: TenantQuerySet) -> ApiKeyQuerySet:
        """Keys that cover any of ``tenants``."""
        return self.filter(tenants__in=tenants).distinct()
