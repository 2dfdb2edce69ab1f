"""What people decide on checkpoints: the decision as both ends know it, and the signature that proves it.

A decision names the checkpoint, the run, the tenant, the checkpoint's version and the digest of the artifact
that its author looked at. It is signed with one of the tenant's secrets, which guards have from their bundle:
a guard could forge decisions for its own tenant, and for no other. What may be done with it is done once:
whoever starts the next attempt first *consumes* it, and gets a grant for that attempt alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from guardops.guard.bundle import SigningKey, canonical
from guardops.guard.events import Attempt, Code, Cost, Count, Hash, Label, OnTimeout, SourceKind, Text, Time


class DecisionAction(StrEnum):
    """What a person decided."""

    RESUME = "resume"
    """Go on as attempt n + 1, with something changed."""
    ANSWER = "answer"
    """The person gives the answer; attempt n + 1 hands it over."""
    FORCE_ANSWER = "force_answer"
    """One turn without tools, marked incomplete, as attempt n + 1."""
    STOP = "stop"
    """The task ends unresolved, and its sub-agents with it."""
    APPROVE = "approve"
    """One use of one refused call, as attempt n + 1."""


class CheckpointState(StrEnum):
    """Where a checkpoint stands."""

    OPEN = "open"
    CLAIMED = "claimed"
    DECIDED = "decided"
    """Not handed out yet: it can be undone until its time of delivery."""
    DELIVERED = "delivered"
    CONSUMED = "consumed"
    EXPIRED = "expired"
    """Nobody decided in time: what ``on_timeout`` says holds."""
    UNDELIVERABLE = "undeliverable"
    """Decided, and nobody consumed it before it expired."""


class BlockedForTask(Struct, kw_only=True, frozen=True):
    """A source that the next attempt must not use."""

    kind: SourceKind
    name: Annotated[str, Meta(min_length=1, max_length=253)]


class AddedBudget(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What the next attempt may use on top of what its task has left."""

    steps: Count = 0
    seconds: Count = 0
    cost: Cost = Decimal(0)


class DecisionChange(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What is different in the next attempt: a resume without any change would only loop again."""

    input: Text | None = None
    evidence: Text | None = None
    blocked_sources: Annotated[tuple[BlockedForTask, ...], Meta(max_length=20)] = ()
    budget: AddedBudget | None = None


class Reconciled(Struct, kw_only=True, frozen=True):
    """What a person found out about a write of unknown outcome."""

    tool: Label
    args_hash: Hash
    happened: bool


class Decision(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """A decision as guards and webhooks get it; ``tool`` and ``args_hash`` name the call that is approved.

    After ``expires_at`` nobody may consume it. ``signature`` is HMAC-SHA256 over the canonical form of all
    other fields, in 64 hex digits, made with the tenant's secret that ``kid`` names.
    """

    decision_id: UUID
    checkpoint_id: UUID
    tenant: Label
    action: DecisionAction
    artifact_digest: Hash
    version: Count
    expires_at: Time
    run_id: UUID | None = None
    attempt: Attempt = 1
    """The attempt that was handed to a person; the next one is one more."""
    reason: Text = ""
    answer: Text | None = None
    change: DecisionChange | None = None
    reconciled: Annotated[tuple[Reconciled, ...], Meta(max_length=20)] = ()
    tool: Label = ""
    args_hash: Hash = ""
    kid: Code | None = None
    signature: Hash | None = None


class CheckpointReply(Struct, kw_only=True, omit_defaults=False):
    """`GET /api/v1/checkpoints/{id}`: the state, and the decision once it can no longer be undone."""

    checkpoint_id: UUID
    state: CheckpointState
    expires_at: Time
    on_timeout: OnTimeout
    decision: Decision | None = None


class Consume(Struct, kw_only=True):
    """`POST /api/v1/checkpoints/{id}/consume`: who starts the next attempt, and from what."""

    decision_id: UUID
    attempt_id: UUID
    artifact_digest: Hash


class Grant(Struct, kw_only=True, omit_defaults=False):
    """The one permission to carry a decision out; asked again, the same attempt gets the same."""

    decision: Decision
    attempt_id: UUID
    attempt: Attempt
    consumed_at: Time


class Refused(ValueError):
    """A decision that must not be acted on; ``code`` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def sign(decision: Decision, key: SigningKey) -> Decision:
    """Return the decision with the tenant's signature."""
    named = msgspec.structs.replace(decision, kid=key.kid, signature=None)
    return msgspec.structs.replace(named, signature=_signature(named, key.secret))


def prove(
    decision: Decision,
    *,
    checkpoint_id: UUID,
    tenant: str,
    artifact_digest: str,
    now: datetime,
    keys: Sequence[SigningKey],
) -> None:
    """Raise :class:`Refused` unless the decision is about this checkpoint, as it was opened, and holds.

    The codes are ``wrong_checkpoint``, ``wrong_tenant``, ``wrong_artifact``, ``expired``, ``unknown_key`` and
    ``wrong_signature``. An empty ``tenant`` is the one of the keys.
    """
    if decision.checkpoint_id != checkpoint_id:
        raise Refused("wrong_checkpoint", "the decision is about another checkpoint")
    if tenant and decision.tenant != tenant:
        raise Refused("wrong_tenant", "the decision is another tenant's")
    if decision.artifact_digest != artifact_digest:
        raise Refused("wrong_artifact", "the decision was made on another artifact")
    if now >= decision.expires_at.astimezone(UTC):
        raise Refused("expired", "the decision has expired")
    key = next((key for key in keys if key.kid == decision.kid), None)
    if key is None or (key.not_after is not None and now >= key.not_after):
        raise Refused("unknown_key", "no living key of the tenant signed the decision")
    given = (decision.signature or "").encode(errors="replace")
    if not hmac.compare_digest(_signature(decision, key.secret).encode(), given):
        raise Refused("wrong_signature", "the signature is wrong")


def _signature(decision: Decision, secret: str) -> str:
    content = canonical(msgspec.structs.replace(decision, signature=None))
    return hmac.new(secret.encode(), content, sha256).hexdigest()
