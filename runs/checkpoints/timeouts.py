"""What time does to checkpoints: expiry, passed SLAs, ended leases, decisions that nobody takes up.

Everything is found from rows and safe to run twice, at once too: each row is moved by a compare-and-set, and
sweeps step round what others hold. Nothing here resumes a run, and nothing touches what a person decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from guardops.tenants.actors import SYSTEM, acting
from runs.choices import CheckpointState, LastStep
from runs.models import Checkpoint, Decision
from runs.notify.outbox import enqueue_decision

from .moving import notify, step
from .sub_agents import stop_sub_agents

AT_ONCE = 500
"""Rows that one sweep moves of each kind; the next goes on."""
RECEIPT = timedelta(days=7)
"""How long after its expiry a checkpoint's guard may still fetch what holds then."""
UNCONSUMED = timedelta(minutes=10)
"""After which a decision that was not taken up is marked."""

_END_LEASES = """
UPDATE checkpoint SET state = 'open', last_did = %(did)s, last_by_id = claimed_by_id, last_at = %(now)s,
    claimed_by_id = NULL, claimed_at = NULL, lease_until = NULL
WHERE state = 'claimed' AND lease_until <= %(now)s AND id IN (
    SELECT id FROM checkpoint WHERE state = 'claimed' AND lease_until <= %(now)s
    ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED)"""
_ESCALATE = """
UPDATE checkpoint SET escalated_at = %(now)s
WHERE escalated_at IS NULL AND id IN (
    SELECT id FROM checkpoint
    WHERE state IN ('open', 'claimed') AND due_at <= %(now)s AND escalated_at IS NULL
    ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED)"""
_GIVE_UP = """
UPDATE checkpoint SET state = 'undeliverable', version = version + 1, last_did = %(did)s, last_by_id = NULL,
    last_at = %(now)s
WHERE state IN ('decided', 'delivered') AND id IN (
    SELECT checkpoint.id FROM decision JOIN checkpoint ON checkpoint.id = decision.checkpoint_id
    WHERE decision.consumed_at IS NULL AND decision.undone_at IS NULL AND decision.expires_at <= %(now)s
        AND checkpoint.state IN ('decided', 'delivered')
    ORDER BY checkpoint.id LIMIT %(most)s FOR UPDATE OF checkpoint SKIP LOCKED)
RETURNING tenant_id, checkpoint_id"""
_ALERT = """
UPDATE decision SET alerted_at = %(now)s
WHERE alerted_at IS NULL AND id IN (
    SELECT id FROM decision
    WHERE consumed_at IS NULL AND undone_at IS NULL AND alerted_at IS NULL
        AND deliver_at <= %(late)s AND expires_at > %(now)s
    ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED)"""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows one sweep moved, by what became of them."""

    expired: int = 0
    leases: int = 0
    escalated: int = 0
    undeliverable: int = 0
    unconsumed: int = 0


def sweep_checkpoints(now: datetime) -> Swept:
    """Do everything that is due."""
    return Swept(
        expired=expire_due(now),
        leases=end_leases(now),
        escalated=escalate_due(now),
        undeliverable=give_up_undeliverable(now),
        unconsumed=mark_unconsumed(now),
    )


def expire_due(now: datetime) -> int:
    """Expire what nobody decided in time; return how many there were."""
    due = Checkpoint.objects.waiting().filter(expires_at__lte=now).order_by("expires_at")[:AT_ONCE]
    return sum(expire(checkpoint, now) is not None for checkpoint in due)


def expire(checkpoint: Checkpoint, now: datetime) -> Decision | None:
    """Let ``on_timeout`` hold, as a decision of GuardOps; None where somebody decided, or it is not due.

    Compare-and-set on the state: what a person decided stays.
    """
    waiting = Checkpoint.objects.waiting().filter(pk=checkpoint.pk, expires_at__lte=now)
    with acting(SYSTEM):
        moved = waiting.update(
            state=CheckpointState.EXPIRED,
            lease_until=None,
            **step(LastStep.EXPIRED, None, now),
        )
        if not moved:
            return None
        decision: Decision = Decision.objects.create(
            tenant_id=checkpoint.tenant_id,
            checkpoint=checkpoint,
            action=checkpoint.on_timeout,
            reason="Nobody decided in time.",
            artifact_digest=checkpoint.artifact_digest,
            version=checkpoint.version,
            by_system=True,
            at=now,
            deliver_at=now,
            expires_at=max(checkpoint.expires_at, now) + RECEIPT,
        )
        notify([(checkpoint.tenant_id, checkpoint.checkpoint_id)])
        enqueue_decision(decision, now=now)
        stop_sub_agents(checkpoint, decision, actor=SYSTEM, now=now)
        return decision


def end_leases(now: datetime) -> int:
    """Open checkpoints whose claim has run out; return how many.

    The version stays: nothing that a decision rests on has changed.
    """
    return _sweep(_END_LEASES, now, did=LastStep.LEASE_ENDED)


def escalate_due(now: datetime) -> int:
    """Mark what nobody decided within its SLA, once; return how many. Alerts look at the rows anew."""
    return _sweep(_ESCALATE, now)


def give_up_undeliverable(now: datetime) -> int:
    """Close checkpoints whose decision nobody took up before it expired; return how many."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_GIVE_UP, {"now": now, "most": AT_ONCE, "did": LastStep.UNDELIVERABLE})
        moved = cursor.fetchall()
        notify(moved)
        return len(moved)


def mark_unconsumed(now: datetime) -> int:
    """Mark decisions that nobody took up for ten minutes, once; return how many. Alerts look anew."""
    return _sweep(_ALERT, now, late=now - UNCONSUMED)


def _sweep(statement: str, now: datetime, **values: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"now": now, "most": AT_ONCE, **values})
        return int(cursor.rowcount)
