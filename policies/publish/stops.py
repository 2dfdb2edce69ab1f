"""Stop orders: issued and lifted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from guardops.tenants.actors import System
from guardops.tenants.models import Tenant, User
from policies.choices import ChangeKind, StopScope
from policies.errors import InvalidStop
from policies.models import Change, Stop

from .changes import begin_change
from .writing import publishing


@dataclass(frozen=True, slots=True)
class Issued:
    """A standing order, and the change that carries it to the guards (None where it stood already)."""

    stop: Stop
    change: Change | None


def issue_stop(
    tenant: Tenant,
    scope: StopScope,
    name: str,
    *,
    reason: str,
    actor: User | System,
    now: datetime,
    expires_at: datetime | None = None,
) -> Issued:
    """Order that what ``scope`` and ``name`` say makes no further call; one that stands already stays.

    Raises InvalidStop: ``no_name``, ``no_reason`` or ``over``.
    """
    name = "" if scope == StopScope.TENANT else name  # to the letter: guards compare it so
    if scope != StopScope.TENANT and not name.strip():
        raise InvalidStop("Name what is to stop.", code="no_name")
    if not reason.strip():
        raise InvalidStop("Say why: whoever finds the run stopped will ask.", code="no_reason")
    if expires_at is not None and expires_at <= now:
        raise InvalidStop("The end must lie ahead.", code="over")
    with publishing(actor):
        # Of two equal orders one waits, and finds the other.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        stop = Stop.objects.filter(tenant=tenant, scope=scope, name=name, lifted_at=None).first()
        if stop is not None and (stop.expires_at is None or stop.expires_at > now):
            return Issued(stop, None)
        if stop is not None:  # expired: it makes room
            _lift(stop, None, now)
        stop = Stop.objects.create(
            tenant=tenant,
            scope=scope,
            name=name,
            reason=reason.strip(),
            expires_at=expires_at,
            created_by=_person(actor),
            created_at=now,
        )
        return Issued(stop, _change(f"Stop {stop}", stop, actor, now))


def lift_stop(stop: Stop, *, actor: User | System, now: datetime) -> Change | None:
    """Lift an order; None where it has been lifted already. Runs that it ended stay ended."""
    with publishing(actor):
        # Compare and set: of two people who lift at once, one does.
        locked = Stop.objects.filter(pk=stop.pk, lifted_at=None).select_for_update(of=("self",)).first()
        if locked is None:
            return None
        _lift(locked, _person(actor), now)
        return _change(f"Lift the stop of {locked}", locked, actor, now)


def _lift(stop: Stop, person: User | None, now: datetime) -> None:
    stop.lifted_at, stop.lifted_by = now, person
    stop.save(update_fields=["lifted_at", "lifted_by"])


def _change(summary: str, stop: Stop, actor: User | System, now: datetime) -> Change:
    return begin_change(
        ChangeKind.STOP,
        summary,
        organisation=stop.tenant.organisation,
        tenant=stop.tenant,
        actor=actor,
        now=now,
    )


def _person(actor: User | System) -> User | None:
    return actor if isinstance(actor, User) else None
