"""Members, invitations and tenants as files: exactly what the pages of settings list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.export import Cell, file_name, file_response
from guardops.tenants import access

from .requests import AuthenticatedRequest

if TYPE_CHECKING:
    from guardops.tenants.models import Organisation

MEMBERS = [
    *("username", "first_name", "last_name", "email", "role", "organisation", "tenant", "active", "since"),
]
INVITATIONS = [
    *("invitee", "role", "organisation", "tenant", "state", "created_by", "created_at", "expires_at"),
    *("accepted_at", "revoked_at"),
]
TENANTS = [
    *("organisation", "organisation_name", "tenant", "tenant_name", "time_zone", "retention_days", "since"),
]


@require_GET
def members_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    rows = (
        [
            *(held.user.get_username(), held.user.first_name, held.user.last_name, held.user.email),
            *(held.role, held.organisation.slug, held.tenant.slug if held.tenant else None),
            *(held.user.is_active, held.created_at),
        ]
        for held in access.members_to_manage(request.user).iterator(chunk_size=1_000)
    )
    return file_response(form, file_name("members", timezone.now()), MEMBERS, rows)


@require_GET
def invitations_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    now = timezone.now()
    listed = access.invitations_to_manage(request.user).with_state(now)
    rows = (
        [
            *(one.invitee, one.role, one.organisation.slug, one.tenant.slug if one.tenant else None),
            one.state,  # type: ignore[attr-defined]
            one.created_by.get_username(),
            *(one.created_at, one.expires_at, one.accepted_at, one.revoked_at),
        ]
        for one in listed.iterator(chunk_size=1_000)
    )
    return file_response(form, file_name("invitations", now), INVITATIONS, rows)


@require_GET
def tenants_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    organisations = access.organisations_to_manage(request.user)  # here: who may not is told before it begins
    return file_response(form, file_name("tenants", timezone.now()), TENANTS, _tenants(organisations))


def _tenants(organisations: Iterable[Organisation]) -> Iterator[list[Cell]]:
    for organisation in organisations:
        for tenant in organisation.managed:  # type: ignore[attr-defined]
            yield [
                *(organisation.slug, organisation.name, tenant.slug, tenant.name),
                *(organisation.time_zone, organisation.retention_days, tenant.created_at),
            ]
