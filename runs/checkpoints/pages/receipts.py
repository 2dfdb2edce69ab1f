"""A decision in words, and its way: recorded, handed out, carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from guardops import shown
from guardops.guard.decisions import DecisionChange, Reconciled
from runs.checkpoints.words import ACTIONS, ActionWords
from runs.choices import CheckpointState, DecisionAction
from runs.models import Decision

if TYPE_CHECKING:
    from runs.models import Checkpoint

_HANDED_OUT = (CheckpointState.DELIVERED, CheckpointState.CONSUMED)


@dataclass(frozen=True, slots=True)
class Receipt:
    """One decision on a checkpoint at ``now``."""

    decision: Decision
    checkpoint: Checkpoint
    now: datetime

    @property
    def words(self) -> ActionWords:
        return ACTIONS[self.decision.action]

    @property
    def change(self) -> DecisionChange:
        return msgspec.convert(self.decision.change, DecisionChange)

    @property
    def reconciled(self) -> Sequence[Reconciled]:
        return msgspec.convert(self.decision.reconciled, list[Reconciled])

    @property
    def can_undo(self) -> bool:
        """Whether nobody can have got it yet; the database has the last word."""
        made = self.decision
        return (
            self.checkpoint.state == CheckpointState.DECIDED
            and made.undone_at is None
            and made.action != DecisionAction.STOP
            and made.deliver_at > self.now
        )

    @property
    def milliseconds_left(self) -> int:
        """How long it can still be taken back, as a page counts down."""
        return max(0, round((self.decision.deliver_at - self.now).total_seconds() * 1_000))

    @property
    def is_lost(self) -> bool:
        """Whether nobody will carry it out any more."""
        return self.checkpoint.state == CheckpointState.UNDELIVERABLE

    @property
    def delivery_lag(self) -> str:
        """How long it lay until somebody got it, from when it could be handed out."""
        made = self.decision
        return _between(made.deliver_at, made.delivered_at)

    @property
    def consumption_lag(self) -> str:
        """How long it took from then until an attempt began with it."""
        return _between(self.decision.delivered_at, self.decision.consumed_at)

    @property
    def waits_since(self) -> str:
        """How long nobody has fetched it, or fetched and not carried it out."""
        made = self.decision
        return _between(made.delivered_at or made.deliver_at, self.now)


def _between(start: datetime | None, end: datetime | None) -> str:
    return shown.duration(end - start) if start and end else ""


def receipts_of(checkpoint: Checkpoint, now: datetime) -> Sequence[Receipt]:
    """Return the decisions that were taken back, the newest first."""
    undone = Decision.objects.filter(checkpoint=checkpoint.pk).exclude(undone_at=None)
    return [
        Receipt(one, checkpoint, now) for one in undone.select_related("by", "undone_by").order_by("-at")[:10]
    ]
