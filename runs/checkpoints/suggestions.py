"""Decisions that a reviewer may take over as they are, so that two taps do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from guardops.guard.checkpoints import AttemptedSource
from guardops.guard.decisions import AddedBudget, BlockedForTask, DecisionAction, DecisionChange
from guardops.guard.events import SourceKind
from guardops.guard.reasons import Family
from runs.models.checkpoints import MAX_REASON

from .ceiling import Ceiling
from .packet import Packet

if TYPE_CHECKING:
    from runs.models import Checkpoint

MORE_STEPS = 10
MORE_SECONDS = 300
_MICRO = Decimal("0.000001")
_SHARE = 2  # a source with at least half of all calls is the one that the run was stuck on
_FEW = 3


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A decision filled in."""

    action: DecisionAction
    reason: str
    change: DecisionChange | None = None


def suggestions(checkpoint: Checkpoint, packet: Packet, ceiling: Ceiling) -> list[Suggestion]:
    """Return what makes sense for this checkpoint, the best guess first; a stop is always the last."""
    found = [
        _approve(packet),
        _without_source(checkpoint, packet, ceiling),
        _with_more(checkpoint, ceiling),
        _force(checkpoint, packet),
        Suggestion(DecisionAction.STOP, "Going on is of no use."),
    ]
    return [suggestion for suggestion in found if suggestion is not None]


def _approve(packet: Packet) -> Suggestion | None:
    call = packet.refused
    if call is None:
        return None
    return Suggestion(DecisionAction.APPROVE, f"The call of {call.tool} was checked and may run once.")


def _without_source(checkpoint: Checkpoint, packet: Packet, ceiling: Ceiling) -> Suggestion | None:
    source = most_called(packet.sources)
    if source is None or checkpoint.family == Family.CONTROL:
        return None
    needed = _needed(ceiling)
    if needed is None:
        return None
    said = f"{source.name} was called {source.calls} times and led nowhere: go on with other sources."
    return Suggestion(
        DecisionAction.RESUME,
        said[:MAX_REASON],
        DecisionChange(
            blocked_sources=(BlockedForTask(kind=source.kind, name=source.name),),
            budget=needed if needed != AddedBudget() else None,
        ),
    )


def _with_more(checkpoint: Checkpoint, ceiling: Ceiling) -> Suggestion | None:
    """Return more of everything, as far as the policy allows, where a budget has run out."""
    if checkpoint.family != Family.BUDGET or not ceiling or _needed(ceiling) is None:
        return None
    budget = AddedBudget(
        steps=min(MORE_STEPS, ceiling.steps),
        seconds=min(MORE_SECONDS, ceiling.seconds),
        cost=_half(ceiling.cost),
    )
    return Suggestion(
        DecisionAction.RESUME, "It was on the way and needs a little more.", DecisionChange(budget=budget)
    )


def _needed(ceiling: Ceiling) -> AddedBudget | None:
    """Return what must be added for a resume to get anywhere; None where that is more than may be.

    A guard adds turns with the steps, and tokens with the money.
    """
    left = ceiling.left
    steps = [amount for amount in (left.steps, left.turns) if amount is not None]
    money = [amount for amount in (left.tokens, left.cost) if amount is not None]
    needed = AddedBudget(
        steps=min(MORE_STEPS, ceiling.steps) if min(steps, default=MORE_STEPS) < MORE_STEPS else 0,
        seconds=min(MORE_SECONDS, ceiling.seconds) if left.seconds == 0 else 0,
        cost=_half(ceiling.cost) if 0 in money else Decimal(0),
    )
    stuck = (
        (0 in steps and not needed.steps)
        or (left.seconds == 0 and not needed.seconds)
        or (0 in money and not needed.cost)
    )
    return None if stuck else needed


def _half(cost: Decimal) -> Decimal:
    """Return half of an amount, in the places that money has here."""
    return (cost / 2).quantize(_MICRO, rounding=ROUND_UP)


def _force(checkpoint: Checkpoint, packet: Packet) -> Suggestion | None:
    if packet.refused is not None or not checkpoint.steps:
        return None
    return Suggestion(DecisionAction.FORCE_ANSWER, "What it has found is worth more than nothing.")


def most_called(sources: list[AttemptedSource]) -> AttemptedSource | None:
    """Return the source that had most of the calls, if one stands out."""
    domains = [source for source in sources if source.kind is SourceKind.DOMAIN]
    top = max(domains, key=lambda source: source.calls, default=None)
    if top is None or top.calls < _FEW or top.calls * _SHARE < sum(source.calls for source in domains):
        return None
    return top
