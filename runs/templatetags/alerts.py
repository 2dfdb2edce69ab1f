"""How many incidents stand open, and whether rules are judged at all, for the navigation of every page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import template
from django.db.models import Count, Q
from django.utils import timezone

from guardops.tenants.access import visible
from guardops.tenants.cache import ShortCache
from runs.alerts.standing import STOPPED_AFTER, last_judged
from runs.choices import IncidentState, Severity
from runs.models import Incident

register = template.Library()


@dataclass(frozen=True, slots=True)
class Standing:
    """Open incidents that nobody has acknowledged, and how many of them are critical.

    ``stopped`` says that rules were judged once and are no longer: beat or the worker is down.
    """

    open: int = 0
    critical: int = 0
    stopped: bool = False


_found: ShortCache[Standing] = ShortCache(size=2_000, age=timedelta(seconds=10))
"""A process's answers by person, since every page asks."""


@register.simple_tag(takes_context=True)
def open_incidents(context: template.Context) -> Standing:
    """Return what stands open in what the reader sees.

    Use it as ``{% open_incidents as nav_alerts %}``; it is at most ten seconds old.
    """
    user: Any = context["user"]
    if not user.is_authenticated:
        return Standing()
    now = timezone.now()
    key = f"{user.pk} {user.date_joined.timestamp()}".encode()
    found = _found.get(key, now)
    if found is None:
        counted = (
            Incident.objects.seen_by(visible(user))
            .among([IncidentState.OPEN])
            .aggregate(open=Count("pk"), critical=Count("pk", Q(severity=Severity.CRITICAL)))
        )
        last = last_judged()
        found = Standing(stopped=last is not None and now - last >= STOPPED_AFTER, **counted)
        _found.put(key, found, now)
    return found
