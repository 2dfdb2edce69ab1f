"""Where the runs of a task were handed to a person, and what was decided there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import FilteredRelation, Q

from runs.choices import CheckpointState, DecisionAction
from runs.models import Checkpoint

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant

MOST = 50
_WAITING = (CheckpointState.OPEN, CheckpointState.CLAIMED)


@dataclass(frozen=True, slots=True)
class Handoff:
    """One checkpoint; ``action`` is empty while nobody has decided, ``by`` where nobody did in time."""

    checkpoint_id: UUID
    state: CheckpointState
    action: str
    by: str

    @property
    def words(self) -> str:
        """What was decided, or that it waits."""
        if self.state in _WAITING:
            return "waits for a decision"
        return str(DecisionAction(self.action).label) if self.action else "not decided"


def read_handoffs(tenant: Tenant, task_id: str) -> Mapping[UUID, Handoff]:
    """Return the checkpoints of a task by the id of the run that was handed over, in one query."""
    of_task = Checkpoint.objects.for_tenants([tenant.pk]).of_task(task_id).exclude(run_id=None)
    standing = FilteredRelation("decisions", condition=Q(decisions__undone_at=None))
    rows = of_task.annotate(standing=standing).order_by("-id")[:MOST]
    return {
        run_id: Handoff(checkpoint_id, CheckpointState(state), action or "", by or "")
        for run_id, checkpoint_id, state, action, by in rows.values_list(
            "run_id", "checkpoint_id", "state", "standing__action", "standing__by__username"
        )
    }
