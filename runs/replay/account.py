"""Whom replayed runs belong to: the tenant and a key for it, made where they are missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.keys import create_key
from guardops.tenants.models import Organisation, Tenant
from guardops.tenants.organisations import create_organisation, create_tenant

FIRST_ORGANISATION = "local"


def make_key(slug: str, *, name: str, now: datetime, say: Callable[[str], None]) -> str:
    """Return the plain text of a new key for the tenant ``slug``; ``say`` hears what had to be made.

    A missing tenant is made in the first organisation. Raises Django's ValidationError for what is no slug.
    """
    tenant = Tenant.objects.filter(slug=slug).select_related("organisation").first()
    if tenant is None:
        tenant = make_tenant(slug, slug, organisation=_first_organisation(say), say=say)
    key, plain = create_key(
        organisation=tenant.organisation,
        tenants=[tenant],
        name=name,
        scopes=[Scope.EVENTS_WRITE],
        actor=SYSTEM,
        now=now,
    )
    say(f"Made the key {key} for the tenant {tenant.slug}.")
    return plain


def make_tenant(slug: str, name: str, *, organisation: Organisation, say: Callable[[str], None]) -> Tenant:
    """Make a tenant and say so."""
    tenant = create_tenant(organisation=organisation, slug=slug, name=name, actor=SYSTEM)
    say(f"Made the tenant {slug} in the organisation {organisation.slug}.")
    return tenant


def make_organisation(slug: str, name: str, *, say: Callable[[str], None]) -> Organisation:
    """Make an organisation and say so."""
    organisation = create_organisation(slug=slug, name=name, actor=SYSTEM)
    say(f"Made the organisation {slug}.")
    return organisation


def _first_organisation(say: Callable[[str], None]) -> Organisation:
    first = Organisation.objects.order_by("pk").first()
    return first or make_organisation(FIRST_ORGANISATION, FIRST_ORGANISATION.capitalize(), say=say)
