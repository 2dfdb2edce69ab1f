"""What an overview without runs shows: a key, what to put beside an agent, a call that sends a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from guardops.tenants.access import Visible, administered_tenants
from guardops.tenants.models import ApiKey, Tenant

if TYPE_CHECKING:
    from guardops.tenants.models import User


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The steps for ``slug``'s tenant; ``name`` is empty where the page is about several."""

    name: str
    slug: str
    key: ApiKey | None
    may_create: bool
    create_href: str
    connect_href: str
    gate_url: str
    sample_id: str  # changes with every look, so that a second call is a second run
    sample_started: str
    sample_ended: str
    plain: str = field(default="", repr=False)  # a key that was made just now, to be shown this once


def first_steps(
    user: User, seen: Visible, slug: str, *, gate_url: str, now: datetime, plain: str = ""
) -> FirstSteps:
    """Return the steps for one tenant, or for all that are ``seen`` where ``slug`` is empty."""
    tenants = [seen.by_slug(slug)] if slug else list(seen.tenants)
    ids, slugs = [tenant.pk for tenant in tenants], [tenant.slug for tenant in tenants]
    covering: Any = ApiKey.objects.for_tenants(Tenant.objects.filter(pk__in=ids))
    ended = now.astimezone(UTC).replace(microsecond=0)
    return FirstSteps(
        name=tenants[0].slug if len(tenants) == 1 else "",
        slug=tenants[0].slug,
        key=covering.live(now).first(),
        may_create=administered_tenants(user).filter(pk__in=ids).exists(),
        create_href=f"{reverse('tenants:key-create')}?{urlencode({'tenant': slugs}, doseq=True)}",
        connect_href=f"{reverse('runs:connect')}?{urlencode({'tenant': tenants[0].slug})}",
        gate_url=gate_url,
        sample_id=f"first-{ended:%Y%m%d-%H%M%S}",
        sample_started=f"{ended - timedelta(seconds=48):%Y-%m-%dT%H:%M:%SZ}",
        sample_ended=f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        plain=plain,
    )
