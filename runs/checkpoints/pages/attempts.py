"""The attempts of a checkpoint's task, in order: how each ended, and what people decided in between."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Prefetch

from runs.checkpoints.querysets import DecisionQuerySet
from runs.models import Checkpoint, Decision, ExternalRun, LiveRun, Run

if TYPE_CHECKING:
    from runs.models import Checkpoint as AnyCheckpoint

MOST = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: its run where that was reported (``outcome`` is empty while it lives), its checkpoint."""

    number: int
    run_id: UUID | None = None
    outcome: str = ""
    steps: int = 0
    cost: Decimal = Decimal(0)
    checkpoint: AnyCheckpoint | None = None
    decision: Decision | None = None
    is_this: bool = False

    @property
    def is_live(self) -> bool:
        return self.run_id is not None and not self.outcome


def read_run(checkpoint: Checkpoint) -> Run | None:
    """Return the ended run that was handed over; None where its end was not reported."""
    if checkpoint.run_id is None:
        return None
    of_tenant = Run.objects.for_tenants([checkpoint.tenant_id])
    run: Run | None = of_tenant.filter(run_id=checkpoint.run_id).first()
    if run is None:  # it may be stored under an id that fits its time
        sent_as = f"run:{checkpoint.run_id}"
        mapped = ExternalRun.objects.filter(tenant_id=checkpoint.tenant_id, external_id=sent_as).first()
        run = of_tenant.filter(run_id=mapped.run_id).first() if mapped else None
    return run


def read_attempts(checkpoint: Checkpoint) -> Sequence[Attempt]:
    """Return the attempts of what was handed over, the first one first, in three queries.

    Sub-agents of the task are left out; beyond ``MOST`` runs the newest are.
    """
    task = checkpoint.root_task_id or (str(checkpoint.run_id) if checkpoint.run_id else "")
    if not task:
        return [_of_checkpoint(checkpoint, checkpoint)]
    standing = Prefetch("decisions", _standing(), to_attr="standing")
    same = {"parent_run_id": checkpoint.parent_run_id}
    opened = Checkpoint.objects.for_tenants([checkpoint.tenant_id]).of_task(task).filter(**same)
    checkpoints = [*opened.prefetch_related(standing).order_by("id")[:MOST], checkpoint]
    runs: list[Run | LiveRun] = []
    for model in (LiveRun, Run):
        found = model.objects.for_tenants([checkpoint.tenant_id]).of_task(task).filter(**same)
        runs += found.defer("detail").order_by("attempt")[:MOST]
    linked = _linked(checkpoint, checkpoints, runs)
    if checkpoint.parent_run_id is not None:  # one of several sub-agents that their parent began
        checkpoints = [one for one in checkpoints if one.run_id in linked or one.pk == checkpoint.pk]
        runs = [run for run in runs if run.run_id in linked]
    # Of several with one number, those that are linked to this one stand for it, and this one for its own.
    by_number = {one.attempt: one for one in sorted(checkpoints, key=lambda one: one.run_id in linked)}
    by_number[checkpoint.attempt] = checkpoint
    attempts = {number: _of_checkpoint(one, checkpoint) for number, one in by_number.items()}
    for run in sorted(runs, key=lambda run: run.run_id in linked):
        attempts[run.attempt] = _of_run(run, by_number.get(run.attempt), checkpoint)
    return [attempts[number] for number in sorted(attempts)]


def _linked(
    this: Checkpoint, checkpoints: Sequence[Checkpoint], runs: Sequence[Run | LiveRun]
) -> Set[UUID | None]:
    """Return the runs that decisions, or their own word, link to that of this checkpoint."""
    made = [(one, _decision_of(one)) for one in checkpoints]
    pairs = [(one.run_id, decision.attempt_id) for one, decision in made if decision]
    pairs += [(run.resumed_from, run.run_id) for run in runs]
    links = [{*pair} for pair in pairs if None not in pair]
    found = {this.run_id}
    for _ in links:
        found = found.union(*(link for link in links if link & found))
    return found


def _standing() -> DecisionQuerySet:
    return Decision.objects.standing().select_related("by")


def _decision_of(checkpoint: Checkpoint | None) -> Decision | None:
    if checkpoint is None:
        return None
    if hasattr(checkpoint, "standing"):
        return next(iter(checkpoint.standing), None)
    return getattr(checkpoint, "decided", None)


def _of_checkpoint(one: Checkpoint, this: Checkpoint) -> Attempt:
    return Attempt(
        number=one.attempt,
        steps=one.steps,
        cost=one.cost,
        checkpoint=one,
        decision=_decision_of(one),
        is_this=one.pk == this.pk,
    )


def _of_run(run: Run | LiveRun, checkpoint: Checkpoint | None, this: Checkpoint) -> Attempt:
    return Attempt(
        number=run.attempt,
        run_id=run.run_id,
        outcome=getattr(run, "outcome", ""),
        steps=run.steps,
        cost=run.cost,
        checkpoint=checkpoint,
        decision=_decision_of(checkpoint),
        is_this=checkpoint is not None and checkpoint.pk == this.pk,
    )
