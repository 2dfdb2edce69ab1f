"""Whom replayed and simulated runs belong to: tenants and keys for them, made where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.keys import create_key
from guardops.tenants.models import Organisation, Tenant
from guardops.tenants.organisations import create_organisation, create_tenant
from runs.models import Run

from .demo_tenants import DemoTenant

FIRST_ORGANISATION = "local"
KEY_LIFE = timedelta(days=1)
"""A key's text is kept nowhere, so that it is of no use once its runs are sent."""


def make_key(slug: str, *, name: str, now: datetime, say: Callable[[str], None]) -> str:
    """Return the plain text of a new key for the tenant ``slug``; ``say`` hears what had to be made.

    A missing tenant is made in the first organisation. Raises Django's ValidationError for what is no slug.
    """
    tenant = Tenant.objects.filter(slug=slug).select_related("organisation").first()
    if tenant is None:
        tenant = make_tenant(slug, slug, organisation=_first_organisation(say), say=say)
    return key_for(tenant, name=name, now=now, say=say)


def key_for(tenant: Tenant, *, name: str, now: datetime, say: Callable[[str], None]) -> str:
    """Return the plain text of a new key that may send the tenant's events."""
    key, plain = create_key(
        organisation=tenant.organisation,
        tenants=[tenant],
        name=name,
        scopes=[Scope.EVENTS_WRITE],
        actor=SYSTEM,
        now=now,
        expires_at=now + KEY_LIFE,
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


def has_demo(demo: Iterable[DemoTenant]) -> bool:
    """Say whether every tenant of the demo exists and has runs."""
    known = dict(Tenant.objects.filter(slug__in=[plan.slug for plan in demo]).values_list("slug", "pk"))
    return all(plan.slug in known and Run.objects.for_tenants([known[plan.slug]]).exists() for plan in demo)


def demo_keys(demo: Iterable[DemoTenant], *, now: datetime, say: Callable[[str], None]) -> dict[str, str]:
    """Return a new key for each tenant of the demo by slug; tenants that are missing are made."""
    known = {tenant.slug: tenant for tenant in Tenant.objects.select_related("organisation")}
    keys = {}
    for plan in demo:
        tenant = known.get(plan.slug) or make_tenant(
            plan.slug, plan.name, organisation=_demo_organisation(plan, say), say=say
        )
        keys[plan.slug] = key_for(tenant, name="demo", now=now, say=say)
    return keys


def demo_key(slug: str) -> str:
    """Return the plain text of a new key for a tenant of the demo, which exists."""
    tenant = Tenant.objects.select_related("organisation").get(slug=slug)
    return key_for(tenant, name="demo, live", now=datetime.now(UTC), say=lambda line: None)


def _demo_organisation(plan: DemoTenant, say: Callable[[str], None]) -> Organisation:
    known = Organisation.objects.filter(slug=plan.organisation).first()
    return known or make_organisation(plan.organisation, plan.organisation.capitalize(), say=say)
