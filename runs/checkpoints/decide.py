"""Deciding: the only writer of what people decide. One of many wins, and nothing is handed out for 10 s.

`decide` is a compare-and-set on the checkpoint's version and state, `undo` one on its state and the
database's clock; the decision's row is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from django.db import connection
from django.db.models.functions import Now

from guardops.guard.decisions import DecisionAction
from guardops.tenants.actors import acting
from runs.choices import CheckpointState, LastStep
from runs.models import Checkpoint, CheckpointNote, Decision
from runs.notify.outbox import enqueue_decision

from .ceiling import ceiling_of
from .choice import UNDO, Choice, checked
from .claims import LEASE
from .errors import CheckpointChanged, InvalidDecision
from .moving import changed, fresh, notify, step
from .packet import Packet, read_packet
from .sub_agents import stop_sub_agents

if TYPE_CHECKING:
    from guardops.tenants.models import User

MAX_AT_ONCE = 100

# The clock is read while the row is locked, so that who waited for it is judged by the time then.
_UNDO = """
UPDATE checkpoint SET state = %(claimed)s, claimed_by_id = %(by)s, claimed_at = %(now)s,
    lease_until = %(lease)s, version = checkpoint.version + 1, last_did = %(did)s, last_by_id = %(by)s,
    last_at = %(now)s
FROM decision
WHERE decision.id = %(decision)s AND decision.checkpoint_id = checkpoint.id AND decision.undone_at IS NULL
    AND checkpoint.state = %(decided)s AND decision.deliver_at > clock_timestamp()"""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one checkpoint of several: its decision, or why there is none."""

    checkpoint: Checkpoint
    decision: Decision | None = None
    error: CheckpointChanged | InvalidDecision | None = None


def decide(checkpoint: Checkpoint, choice: Choice, *, actor: User, now: datetime, version: int) -> Decision:
    """Decide a checkpoint that is at ``version``, as the author saw it.

    Raises InvalidDecision, and CheckpointChanged where it is at another version, decided or expired. Who may
    decide is asked of `guardops.tenants.access`; who has claimed it does not matter here.
    """
    packet = read_packet(checkpoint)
    choice = checked(checkpoint, packet, choice, ceiling_of(checkpoint, now, packet), now)
    waiting = Checkpoint.objects.filter(pk=checkpoint.pk, version=version, expires_at__gt=now).waiting()
    with acting(actor):
        moved = waiting.update(
            state=CheckpointState.DECIDED,
            claimed_by=actor,
            claimed_at=now,
            lease_until=None,
            **step(LastStep.DECIDED, actor, now),
        )
        if moved:
            decision = _write(checkpoint, packet, choice, actor=actor, now=now, version=version)
            notify([(checkpoint.tenant_id, checkpoint.checkpoint_id)])
            enqueue_decision(decision, now=now)
            stop_sub_agents(checkpoint, decision, actor=actor, now=now)
            return decision
    raise changed(checkpoint.pk)


def undo(decision: Decision, *, actor: User, now: datetime) -> Checkpoint:
    """Take a decision back that nobody has got yet; the checkpoint is then claimed by ``actor``.

    Raises InvalidDecision ``too_late`` where it was handed out, or could have been.
    """
    values: dict[str, Any] = {
        "claimed": CheckpointState.CLAIMED,
        "decided": CheckpointState.DECIDED,
        "did": LastStep.UNDONE,
        "decision": decision.pk,
        "by": actor.pk,
        "now": now,
        "lease": now + LEASE,
    }
    with acting(actor), connection.cursor() as cursor:
        cursor.execute(_UNDO, values)
        if cursor.rowcount == 1:
            Decision.objects.filter(pk=decision.pk).update(undone_at=now, undone_by=actor)
            notify([(decision.tenant_id, decision.checkpoint.checkpoint_id)])
            return fresh(decision.checkpoint_id)
    if Decision.objects.filter(pk=decision.pk, undone_at=None).exists():
        raise InvalidDecision("too_late", "action", "The decision is on its way and can't be taken back.")
    raise changed(decision.checkpoint_id)


def decide_many(
    pairs: Sequence[tuple[Checkpoint, int]], choice: Choice, *, actor: User, now: datetime
) -> list[Result]:
    """Decide up to 100 checkpoints alike, each with the version its author saw and each for itself."""
    if len(pairs) > MAX_AT_ONCE:
        raise ValueError(f"At most {MAX_AT_ONCE} are decided at once.")
    results = []
    for checkpoint, version in pairs:
        try:
            decision = decide(checkpoint, choice, actor=actor, now=now, version=version)
            results.append(Result(checkpoint, decision))
        except (CheckpointChanged, InvalidDecision) as error:
            results.append(Result(checkpoint, error=error))
    return results


def _write(
    checkpoint: Checkpoint, packet: Packet, choice: Choice, *, actor: User, now: datetime, version: int
) -> Decision:
    approved = packet.refused if choice.action is DecisionAction.APPROVE else None
    at_once = choice.action is DecisionAction.STOP
    decision = Decision.objects.create(
        tenant_id=checkpoint.tenant_id,
        checkpoint=checkpoint,
        action=choice.action,
        reason=choice.reason,
        answer=choice.answer,
        change=_plain(choice.change) if choice.change else {},
        reconciled=[_plain(call) for call in choice.reconciled],
        tool=approved.tool if approved else "",
        args_hash=approved.args_hash if approved else "",
        artifact_digest=checkpoint.artifact_digest,
        version=version,
        by=actor,
        at=now,
        deliver_at=Now() if at_once else Now() + UNDO,
        expires_at=checkpoint.expires_at,
    )
    if choice.note:
        CheckpointNote.objects.create(
            tenant_id=checkpoint.tenant_id, checkpoint=checkpoint, text=choice.note, by=actor, at=now
        )
    decision.refresh_from_db(fields=["deliver_at"])
    return decision


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
