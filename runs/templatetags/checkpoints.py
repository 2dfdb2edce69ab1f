"""What waits for a decision: how much, for every page's navigation, and which, beside a checkpoint's page."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.http import Http404, QueryDict
from django.urls import reverse
from django.utils import timezone

from guardops.tenants.access import Visible, visible
from guardops.tenants.cache import ShortCache
from runs.checkpoints.filters import QueueForm
from runs.checkpoints.queue import Queue, Waiting, count_waiting, read_queue
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


@register.inclusion_tag("runs/checkpoints/_rail.html", takes_context=True)
def review_rail(context: template.Context) -> dict[str, Any]:
    """Show the list that the reader came from, or all that waits, with this checkpoint marked in it."""
    user: Any = context["request"].user
    address = str(context.get("next") or "")
    params = QueryDict(address.partition("?")[2].partition("#")[0])
    seen, now = visible(user), context["as_of"]
    queue = _read(params, seen, user, now) or _read(QueryDict(), seen, user, now)
    return {
        "queue": queue,
        "here": context["checkpoint"].pk,
        "back": address,
        "list": address or reverse("runs:review-queue"),
        "many": len(seen.tenants) > 1,
        "as_of": now,
    }


def _read(params: QueryDict, seen: Visible, user: Any, now: datetime) -> Queue | None:
    """Return the list of an address; None where that is no list that the reader can see."""
    try:
        queue = read_queue(QueueForm(params), seen, user, params.get("tenant", ""), now)
    except Http404:
        return None
    return None if queue.state == "invalid" else queue
