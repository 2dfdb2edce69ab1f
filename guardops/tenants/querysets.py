from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Case, Q, Value, When

from .choices import InvitationState, KeyState, Role

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.auth.models import AnonymousUser

    from .models import ApiKey, Invitation, Tenant, User  # noqa: F401 (named in quotes below)


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

    def with_state(self, now: datetime) -> ApiKeyQuerySet:
        """Add each key's ``state`` at ``now``, and put those in use first."""
        state = Case(
            When(~Q(revoked_at=None), then=Value(KeyState.REVOKED)),
            When(expires_at__lte=now, then=Value(KeyState.EXPIRED)),
            default=Value(KeyState.LIVE),
            output_field=models.TextField(),
        )
        in_use = Case(When(state=KeyState.LIVE, then=0), default=1)
        return self.annotate(state=state).order_by(in_use, "-created_at", "-id")

    def for_tenants(self, tenants: TenantQuerySet) -> ApiKeyQuerySet:
        """Keys that cover any of ``tenants``."""
        return self.filter(tenants__in=tenants).distinct()


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self, now: datetime) -> InvitationQuerySet:
        """Invitations that may still be accepted at ``now``."""
        return self.filter(accepted_at=None, revoked_at=None, expires_at__gt=now)

    def with_state(self, now: datetime) -> InvitationQuerySet:
        """Add each invitation's ``state`` at ``now``; the open ones come first, then the newest."""
        state = Case(
            When(~Q(accepted_at=None), then=Value(InvitationState.ACCEPTED)),
            When(~Q(revoked_at=None), then=Value(InvitationState.REVOKED)),
            When(expires_at__lte=now, then=Value(InvitationState.EXPIRED)),
            default=Value(InvitationState.OPEN),
            output_field=models.TextField(),
        )
        is_open = Case(When(state=InvitationState.OPEN, then=0), default=1)
        return self.annotate(state=state).order_by(is_open, "-created_at", "-id")
