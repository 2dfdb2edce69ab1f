"""Questions about checkpoints and decisions, as queryset verbs; ``for_tenants`` comes first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.db.models import Q

from guardops.guard.reasons import Family, canonical
from runs.choices import CheckpointState
from runs.querysets import TenantsQuerySet, as_id

_WAITING = (CheckpointState.OPEN, CheckpointState.CLAIMED)


class CheckpointQuerySet(TenantsQuerySet):
    def in_states(self, states: Iterable[str]) -> Self:
        return self.filter(state__in=tuple(states))

    def waiting(self) -> Self:
        """Checkpoints that nobody has decided: open and claimed ones, expired or not."""
        return self.filter(state__in=_WAITING)

    def claimed(self, now: datetime) -> Self:
        """Those that somebody works on: a lease that has ended counts as none."""
        return self.filter(state=CheckpointState.CLAIMED, lease_until__gt=now)

    def unclaimed(self, now: datetime) -> Self:
        """Waiting ones that nobody works on."""
        return self.filter(
            Q(state=CheckpointState.OPEN) | Q(state=CheckpointState.CLAIMED, lease_until__lte=now)
        )

    def claimed_by(self, user_id: int, now: datetime) -> Self:
        return self.claimed(now).filter(claimed_by=user_id)

    def over_sla(self, now: datetime) -> Self:
        """Waiting ones that should have been decided."""
        return self.waiting().filter(due_at__lte=now)

    def of_job(self, job_type: str) -> Self:
        return self.filter(job_type=job_type)

    def stopped_for(self, reason: str) -> Self:
        """Checkpoints of a reason's code or alias; ``other`` means every code the catalogue lacks."""
        if reason == Family.OTHER:
            return self.filter(family=Family.OTHER)
        return self.filter(reason=canonical(reason))

    def of_run(self, run_id: UUID) -> Self:
        return self.filter(run_id=run_id)

    def of_task(self, root_task_id: str) -> Self:
        """Checkpoints of a task; a run that names no task is its own, under its run id."""
        own = as_id(root_task_id)
        found = Q(root_task_id=root_task_id)
        return self.filter(found if own is None else found | Q(run_id=own, root_task_id=""))


class DecisionQuerySet(models.QuerySet[Any]):
    def standing(self) -> Self:
        """Decisions that were not undone."""
        return self.filter(undone_at=None)

    def unconsumed(self) -> Self:
        return self.standing().filter(consumed_at=None)
