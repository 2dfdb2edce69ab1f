"""What an overview without runs shows: a key, a call that sends a first run, and that it is listening."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.urls import reverse

from guardops.tenants.access import Visible, administered_tenants
from guardops.tenants.models import ApiKey, Tenant

if TYPE_CHECKING:
    from guardops.tenants.models import User


@dataclass(frozen=True, slots=True)
class FirstSteps:
    name: str  # whose runs are missing; empty for several tenants
    key: ApiKey | None
    may_create: bool
    create_href: str
    sample: str
    replay: str


def first_steps(user: User, seen: Visible, slug: str, *, gate_url: str, now: datetime) -> FirstSteps:
    """Return the steps for one tenant, or for all that are ``seen`` where ``slug`` is empty."""
    tenants = [seen.by_slug(slug)] if slug else list(seen.tenants)
    one = tenants[0] if len(tenants) == 1 else None
    covering = ApiKey.objects.for_tenants(Tenant.objects.filter(pk__in=[tenant.pk for tenant in tenants]))
    return FirstSteps(
        name=one.slug if one else "",
        key=covering.live(now).first(),
        may_create=administered_tenants(user).filter(pk__in=[tenant.pk for tenant in tenants]).exists(),
        create_href=reverse("tenants:key-create") + (f"?tenant={one.slug}" if one else ""),
        sample=sample_call(gate_url, tenants[0].slug, now),
        replay=f"uv run manage.py replay runs.jsonl.gz --tenant {tenants[0].slug} --url {gate_url}",
    )


def sample_call(gate_url: str, slug: str, now: datetime) -> str:
    """Return a shell command that sends one run, under an id that another look at the page changes."""
    ended = now.replace(microsecond=0)
    event = {
        "type": "run.ended",
        "external_id": f"first-{ended:%Y%m%d-%H%M%S}",
        "tenant": slug,
        "job_type": "research",
        "outcome": "completed",
        "answer": "full",
        "started_at": _stamp(ended - timedelta(seconds=48)),
        "ended_at": _stamp(ended),
        "steps": 5,
        "turns": 6,
        "tool_calls": 5,
        "cost": "0.042",
    }
    return "\n".join(
        (
            f"curl {gate_url}/api/v1/events \\",
            '  -H "Authorization: Bearer $GUARDOPS_KEY" \\',
            "  -H 'Content-Type: application/json' \\",
            f"  -d '{json.dumps([event], indent=1)}'",
        )
    )


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
