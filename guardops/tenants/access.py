"""Who may see and do what. Every page starts here: a stranger gets 404, a role too low 403.

Roles are held in a tenant or in its whole organisation; the higher one counts. Operators see every tenant,
but act only where they are members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Prefetch, Q, QuerySet
from django.http import Http404

from .choices import Role
from .models import ApiKey, Invitation, Membership, Organisation, Tenant

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from .models import User
    from .querysets import ApiKeyQuerySet, InvitationQuerySet, TenantQuerySet

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
    """Return the keys that cover a tenant where ``user`` is admin, those in use first, in three queries.

    Each has its ``state`` at ``now``, in ``shown`` its tenants that ``user`` administers, in ``covered`` how
    many it has in all, and in ``taking_over`` the key that takes over from it. Raises PermissionDenied for
    who is admin nowhere.
    """
    tenants = require_administered_tenants(user)
    return (
        ApiKey.objects.with_state(now)
        .annotate(covered=Count("tenants", distinct=True))
        .for_tenants(tenants)
        .select_related("predecessor")
        .prefetch_related(
            Prefetch("tenants", tenants, to_attr="shown"),
            Prefetch("successors", ApiKey.objects.filter(revoked_at=None), to_attr="taking_over"),
        )
    )


def require_key_admin(user: Person, key_id: int) -> ApiKey:
    """Return a key that ``user`` may rotate and revoke: one whose tenants they all administer.

    Raises Http404 where they see none of its tenants, PermissionDenied where they don't administer all.
    """
    key = ApiKey.objects.for_tenants(visible_tenants(user)).filter(pk=key_id).first()
    if key is None:
        raise Http404("No such key.")
    if key.tenants.exclude(pk__in=administered_tenants(user)).exists():
        raise PermissionDenied("This needs the role admin in every tenant that the key covers.")
    return key


def administers(user: User, organisation_id: int, tenant_id: int | None) -> bool:
    """Say whether ``user`` is admin of the tenant, or without one of the whole organisation."""
    admin = user.memberships.filter(organisation=organisation_id, role=Role.ADMIN, user__is_active=True)
    return admin.filter(Q(tenant=None) | Q(tenant=tenant_id) if tenant_id else Q(tenant=None)).exists()


def administered_organisations(user: Person) -> QuerySet[Organisation]:
    """Return the organisations of which ``user`` is admin as a whole, by slug."""
    if not user.is_authenticated:
        return Organisation.objects.none()
    held = user.memberships.filter(tenant=None, role=Role.ADMIN)
    return Organisation.objects.filter(pk__in=held.values("organisation")).order_by("slug")


def reads_storage(user: Person) -> bool:
    """Say whether ``user`` may see what room the installation takes: operators and organisations' admins."""
    return _is_operator(user) or administered_organisations(user).exists()


def require_storage_reader(user: Person) -> Sequence[Organisation]:
    """Return the organisations whose settings ``user`` may see beside that; raises PermissionDenied."""
    if not reads_storage(user):
        raise PermissionDenied("This needs the role admin in an organisation.")
    every = Organisation.objects.order_by("slug")
    return list(every if _is_operator(user) else administered_organisations(user))


def organisation_or_404(user: Person, slug: str) -> Organisation:
    """Return the organisation in which ``user`` has a role anywhere; raises Http404 for all others alike."""
    found = Organisation.objects.filter(slug=slug).first() if _storable(slug) else None
    if found is None or not (_is_operator(user) or _in_organisation(user, found.pk)):
        raise Http404("No such organisation.")
    return found


def require_organisation_admin(user: Person, slug: str) -> Organisation:
    """Return the organisation that ``user`` administers as a whole.

    Raises Http404 for who has no role anywhere in it, PermissionDenied for all others below admin.
    """
    found = organisation_or_404(user, slug)
    if not administered_organisations(user).filter(pk=found.pk).exists():
        raise PermissionDenied(f"This needs the role admin in all of {found.name}.")
    return found


def require_tenant_admin(user: Person, slug: str) -> Tenant:
    """Return the tenant that ``user`` administers; raises as ``tenant_or_404`` and ``require_role`` do."""
    tenant = tenant_or_404(user, slug)
    require_role(user, tenant, Role.ADMIN)
    return tenant


def administers_something(user: Person) -> bool:
    """Say whether ``user`` is admin of any tenant or organisation."""
    return user.is_authenticated and user.memberships.filter(role=Role.ADMIN).exists()


def require_admin_of_something(user: Person) -> None:
    """Let pass who is admin of any tenant or organisation; raises PermissionDenied for all others."""
    if not administers_something(user):
        raise PermissionDenied("This needs the role admin in a tenant.")


