"""Handing decisions out: signed, once they can no longer be undone, and to one attempt only.

Whether a decision may go out is one compare-and-set on the checkpoint's state and the database's clock, the
same that `decide.undo` loses to. Consuming locks the checkpoint's row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, transaction
from django.db.models import Q

from guardops.guard import decisions as wire
from guardops.guard.bundle import SigningKey
from guardops.guard.decisions import CheckpointReply, Consume, Grant
from guardops.guard.events import OnTimeout
from guardops.tenants.actors import SYSTEM, acting
from policies.models import SigningSecret
from policies.pull.reading import read_newest
from runs.choices import CheckpointState, LastStep
from runs.models import Checkpoint, Decision

from .errors import AlreadyConsumed, DecisionExpired, NotDelivered, UnknownCheckpoint, WrongArtifact
from .moving import fresh, notify, step
from .timeouts import expire

_WAITING = (CheckpointState.OPEN, CheckpointState.CLAIMED)
_HANDED_OUT = (CheckpointState.DELIVERED, CheckpointState.CONSUMED, CheckpointState.EXPIRED)
_DELIVER = """
UPDATE checkpoint SET state = %(delivered)s, version = checkpoint.version + 1, last_did = %(did)s,
    last_by_id = NULL, last_at = %(now)s
FROM decision
WHERE decision.id = %(decision)s AND decision.checkpoint_id = checkpoint.id AND decision.undone_at IS NULL
    AND checkpoint.state = %(decided)s AND decision.deliver_at <= clock_timestamp()
    AND decision.expires_at > %(now)s"""


def read_reply(tenant_id: int, checkpoint_id: UUID, now: datetime) -> CheckpointReply:
    """Return where a checkpoint stands, with its decision once that can no longer be undone.

    What is handed out is marked as delivered, what expired unnoticed expires now. Raises UnknownCheckpoint.
    """
    found = Checkpoint.objects.filter(tenant=tenant_id, checkpoint_id=checkpoint_id)
    pk = found.values_list("pk", flat=True).first()
    if pk is None:
        raise UnknownCheckpoint("This tenant has no such checkpoint, or not yet.")
    checkpoint = fresh(pk)
    if checkpoint.state in _WAITING and checkpoint.expires_at <= now:
        expire(checkpoint, now)
        checkpoint = fresh(pk)
    decision = checkpoint.decided
    if decision is not None and decision.delivered_at is None and _deliver(checkpoint, decision, now):
        checkpoint = fresh(pk)
        decision = checkpoint.decided
    handed_out = decision is not None and checkpoint.state in _HANDED_OUT
    state = wire.CheckpointState(checkpoint.state)
    if decision is not None and decision.consumed_at is None and decision.expires_at <= now:
        handed_out, state = False, wire.CheckpointState.UNDELIVERABLE  # as the sweep will soon have it
    return CheckpointReply(
        checkpoint_id=checkpoint_id,
        state=state,
        expires_at=checkpoint.expires_at,
        on_timeout=OnTimeout(checkpoint.on_timeout),
        decision=signed(checkpoint, decision, now) if decision is not None and handed_out else None,
    )


def hand_out(decision_id: UUID, now: datetime) -> wire.Decision | None:
    """Return the signed decision for a webhook and mark it as delivered.

    None where it was undone, can still be, has expired unconsumed or is gone.
    """
    decision = Decision.objects.standing().filter(pk=decision_id).first()
    if decision is None:
        return None
    checkpoint = fresh(decision.checkpoint_id)
    if decision.delivered_at is None and _deliver(checkpoint, decision, now):
        checkpoint = fresh(decision.checkpoint_id)
    return signed(checkpoint, decision, now) if checkpoint.state in _HANDED_OUT else None


def consume(tenant_id: int, checkpoint_id: UUID, wanted: Consume, now: datetime) -> Grant:
    """Give the decision to one attempt; the same attempt may ask again and gets the same grant.

    Raises UnknownCheckpoint, WrongArtifact, NotDelivered, DecisionExpired, and AlreadyConsumed for others.
    """
    with acting(SYSTEM):
        # Locked: of two attempts the second finds what the first has written.
        found = Checkpoint.objects.select_for_update(of=("self",)).select_related("tenant")
        checkpoint = found.filter(tenant=tenant_id, checkpoint_id=checkpoint_id).first()
        standing = Decision.objects.standing().filter(checkpoint=checkpoint, pk=wanted.decision_id)
        decision = standing.first() if checkpoint else None
        if checkpoint is None or decision is None:
            raise UnknownCheckpoint("There is no such decision on this checkpoint.")
        if wanted.artifact_digest != decision.artifact_digest:
            raise WrongArtifact("The decision was made on another artifact.")
        if decision.consumed_at is None:
            _grant(checkpoint, decision, wanted.attempt_id, now)
        elif decision.attempt_id != wanted.attempt_id:
            raise AlreadyConsumed(decision.attempt_id, decision.consumed_at)
        return Grant(
            decision=signed(checkpoint, decision, now),
            attempt_id=decision.attempt_id,
            attempt=decision.attempt,
            consumed_at=decision.consumed_at,
        )


def signed(checkpoint: Checkpoint, decision: Decision, now: datetime) -> wire.Decision:
    """Return the decision as the wire has it, signed with the tenant's newest living secret."""
    change = msgspec.convert(decision.change, wire.DecisionChange) if decision.change else None
    said = wire.Decision(
        decision_id=decision.pk,
        checkpoint_id=checkpoint.checkpoint_id,
        tenant=checkpoint.tenant.slug,
        action=wire.DecisionAction(decision.action),
        artifact_digest=decision.artifact_digest,
        version=decision.version,
        expires_at=decision.expires_at,
        # A guard that gave its run another id has never heard of ours.
        run_id=None if checkpoint.external_id else checkpoint.run_id,
        attempt=checkpoint.attempt,
        reason=decision.reason,
        answer=decision.answer or None,
        change=change,
        reconciled=tuple(msgspec.convert(item, wire.Reconciled) for item in decision.reconciled),
        tool=decision.tool,
        args_hash=decision.args_hash,
    )
    return wire.sign(said, _key(checkpoint.tenant_id, now))


