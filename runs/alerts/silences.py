"""Silences: nobody is told of what they cover, and what is still there at their end is told then.

A silence outlives its incident: the same thing that comes again is covered as well, until the end. Ending is
compare-and-set, and so is settling, which happens once however many evaluations come upon it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from django.db import transaction
from django.db.models import Q

from guardops.tenants.actors import acting
from guardops.tenants.errors import GuardOpsError
from runs.choices import RuleKind
from runs.models import Incident, Silence
from runs.models.alerts import MAX_REASON, MAX_SUBJECT

from .incidents import unsilence
from .telling import is_silenced

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant, User

    from .querysets import IncidentQuerySet

LONGEST = timedelta(days=30)


class InvalidSilence(GuardOpsError):
    """A silence can't be made so: ``no_reason``, ``over``, ``too_long``."""

    default_code: ClassVar[str] = "invalid_silence"


def silence(
    tenant: Tenant | None,
    *,
    rule: RuleKind | None,
    subject: str = "",
    until: datetime,
    reason: str,
    actor: User,
    now: datetime,
) -> Silence:
    """Keep quiet about a tenant's incidents, or without one the installation's; no rule or subject: any."""
    if not reason.strip():
        raise InvalidSilence("Say why: whoever misses a page will ask.", code="no_reason")
    if until <= now:
        raise InvalidSilence("Its end must lie ahead.", code="over")
    if until - now > LONGEST:
        raise InvalidSilence(f"A silence lasts {LONGEST.days} days at most.", code="too_long")
    with acting(actor):
        return Silence.objects.create(
            tenant=tenant,
            rule=rule or "",
            subject=subject[:MAX_SUBJECT],
            reason=reason.strip()[:MAX_REASON],
            until=until,
            created_at=now,
            created_by=actor,
        )


def end_silence(found: Silence, *, actor: User, now: datetime) -> bool:
    """End a silence before its time, and tell of what it covered; False where it has ended already."""
    with acting(actor):
        # Compare-and-set: of two people who end it at once, one does.
        in_force = Silence.objects.in_force(now).filter(pk=found.pk)
        if not in_force.update(ended_at=now, ended_by=actor):
            return False
        _settle(found.pk, now)
    return True


def settle_silences(now: datetime) -> int:
    """Tell of what is still there under silences that have ended; return how many of those there were."""
    ended = list(Silence.objects.over(now).order_by("until", "pk").values_list("pk", flat=True))
    return sum(_settle(pk, now) for pk in ended)


def _settle(pk: int, now: datetime) -> bool:
    """Tell once of each open incident that the silence covered and that no other one covers."""
    with transaction.atomic():
        found = Silence.objects.over(now).filter(pk=pk).select_for_update(of=("self",)).first()
        if found is None:
            return False  # another was first
        for incident in _covered(found).order_by("opened_at", "pk").select_for_update(of=("self",)):
            if not is_silenced(incident, now):
                unsilence(incident, now=now)
        Silence.objects.filter(pk=pk).update(settled_at=now)
    return True


def _covered(found: Silence) -> IncidentQuerySet:
    """Return what is not over and the silence covers, told before it began or not."""
    named = Q(tenant=found.tenant_id)
    if found.rule:
        named &= Q(rule=found.rule)
    if found.subject:
        named &= Q(subject=found.subject)
    unresolved: IncidentQuerySet = Incident.objects.unresolved()
    return unresolved.filter(named)
