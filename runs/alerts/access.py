"""Who sees incidents and silences, who acts on them, and who sets rules.

Whoever sees a tenant sees its incidents; reviewers act on them and make silences, admins set rules. What
concerns the installation is the operators'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404

from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.models import Incident, Silence

if TYPE_CHECKING:
    from guardops.tenants.access import Visible

INSTALLATION = "_installation"
"""What addresses and forms call the installation: no tenant's name begins like that."""
_MAX_ID = 2**63 - 1

Place = Tenant | None
"""A tenant, or None for the installation."""


def incident_or_404(user: User, incident_id: UUID) -> Incident:
    """Return an incident that ``user`` sees; raises Http404 for all others alike."""
    related = ("tenant", "tenant__organisation", "acknowledged_by", "assigned_to", "resolved_by")
    seen = Incident.objects.seen_by(access.visible(user)).select_related(*related)
    found = seen.filter(pk=incident_id).first()
    if found is None:
        raise Http404("No such incident.")
    return found


def incident_to_act_on(user: User, incident_id: UUID) -> Incident:
    """Return an incident that ``user`` may act on.

    Raises Http404 for who does not see it, PermissionDenied for who only sees it.
    """
    found = incident_or_404(user, incident_id)
    if found.tenant is not None:
        access.require_role(user, found.tenant, Role.REVIEWER)
    return found


def may_act(user: User, incident: Incident) -> bool:
    """Say whether somebody who sees the incident may act on it."""
    if incident.tenant is None:
        return user.is_operator
    held = access.role_in(user, incident.tenant)
    return held is not None and held.rank >= Role.REVIEWER.rank


def people_for(incident: Incident) -> Sequence[User]:
    """Return whom it can be given to, by name: those who may act on it."""
    if incident.tenant is not None:
        return access.reviewers_of(incident.tenant)
    return list(User.objects.filter(is_operator=True, is_active=True).order_by("username"))


def places_to_silence(user: User) -> dict[str, Place]:
    """Return where ``user`` may make silences, by slug; raises PermissionDenied where that is nowhere."""
    places = _places(user, Role.REVIEWER)
    if not places:
        raise PermissionDenied("This needs the role reviewer in a tenant.")
    return places


def require_place(user: User, slug: str, places: dict[str, Place]) -> None:
    """Refuse a tenant that ``user`` only sees; one that they don't see is like one that is made up."""
    if slug not in places and access.visible_tenants(user).filter(slug=slug).exists():
        raise PermissionDenied("This needs the role reviewer there.")


def silence_to_end(user: User, silence_id: int) -> Silence:
    """Return a silence that ``user`` may end; raises as ``incident_to_act_on`` does."""
    seen = Silence.objects.seen_by(access.visible(user)).select_related("tenant", "created_by")
    found = seen.filter(pk=silence_id).first() if silence_id <= _MAX_ID else None
    if found is None:
        raise Http404("No such silence.")
    if found.tenant is not None:
        access.require_role(user, found.tenant, Role.REVIEWER)
    return found


def places_seen(seen: Visible) -> dict[str, Place]:
    """Return the places whose rules somebody may read, by slug."""
    places: dict[str, Place] = {tenant.slug: tenant for tenant in seen.tenants}
    return {INSTALLATION: None, **places} if seen.is_operator else places


def place_to_set(user: User, slug: str) -> Place:
    """Return the place whose rules ``user`` may set; raises Http404, and PermissionDenied below admin."""
    if slug == INSTALLATION and user.is_operator:
        return None
    return access.require_tenant_admin(user, slug)


def _places(user: User, role: Role) -> dict[str, Place]:
    tenants = access.tenants_with_role(user, role).select_related("organisation")
    places: dict[str, Place] = {tenant.slug: tenant for tenant in tenants}
    return {INSTALLATION: None, **places} if user.is_operator else places
