"""How much waits for a decision, for the navigation of every page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import template
from django.utils import timezone

from guardops.tenants.access import visible
from guardops.tenants.cache import ShortCache
from runs.checkpoints.queue import Waiting, count_waiting
from runs.reports.asked import tenant_ids_of

register = template.Library()

_found: ShortCache[Waiting] = ShortCache(size=2_000, age=timedelta(seconds=10))
"""A process's answers by person, since every page asks."""


@register.simple_tag(takes_context=True)
def open_checkpoints(context: template.Context) -> Waiting:
    """Return how many checkpoints the reader sees waiting, and how many of them over their SLA.

    Use it as ``{% open_checkpoints as waiting %}``; the count is at most ten seconds old.
    """
    user: Any = context["user"]
    if not user.is_authenticated:
        return Waiting(0, 0)
    now = timezone.now()
    key = f"{user.pk} {user.date_joined.timestamp()}".encode()
    found = _found.get(key, now)
    if found is None:
        found = count_waiting(tenant_ids_of("", visible(user)), now)
        _found.put(key, found, now)
    return found
