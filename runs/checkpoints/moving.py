"""What every transition of a checkpoint shares: who made it, what losers are told, whom it wakes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connection
from django.db.models import F

from runs.choices import LastStep
from runs.models import Checkpoint, Decision

from .errors import Change, CheckpointChanged

if TYPE_CHECKING:
    from guardops.tenants.models import User

CHANNEL = "guardops_checkpoint"
"""Where the gate hears ``<tenant id> <checkpoint_id>``; a hint only, it reads the rows anyway."""


def step(did: LastStep, by: User | None, now: datetime) -> dict[str, Any]:
    """Return the columns of a transition that others must know of before they decide."""
    return {"last_did": did, "last_by": by, "last_at": now, "version": F("version") + 1}


def fresh(checkpoint_pk: int) -> Checkpoint:
    """Return a checkpoint as it is now, with its people and, in ``decided``, the decision that stands."""
    checkpoint: Checkpoint = Checkpoint.objects.select_related("tenant", "claimed_by", "last_by").get(
        pk=checkpoint_pk
    )
    standing = Decision.objects.standing().select_related("by")
    checkpoint.decided = standing.filter(checkpoint=checkpoint_pk).first()
    return checkpoint


def changed(checkpoint_pk: int) -> CheckpointChanged:
    """Return what to tell somebody who came too late."""
    current = fresh(checkpoint_pk)
    return CheckpointChanged(change_of(current), current)


def change_of(checkpoint: Checkpoint) -> Change:
    """Return the last transition in words."""
    did = LastStep(checkpoint.last_did)
    words = str(did.label)
    decided = getattr(checkpoint, "decided", None)
    if did is LastStep.DECIDED and decided is not None:
        words = f"decided it ({decided.get_action_display().lower()})"
    by = checkpoint.last_by
    return Change(by.get_username() if by else _nobody(did), checkpoint.last_at, words)


def notify(keys: Iterable[tuple[int, UUID]]) -> None:
    """Tell the gates, when the transaction commits, that these checkpoints have changed."""
    pairs = [(tenant_id, str(checkpoint_id)) for tenant_id, checkpoint_id in keys]
    if not pairs:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_notify(%s, moved.tenant_id || ' ' || moved.checkpoint_id)"
            " FROM unnest(%s::int[], %s::text[]) AS moved (tenant_id, checkpoint_id)",
            [CHANNEL, [tenant_id for tenant_id, _ in pairs], [name for _, name in pairs]],
        )


def _nobody(did: LastStep) -> str:
    """Return who makes a transition that names no person."""
    if did in (LastStep.OPENED, LastStep.DELIVERED, LastStep.CONSUMED):
        return "The agent"
    of_time = (LastStep.EXPIRED, LastStep.UNDELIVERABLE)
    return "GuardOps" if did in of_time else "Somebody who has left"
