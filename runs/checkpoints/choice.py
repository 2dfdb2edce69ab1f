"""What a reviewer wants to decide, and whether that is a decision. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from guardops.guard.decisions import AddedBudget, BlockedForTask, DecisionAction, DecisionChange, Reconciled
from guardops.guard.domains import normal_host
from guardops.guard.events import SourceKind
from policies.choices import SourceKind as BlockedKind
from policies.errors import InvalidSource
from policies.names import canonical_source
from runs.models.checkpoints import MAX_REASON

from .ceiling import Ceiling
from .errors import InvalidDecision
from .packet import Packet

if TYPE_CHECKING:
    from runs.models import Checkpoint, Decision

UNDO = timedelta(seconds=10)
"""How long a decision other than a stop can be taken back: nobody gets it before."""
TAKEN_UP = timedelta(seconds=5)
"""How long it may then take until a waiting guard has taken it up: the gate looks every two seconds."""
_NOTHING = DecisionChange()
_LARGEST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Choice:
    """What a reviewer chose; ``change`` is of a resume, ``answer`` of an answer, ``note`` is kept beside."""

    action: DecisionAction
    reason: str = ""
    answer: str = ""
    change: DecisionChange | None = None
    reconciled: tuple[Reconciled, ...] = ()
    note: str = ""


def checked(
    checkpoint: Checkpoint, packet: Packet, choice: Choice, ceiling: Ceiling, now: datetime
) -> Choice:
    """Return the choice with its texts stripped and its sources as guards know them.

    Raises InvalidDecision for what can't be decided so.
    """
    choice = replace(
        choice,
        reason=_text("reason", choice.reason),
        answer=_text("answer", choice.answer) if choice.action is DecisionAction.ANSWER else "",
        note=_text("note", choice.note),
        change=_change(choice.change) if choice.action is DecisionAction.RESUME else None,
    )
    if choice.action is not DecisionAction.STOP and checkpoint.expires_at <= now + UNDO + TAKEN_UP:
        raise InvalidDecision(
            "too_late", "action", "This expires before the decision could be taken up. A stop still works."
        )
    match choice.action:
        case DecisionAction.RESUME:
            _check_resume(choice, ceiling)
        case DecisionAction.ANSWER if not choice.answer:
            raise InvalidDecision("no_answer", "answer", "Write the answer that the agent should give.")
        case DecisionAction.APPROVE if packet.refused is None:
            raise InvalidDecision("not_offered", "action", "No call of this run waits for approval.")
        case _:
            pass
    _check_reconciled(choice, packet)
    return choice


def says_the_same(made: Decision, choice: Choice) -> bool:
    """Say whether a decision is what this choice, which was checked, would have come to; notes aside."""
    answer = choice.answer.strip() if choice.action is DecisionAction.ANSWER else ""
    change = _change(choice.change) if choice.action is DecisionAction.RESUME else _NOTHING
    return (
        (made.action, made.reason, made.answer) == (choice.action, choice.reason.strip(), answer)
        and msgspec.convert(made.change, DecisionChange) == change
        and msgspec.convert(made.reconciled, tuple[Reconciled, ...]) == choice.reconciled
    )


def _check_resume(choice: Choice, ceiling: Ceiling) -> None:
    change = choice.change
    if change is None or change == _NOTHING:
        raise InvalidDecision(
            "no_change", "change", "Change something: without a change the agent would only loop again."
        )
    if not choice.reason:
        raise InvalidDecision("no_reason", "reason", "Say why going on makes sense now.")
    added = change.budget or AddedBudget()
    for name in ("steps", "seconds", "cost"):
        most, wanted = getattr(ceiling, name), getattr(added, name)
        if wanted > most:
            unit = "USD" if name == "cost" else name
            said = f"At most {most} {unit} may be added here." if most else f"No {name} may be added here."
            raise InvalidDecision("above_ceiling", f"budget_{name}", f"{said} The policy says so.")


def _check_reconciled(choice: Choice, packet: Packet) -> None:
    uncertain = {(call.tool, call.args_hash) for call in packet.uncertain}
    told = {(call.tool, call.args_hash) for call in choice.reconciled}
    if told - uncertain:
        raise InvalidDecision("not_offered", "reconciled", "This run has no such write of unknown outcome.")
    if choice.action is not DecisionAction.STOP and uncertain - told:
        raise InvalidDecision(
            "not_reconciled",
            "reconciled",
            "First say whether each write of unknown outcome happened: the agent must not guess.",
        )


def _change(change: DecisionChange | None) -> DecisionChange:
    if change is None:
        return _NOTHING
    budget = change.budget
    if budget is not None:
        _check_amounts(budget)
        budget = budget if budget.steps or budget.seconds or budget.cost else None
    return msgspec.structs.replace(
        change,
        input=_text("input", change.input or "") or None,
        evidence=_text("evidence", change.evidence or "") or None,
        blocked_sources=tuple(dict.fromkeys(_source(source) for source in change.blocked_sources)),
        budget=budget,
    )


def _check_amounts(budget: AddedBudget) -> None:
    for name in ("steps", "seconds"):
        if not 0 <= getattr(budget, name) <= _LARGEST:
            raise InvalidDecision("above_ceiling", f"budget_{name}", "Give a whole number from 0 on.")
    if not budget.cost.is_finite() or budget.cost < 0:
        raise InvalidDecision("above_ceiling", "budget_cost", "Give an amount from 0 on.")


def _source(source: BlockedForTask) -> BlockedForTask:
    try:
        name = canonical_source(BlockedKind(source.kind), source.name, exact=False)
    except InvalidSource as error:
        # An address may not be blocked for everybody, as it changes hands; for one task it may.
        address = normal_host(source.name) if error.code == "ip_address" else None
        if address is None:
            raise InvalidDecision("invalid_source", "blocked_sources", error.message) from error
        name = address
    return BlockedForTask(kind=SourceKind(source.kind), name=name)


def _text(field: str, value: str) -> str:
    value = value.strip()
    if len(value) > MAX_REASON:
        raise InvalidDecision("invalid_text", field, f"At most {MAX_REASON:,} characters.")
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidDecision("invalid_text", field, "This text holds characters that are none.")
    return value
