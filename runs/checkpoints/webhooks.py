"""What webhooks are sent of a decision: the very document that a guard gets, with the same signature."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from guardops.guard.bundle import canonical

from .deliver import hand_out


def body_of(decision_id: UUID) -> bytes | None:
    """Return a decision as JSON, and count it as handed out.

    None where there is nothing to carry out any more: it was undone, or nobody took it up in time.
    """
    decision = hand_out(decision_id, timezone.now())
    return canonical(decision) if decision is not None else None
