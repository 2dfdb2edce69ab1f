"""What the trail shows of people, organisations, tenants, roles and keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import Q

from guardops.tenants.models import (
    ApiKey,
    ApiKeyTenant,
    Invitation,
    Membership,
    Organisation,
    Tenant,
    User,
)

from .kinds import Kind
from .names import Names


def _member(row: Any, names: Names) -> str:
    return f"{names.of(row, 'user')} in {names.of(row, 'tenant') or names.of(row, 'organisation')}"


def _invitation(row: Any, names: Names) -> str:
    return f"{row.invitee} to {names.of(row, 'tenant') or names.of(row, 'organisation')}"


# Both write their ids out: of a subquery's PostgreSQL can't know how rare their rows are, and reads all rows.


def _people_of(organisations: Collection[int]) -> Q:
    members = Membership.objects.filter(organisation__in=organisations).values_list("user", flat=True)
    return Q(pgh_obj__in=sorted(set(members)))


def _keys_of(tenants: Collection[int]) -> Q:
    covered = ApiKeyTenant.objects.filter(tenant__in=tenants).values_list("api_key", flat=True)
    return Q(pgh_obj__in=sorted(set(covered)))


KINDS = [
    Kind(
        slug="organisation",
        noun="the organisation",
        model=Organisation,
        name=lambda row, _: row.name,
        of_organisations=lambda ids: Q(pgh_obj__in=ids),
    ),
    Kind(
        slug="tenant",
        noun="the tenant",
        model=Tenant,
        name=lambda row, _: row.slug,
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(pgh_obj__in=ids),
    ),
    # A person's own rows, logins among them, are for those who answer for that person.
    Kind(
        slug="person",
        noun="the person",
        model=User,
        name=lambda row, _: row.username,
        of_organisations=_people_of,
    ),
    Kind(
        slug="member",
        noun="the member",
        model=Membership,
        name=_member,
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
    ),
    Kind(
        slug="invitation",
        noun="the invitation of",
        model=Invitation,
        name=_invitation,
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
        milestones={"accepted_at": "accepted", "revoked_at": "withdrew"},
        fields={"expires_at": "expiry"},
    ),
    Kind(
        slug="key",
        noun="the API key",
        model=ApiKey,
        name=lambda row, _: f"{row.name} (go_{row.prefix}_…)",
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=_keys_of,
        milestones={"revoked_at": "revoked"},
        fields={"expires_at": "expiry", "created_by": "maker"},
    ),
    Kind(
        slug="key-tenant",
        noun="a tenant of the API key",
        model=ApiKeyTenant,
        name=lambda row, names: f"{names.of(row, 'api_key')}: {names.of(row, 'tenant')}",
        of_organisations=lambda ids: Q(organisation__in=ids),
        of_tenants=lambda ids: Q(tenant__in=ids),
    ),
]
