"""What the attempt after a checkpoint begins with: its history, the budget that is left, what was decided.

A person has looked at the task, so its counters of unproductive steps begin anew, and so do failures that
people can mend: credentials, quotas, outages, waits. What was done stays done, and what was found stays found
until the decision brings new evidence or another input.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from guardops.guard.added import by_kind, summed
from guardops.guard.budgets import KINDS
from guardops.guard.decisions import AddedBudget, Decision, DecisionAction
from guardops.guard.domains import normal_host
from guardops.guard.events import SourceKind
from guardops.guard.kept_checkpoints import OpenCheckpoint, name_of_call
from guardops.guard.policy import Limits
from guardops.guard.responder import Responder
from guardops.guard.run_memory import take_up_evidence, unpacked
from guardops.guard.state import RunIdentity, RunState
from guardops.guard.stores import BY_PEOPLE, RootState
from guardops.guard.summary import Counts


def may_go_on(root: RootState) -> bool:
    """Say whether a decision on one run of a task lifts the task's halt: not one that people have ordered."""
    return root.halted not in BY_PEOPLE


def added_by(after: OpenCheckpoint) -> AddedBudget | None:
    """Return what people have added to the work so far, the decision on its last checkpoint included."""
    change = after.decision.change if after.decision is not None else None
    return summed(after.added, change.budget if change is not None else None)


def take_up(after: OpenCheckpoint, run: RunState, responder: Responder, counts: Counts) -> None:
    """Give a fresh attempt what the one before it left, and carry out what was decided.

    Hold the run's lock.
    """
    try:
        take_up_evidence(run, unpacked(after.left), run.started_at)
    except msgspec.MsgspecError as fault:  # another version's: budgets and marks still hold
        counts.note_fault(fault)
    for row in run.ledger:
        row.uncertain = row.fingerprint in run.root.uncertain
        row.done = row.done or row.fingerprint in run.root.done
    for kind, spent in zip(KINDS, after.settled, strict=False):
        run.budgets.by_kind[kind].settled = spent
    run.carried_seconds = after.seconds
    if after.decision is not None:
        _carry_out(after, after.decision, run)
    if after.settled_as is DecisionAction.FORCE_ANSWER:
        responder.only_answer(after.reason)


def _carry_out(after: OpenCheckpoint, decision: Decision, run: RunState) -> None:
    root = run.root
    for item in decision.reconciled:
        if fingerprint := after.fingerprints.get(name_of_call(item.tool, item.args_hash)):
            root.reconcile(fingerprint, happened=item.happened)
            if row := run.ledger.get(fingerprint):
                row.reconcile(happened=item.happened)
    approved = after.fingerprints.get(name_of_call(decision.tool, decision.args_hash))
    if decision.action is DecisionAction.APPROVE and approved:
        root.approve(approved)
    if decision.action in (DecisionAction.RESUME, DecisionAction.APPROVE):
        _try_again(run)
    if (change := decision.change) is None:
        return
    if change.input is not None or change.evidence is not None:
        run.evidence += 1  # an equal read may now bring something else
    for source in change.blocked_sources:
        domain = normal_host(source.name) if source.kind is SourceKind.DOMAIN else None
        root.avoid(source.kind.value, domain or source.name)
    if change.budget is not None and run.budgets is not root.budgets:
        grant(root, change.budget, run.limits, str(after.checkpoint_id))


def grant(root: RootState, added: AddedBudget, limits: Limits, by: str) -> None:
    """Add to the budgets that all runs of the task share."""
    for kind, amount in by_kind(added, limits).items():
        root.grant(kind, amount, by)


def _try_again(run: RunState) -> None:
    run.cycle.clear()
    run.streak.clear()
    run.stall.note(productive=True)
    for row in run.ledger:
        row.try_again()


def identity_after(after: OpenCheckpoint, run_id: UUID, now: datetime) -> RunIdentity:
    """Return who the next attempt is; one that goes by a foreign id is found by the id that was granted."""
    who = after.who
    return msgspec.structs.replace(
        who,
        run_id=run_id,
        external_id=None,
        attempt=who.attempt + 1,
        started_at=now,
        resumed_from=None if who.external_id else who.run_id,
    )
