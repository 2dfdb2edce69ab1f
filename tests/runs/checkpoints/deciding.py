"""Deciding in few words, for tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from guardops.guard.decisions import DecisionAction, DecisionChange
from guardops.tenants.models import User
from runs.checkpoints.choice import Choice
from runs.checkpoints.decide import decide
from runs.models import Checkpoint, Decision

STOP = Choice(DecisionAction.STOP, reason="enough")


def resume(**change: Any) -> Choice:
    """Return a resume with a change: new input, unless another is given."""
    return Choice(
        DecisionAction.RESUME,
        reason="the list is on page 3",
        change=DecisionChange(**(change or {"input": "look at page 3"})),
    )


def decided(
    checkpoint: Checkpoint, by: User, now: datetime, choice: Choice | None = None, version: int | None = None
) -> Decision:
    return decide(
        checkpoint,
        choice or resume(),
        actor=by,
        now=now,
        version=checkpoint.version if version is None else version,
    )