def organisations_to_manage(user: Person) -> QuerySet[Organisation]:
    """Return the organisations of which ``user`` administers all or a part, by slug, in two queries.

    Each has in ``managed`` its tenants that ``user`` administers. Raises PermissionDenied for who is admin
    nowhere.
    """
    require_admin_of_something(user)
    tenants = administered_tenants(user)
    managed = Prefetch("tenants", tenants, to_attr="managed")
    return _organisations_of(user, tenants).order_by("slug").prefetch_related(managed)


def members_to_manage(user: Person) -> QuerySet[Membership]:
    """Return the roles in every tenant that ``user`` administers, and in those tenants' organisations.

    An admin of some tenants sees who is in the whole organisation, since they read those tenants too.
    Raises PermissionDenied for who is admin nowhere.
    """
    require_admin_of_something(user)
    tenants = administered_tenants(user)
    shown = Q(tenant__in=tenants) | Q(tenant=None, organisation__in=_organisations_of(user, tenants))
    return (
        Membership.objects.filter(shown)
        .select_related("user", "organisation", "tenant")
        .order_by("organisation__slug", F("tenant__slug").asc(nulls_first=True), "user__username")
    )


def invitations_to_manage(user: Person) -> InvitationQuerySet:
    """Return the invitations to what ``user`` administers; raises PermissionDenied where that is nothing."""
    require_admin_of_something(user)
    shown = Q(tenant__in=administered_tenants(user)) | Q(
        tenant=None, organisation__in=administered_organisations(user)
    )
    return Invitation.objects.filter(shown).select_related("organisation", "tenant", "created_by")


def require_membership_admin(user: Person, membership_id: int) -> Membership:
    """Return a role that ``user`` may change: in a tenant or an organisation that they administer.

    Raises Http404 where they don't see the place, PermissionDenied where they aren't its admin.
    """
    roles = Membership.objects.select_related("user", "organisation", "tenant")
    return _administered(user, roles.filter(pk=membership_id).first())


def require_invitation_admin(user: Person, invitation_id: int) -> Invitation:
    """Return an invitation that ``user`` may take back; raises as ``require_membership_admin`` does."""
    invitations = Invitation.objects.select_related("organisation", "tenant")
    return _administered(user, invitations.filter(pk=invitation_id).first())


InAPlace = TypeVar("InAPlace", "Membership", "Invitation")


def _administered(user: Person, found: InAPlace | None) -> InAPlace:
    if found is None or not user.is_authenticated or not _sees(user, found.organisation_id, found.tenant_id):
        raise Http404("Nobody there.")
    if not administers(user, found.organisation_id, found.tenant_id):
        raise PermissionDenied("This needs the role admin there.")
    return found


def _sees(user: User, organisation_id: int, tenant_id: int | None) -> bool:
    if user.is_operator:
        return True
    if tenant_id is not None:
        return visible_tenants(user).filter(pk=tenant_id).exists()
    return _in_organisation(user, organisation_id)


def _in_organisation(user: Person, organisation_id: int) -> bool:
    return user.is_authenticated and user.memberships.filter(organisation=organisation_id).exists()


def _organisations_of(user: Person, tenants: TenantQuerySet) -> QuerySet[Organisation]:
    """Return the organisations that ``user`` administers as a whole, and those of ``tenants``."""
    whole = administered_organisations(user).order_by()
    return Organisation.objects.filter(
        Q(pk__in=whole.values("pk")) | Q(pk__in=tenants.values("organisation"))
    )


def _is_operator(user: Person) -> bool:
    return user.is_authenticated and user.is_operator


def admins_of(tenant: Tenant, most: int = 5) -> list[str]:
    """Return the names of people whom a member may ask: admins of ``tenant`` or of its organisation."""
    held = Membership.objects.filter(
        Q(tenant=tenant) | Q(tenant=None, organisation=tenant.organisation_id),
        role=Role.ADMIN,
        user__is_active=True,
    )
    names = held.order_by("user__username").values_list("user__username", flat=True)
    return list(names.distinct()[:most])


def reviewers_of(tenant: Tenant) -> list[User]:
    """Return who may act on a tenant's checkpoints and incidents: reviewers and admins, by name."""
    ranks = [role for role in Role if role.rank >= Role.REVIEWER.rank]
    held = Membership.objects.filter(
        Q(tenant=tenant) | Q(tenant=None, organisation=tenant.organisation_id),
        role__in=ranks,
        user__is_active=True,
    )
    people = {one.user_id: one.user for one in held.select_related("user").order_by("user__username")}
    return list(people.values())


def _storable(text: str) -> bool:
    return "\0" not in text
