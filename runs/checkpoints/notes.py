"""Notes on a checkpoint: what reviewers tell each other."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from runs.models import Checkpoint, CheckpointNote

if TYPE_CHECKING:
    from guardops.tenants.models import User


def add_note(checkpoint: Checkpoint, text: str, *, actor: User, now: datetime) -> CheckpointNote:
    """Write a note; the form asks for one to 4,096 characters."""
    note: CheckpointNote = CheckpointNote.objects.create(
        tenant_id=checkpoint.tenant_id, checkpoint=checkpoint, text=text, by=actor, at=now
    )
    return note
