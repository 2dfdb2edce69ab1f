"""Whose channels somebody manages: admins their tenants' and organisations', operators the installation's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404

from guardops.tenants import access
from runs.models import Channel

from .channels import Place

if TYPE_CHECKING:
    from guardops.tenants.models import User

    from .querysets import ChannelQuerySet

MAX_ID = 2**63 - 1


def places_to_manage(user: User) -> dict[str, Place]:
    """Return the places whose channels ``user`` manages, by the name that forms and addresses give them.

    Raises PermissionDenied where there are none.
    """
    places: dict[str, Place] = {}
    if user.is_operator:
        places["installation"] = Place()
    for organisation in access.administered_organisations(user):
        places[f"organisation:{organisation.slug}"] = Place(organisation)
    for tenant in access.administered_tenants(user).select_related("organisation"):
        places[f"tenant:{tenant.slug}"] = Place(tenant.organisation, tenant)
    if not places:
        raise PermissionDenied("This needs the role admin in a tenant.")
    return places


def require_place(user: User, key: str) -> None:
    """Let pass who manages the place that a form names, or sees none there, whom the form tells so.

    Raises PermissionDenied for a place that ``user`` sees and does not manage.
    """
    kind, _, slug = key.partition(":")
    if key in places_to_manage(user) or "\0" in slug:
        return
    tenants = access.visible_tenants(user)
    names = {"tenant": "slug", "organisation": "organisation__slug"}
    if kind in names and tenants.filter(**{names[kind]: slug}).exists():
        raise PermissionDenied("This needs the role admin there.")


def channels_to_manage(user: User) -> ChannelQuerySet:
    """Return the channels that ``user`` manages, by name; raises PermissionDenied as above."""
    places_to_manage(user)
    return (
        Channel.objects.kept()
        .filter(_managed(user))
        .select_related("organisation", "tenant")
        .order_by("organisation__slug", "tenant__slug", "name", "id")
    )


def channel_to_manage(user: User, channel_id: int) -> Channel:
    """Return a channel that ``user`` manages.

    Raises Http404 where they don't see its place, PermissionDenied where they see it and are not its admin.
    """
    kept = Channel.objects.kept().select_related("organisation", "tenant")
    found = kept.filter(pk=channel_id).first() if channel_id <= MAX_ID else None
    if found is None or not kept.filter(_seen(user), pk=found.pk).exists():
        raise Http404("No such channel.")
    if not kept.filter(_managed(user), pk=found.pk).exists():
        raise PermissionDenied("This needs the role admin where the channel belongs to.")
    return found


def _managed(user: User) -> Q:
    whole = Q(tenant=None, organisation__in=access.administered_organisations(user).order_by().values("pk"))
    theirs = whole | Q(tenant__in=access.administered_tenants(user).order_by().values("pk"))
    return theirs | Q(organisation=None) if user.is_operator else theirs


def _seen(user: User) -> Q:
    if user.is_operator:
        return Q()
    member_of = user.memberships.values("organisation")
    return Q(tenant__in=access.visible_tenants(user).order_by().values("pk")) | Q(
        tenant=None, organisation__in=member_of
    )
