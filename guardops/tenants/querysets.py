from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from datetime import datetime


class TenantQuerySet(models.QuerySet[Any]):
    def visible_to(self, user: Any) -> TenantQuerySet:
        """Tenants that ``user`` is a member of, by tenant or by organisation; operators see all."""
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.filter(
            Q(memberships__user=user)
            | Q(organisation__memberships__user=user, organisation__memberships__tenant=None)
        ).distinct()


class ApiKeyQuerySet(models.QuerySet[Any]):
    def live(self, now: datetime) -> ApiKeyQuerySet:
        """Keys that are neither revoked nor expired at ``now``."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
