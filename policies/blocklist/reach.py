"""For whom sources are blocked: how pages name it, who may edit it, and who may read why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied

from guardops.tenants import access
from policies.models import BlockedSource
from policies.publish.sources import Reach

if TYPE_CHECKING:
    from guardops.tenants.models import User
    from policies.querysets import BlockedSourceQuerySet

EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose lists somebody may edit, and whose reasons they may read; everything by ids."""

    is_operator: bool
    tenants: frozenset[int]
    """Where they are admin."""
    organisations: frozenset[int]
    """Which they administer as a whole."""
    belongs_to: frozenset[int]
    """Organisations in which they have a role as a whole, whatever it is."""

    @property
    def may_edit_something(self) -> bool:
        return self.is_operator or bool(self.tenants or self.organisations)

    def may_edit(self, organisation_id: int | None, tenant_id: int | None) -> bool:
        if tenant_id is not None:
            return tenant_id in self.tenants
        return organisation_id in self.organisations if organisation_id is not None else self.is_operator

    def edits(self, source: BlockedSource) -> bool:
        return self.may_edit(source.organisation_id, source.tenant_id)

    def reads_why(self, source: BlockedSource) -> bool:
        """Say whether note, evidence and author are shown: they may tell of tenants that nobody else sees."""
        if self.is_operator or source.tenant_id is not None:
            return True
        return source.organisation_id in self.belongs_to


def reader_of(user: User) -> Reader:
    """Return what ``user`` may do with the blocklist."""
    return Reader(
        is_operator=user.is_operator,
        tenants=frozenset(access.administered_tenants(user).values_list("pk", flat=True)),
        organisations=frozenset(access.administered_organisations(user).values_list("pk", flat=True)),
        belongs_to=frozenset(user.memberships.filter(tenant=None).values_list("organisation", flat=True)),
    )


def require_editor(user: User) -> Reader:
    """Return the same for who may edit anything; raises PermissionDenied for all others."""
    reader = reader_of(user)
    if not reader.may_edit_something:
        raise PermissionDenied("This needs the role admin in a tenant.")
    return reader


def reaches_to_edit(user: User) -> dict[str, tuple[str, Reach]]:
    """Return for whom ``user`` may block, by the name that addresses and forms give it, with labels."""
    tenants = access.administered_tenants(user).select_related("organisation")
    reaches = {
        f"tenant:{tenant.slug}": (tenant.name, Reach(tenant.organisation, tenant)) for tenant in tenants
    }
    for organisation in access.administered_organisations(user):
        label = f"All of {organisation.name}"
        reaches[f"organisation:{organisation.slug}"] = (label, Reach(organisation))
    if user.is_operator:
        reaches[EVERYBODY] = ("Everybody", Reach())
    return reaches


def refuse_below_admin(user: User, place: str) -> None:
    """Raise PermissionDenied for a tenant or an organisation that ``user`` sees and may not edit.

    What they don't see is left to the form, which offers none of it.
    """
    kind, _, slug = place.partition(":")
    if "\0" in slug:
        return
    seen = access.visible_tenants(user)
    if kind == "tenant" and seen.filter(slug=slug).exists():
        access.require_tenant_admin(user, slug)
    elif kind == "organisation" and seen.filter(organisation__slug=slug).exists():
        access.require_organisation_admin(user, slug)
    elif place == EVERYBODY and not user.is_operator:
        raise PermissionDenied("Only operators may block for everybody.")


def seen_by(user: User) -> BlockedSourceQuerySet:
    """Return the blocklist as ``user`` sees it: of their tenants, of these' organisations, of everybody."""
    if not access.visible_tenants(user).exists() and not user.is_operator:
        # An admin of an organisation without tenants still edits its list.
        mine = access.administered_organisations(user).values("pk")
        return BlockedSource.objects.filter(tenant=None, organisation__in=mine)
    return BlockedSource.objects.for_tenants(access.visible_tenants(user))