def _deliver(checkpoint: Checkpoint, decision: Decision, now: datetime) -> bool:
    """Mark the decision as delivered; say whether it is this caller's doing."""
    if checkpoint.state == CheckpointState.EXPIRED:
        # GuardOps' own decision: the checkpoint stays expired, only the receipt is new.
        return Decision.objects.filter(pk=decision.pk, delivered_at=None).update(delivered_at=now) == 1
    values: dict[str, Any] = {
        "delivered": CheckpointState.DELIVERED,
        "decided": CheckpointState.DECIDED,
        "did": LastStep.DELIVERED,
        "decision": decision.pk,
        "now": now,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DELIVER, values)
        if cursor.rowcount != 1:
            return False
        Decision.objects.filter(pk=decision.pk).update(delivered_at=now)
        notify([(checkpoint.tenant_id, checkpoint.checkpoint_id)])
        return True


def _grant(checkpoint: Checkpoint, decision: Decision, attempt_id: UUID, now: datetime) -> None:
    if checkpoint.state == CheckpointState.UNDELIVERABLE or decision.expires_at <= now:
        raise DecisionExpired("Nobody took this decision up in time.")
    if decision.delivered_at is None:
        raise NotDelivered("This decision was not handed out yet.")
    decision.consumed_at, decision.attempt_id = now, attempt_id
    decision.attempt = checkpoint.attempt + 1
    decision.save(update_fields=["consumed_at", "attempt_id", "attempt"])
    delivered = Checkpoint.objects.filter(pk=checkpoint.pk, state=CheckpointState.DELIVERED)
    delivered.update(state=CheckpointState.CONSUMED, **step(LastStep.CONSUMED, None, now))
    notify([(checkpoint.tenant_id, checkpoint.checkpoint_id)])


def _key(tenant_id: int, now: datetime) -> SigningKey:
    living = SigningSecret.objects.filter(Q(not_after=None) | Q(not_after__gt=now), tenant=tenant_id)
    newest = living.order_by("-created_at", "-pk").first()
    if newest is None:  # the tenant's first bundle brings its first secret
        read_newest([tenant_id], now)
        newest = living.order_by("-created_at", "-pk")[0]
    return SigningKey(kid=newest.kid, secret=newest.secret, not_after=newest.not_after)
