"""Organisations and their tenants: the only place that writes them."""

from __future__ import annotations

from .actors import System, acting
from .models import Organisation, Tenant, User


def create_organisation(
    *, slug: str, name: str, actor: User | System, time_zone: str = "UTC"
) -> Organisation:
    """Make an organisation; raises ValidationError for a slug that is taken or no slug, and for no name."""
    organisation = Organisation(slug=slug, name=name, time_zone=time_zone)
    organisation.full_clean()
    with acting(actor):
        organisation.save(force_insert=True)
    return organisation


def create_tenant(*, organisation: Organisation, slug: str, name: str, actor: User | System) -> Tenant:
    """Make a tenant; slugs are unique in the installation. Raises ValidationError as above."""
    tenant = Tenant(organisation=organisation, slug=slug, name=name)
    tenant.full_clean()
    with acting(actor):
        tenant.save(force_insert=True)
    return tenant
