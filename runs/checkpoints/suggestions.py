"""Decisions that a reviewer may take over as they are, so that two taps do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
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
_SHARE = 2  # a source with at least half of all calls is the one that the run was stuck on
_FEW = 3


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A decision filled in; ``label`` says in a few words what it does."""

    label: str
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
        Suggestion("Stop the task", DecisionAction.STOP, "Going on is of no use."),
    ]
    return [suggestion for suggestion in found if suggestion is not None]


def _approve(packet: Packet) -> Suggestion | None:
    call = packet.refused
    if call is None:
        return None
    return Suggestion(
        f"Approve this one call of {call.tool}",
        DecisionAction.APPROVE,
        f"The call of {call.tool} was checked and may run once.",
    )


def _without_source(checkpoint: Checkpoint, packet: Packet, ceiling: Ceiling) -> Suggestion | None:
    source = most_called(packet.sources)
    if source is None or checkpoint.family == Family.CONTROL:
        return None
    left = ceiling.left.steps
    steps = min(MORE_STEPS, ceiling.steps) if left is not None and left < MORE_STEPS else 0
    if left == 0 and not steps:
        return None  # it could make no step
    more = f" and {steps} more steps" if steps else ""
    return Suggestion(
        f"Go on without {source.name}{more}",
        DecisionAction.RESUME,
        f"{source.name} was called {source.calls} times and led nowhere: go on with other sources."[
            :MAX_REASON
        ],
        DecisionChange(
            blocked_sources=(BlockedForTask(kind=source.kind, name=source.name),),
            budget=AddedBudget(steps=steps) if steps else None,
        ),
    )


def _with_more(checkpoint: Checkpoint, ceiling: Ceiling) -> Suggestion | None:
    """Return more of what has run out, as far as the policy allows."""
    if checkpoint.family != Family.BUDGET or not ceiling:
        return None
    budget = AddedBudget(
        steps=min(MORE_STEPS, ceiling.steps),
        seconds=min(MORE_SECONDS, ceiling.seconds),
        cost=ceiling.cost / 2,
    )
    parts = [
        f"{budget.steps} steps" if budget.steps else "",
        f"{budget.seconds // 60} min" if budget.seconds >= 60 else "",
        f"${budget.cost:.2f}" if budget.cost else "",
    ]
    named = ", ".join(part for part in parts if part)
    return Suggestion(
        f"Go on with more: {named}",
        DecisionAction.RESUME,
        "It was on the way and needs a little more.",
        DecisionChange(budget=budget),
    )


def _force(checkpoint: Checkpoint, packet: Packet) -> Suggestion | None:
    if packet.refused is not None or not checkpoint.steps:
        return None
    return Suggestion(
        "Answer with what it has",
        DecisionAction.FORCE_ANSWER,
        "What it has found is worth more than nothing.",
    )


def most_called(sources: list[AttemptedSource]) -> AttemptedSource | None:
    """Return the source that had most of the calls, if one stands out."""
    domains = [source for source in sources if source.kind is SourceKind.DOMAIN]
    top = max(domains, key=lambda source: source.calls, default=None)
    if top is None or top.calls < _FEW or top.calls * _SHARE < sum(source.calls for source in domains):
        return None
    return top
