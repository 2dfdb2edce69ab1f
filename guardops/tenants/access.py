"""Who may see and do what. Every page starts here: a stranger gets 404, a role too low 403.

Roles are held in a tenant or in its whole organisation; the higher one counts. Operators see every tenant,
but act only where they are members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Prefetch, Q
from django.http import Http404

from .choices import Role
from .models import ApiKey, Tenant

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from .models import User
    from .querysets import ApiKeyQuerySet, TenantQuerySet

    Person = User | AnonymousUser


@dataclass(frozen=True, slots=True)
class Visible:
    """What a page may show to somebody: their tenants by slug; operators also all of them at once."""

    tenants: Sequence[Tenant]
    is_operator: bool

    @property
    def all_tenants(self) -> bool:
        """Say whether counts of all tenants together (tenant 0) may be shown."""
        return self.is_operator

    @property
    def ids(self) -> list[int]:
        return [tenant.pk for tenant in self.tenants]

    def by_slug(self, slug: str) -> Tenant:
        """Return the visible tenant with that slug; raises Http404 for any other."""
        for tenant in self.tenants:
            if tenant.slug == slug:
                return tenant
        raise Http404("No such tenant.")


def visible(user: Person) -> Visible:
    """Return what ``user`` may see, in one query."""
    return Visible(
        tenants=list(visible_tenants(user).select_related("organisation")),
        is_operator=user.is_authenticated and user.is_operator,
    )


def visible_tenants(user: Person) -> TenantQuerySet:
    """Return the tenants whose runs ``user`` may read, ordered by slug."""
    return Tenant.objects.visible_to(user)


def tenants_with_role(user: Person, role: Role) -> TenantQuerySet:
    """Return the tenants where ``user`` is a member with at least ``role``."""
    return Tenant.objects.with_role(user, role)


def tenant_or_404(user: Person, slug: str) -> Tenant:
    """Return the tenant that ``user`` may see under ``slug``; raises Http404 for all others alike."""
    tenant = visible_tenants(user).filter(slug=slug).first() if _storable(slug) else None
    if tenant is None:
        raise Http404("No such tenant.")
    return tenant


def role_in(user: Person, tenant: Tenant) -> Role | None:
    """Return the highest role of ``user`` in ``tenant``, None for a stranger; operators view everything."""
    if not user.is_authenticated:
        return None
    roles = user.memberships.filter(
        Q(tenant=tenant) | Q(organisation=tenant.organisation_id, tenant=None)
    ).values_list("role", flat=True)
    held = [Role(role) for role in roles]
    if user.is_operator:
        held.append(Role.VIEWER)
    return max(held, key=lambda role: role.rank, default=None)


def require_role(user: Person, tenant: Tenant, role: Role) -> None:
    """Let pass who has at least ``role``; raises Http404 for a stranger, PermissionDenied below it."""
    held = role_in(user, tenant)
    if held is None:
        raise Http404("No such tenant.")
    if held.rank < role.rank:
        raise PermissionDenied(f"This needs the role {role.label.lower()} in {tenant.name}.")


def administered_tenants(user: Person) -> TenantQuerySet:
    """Return the tenants where ``user`` is admin."""
    return tenants_with_role(user, Role.ADMIN)


def require_administered_tenants(user: Person) -> TenantQuerySet:
    """Return the tenants where ``user`` is admin; raises PermissionDenied where there are none."""
    tenants = administered_tenants(user)
    if not tenants.exists():
        raise PermissionDenied("This needs the role admin in a tenant.")
    return tenants


def keys_to_manage(user: Person, now: datetime) -> ApiKeyQuerySet:
    """Return the keys that cover a tenant where ``user`` is admin, those in use first, in two queries.

    Each has its ``state`` at ``now``, in ``shown`` its tenants that ``user`` administers, and in ``covered``
    how many it has in all. Raises PermissionDenied for who is admin nowhere.
    """
    tenants = require_administered_tenants(user)
    return (
        ApiKey.objects.with_state(now)
        .annotate(covered=Count("tenants", distinct=True))
        .for_tenants(tenants)
        .prefetch_related(Prefetch("tenants", tenants, to_attr="shown"))
    )


def require_key_admin(user: Person, key_id: int) -> ApiKey:
    """Return a key that ``user`` may revoke: one whose tenants they all administer.

    Raises Http404 where they see none of its tenants, PermissionDenied where they don't administer all.
    """
    key = ApiKey.objects.for_tenants(visible_tenants(user)).filter(pk=key_id).first()
    if key is None:
        raise Http404("No such key.")
    if key.tenants.exclude(pk__in=administered_tenants(user)).exists():
        raise PermissionDenied("This needs the role admin in every tenant that the key covers.")
    return key


def _storable(text: str) -> bool:
    return "\0" not in text
