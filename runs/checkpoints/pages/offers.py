"""What may be decided on a checkpoint: each action with its key, what it does here, and its filled-in form.

One action stands out, chosen by what stopped the run: seldom is it right to go on where credentials failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from guardops import shown
from guardops.guard.decisions import AddedBudget, DecisionAction, DecisionChange
from guardops.guard.reasons import Reason
from runs.checkpoints.suggestions import Suggestion, suggestions
from runs.checkpoints.words import ACTIONS, ActionWords

from .forms import DecideForm, form_for, initial_of, reconciled_as
from .sources import all_can_be_blocked

if TYPE_CHECKING:
    from .brief import Brief
    from .receipts import Receipt

KEYS: dict[DecisionAction, str] = {
    DecisionAction.APPROVE: "y",
    DecisionAction.RESUME: "r",
    DecisionAction.ANSWER: "a",
    DecisionAction.FORCE_ANSWER: "f",
    DecisionAction.STOP: "s",
}
_STOP_FIRST = {Reason.TOOL_AUTH_ERROR, Reason.QUOTA_EXHAUSTED, Reason.GUARD_ERROR}
"""What a resume seldom mends: somebody has to mend it elsewhere first."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One action. ``effects`` follow from the form's fields as they stand, ``always`` does not."""

    action: DecisionAction
    form: DecideForm
    does: str
    always: Sequence[str]
    effects: Sequence[str]
    is_first: bool = False
    is_large: bool = False
    """Whether a phone shows it as one of its two large buttons."""

    @property
    def words(self) -> ActionWords:
        return ACTIONS[self.action]

    @property
    def key(self) -> str:
        return KEYS[self.action]

    @property
    def is_final(self) -> bool:
        return self.action is DecisionAction.STOP

    @property
    def asks(self) -> bool:
        """Whether its form can't be sent as it is filled in."""
        if self.action is DecisionAction.ANSWER or not (self.is_final or self.form.is_reconciled):
            return True
        return self.opens

    @property
    def opens(self) -> bool:
        """Whether its finer fields are shown at once."""
        wrong = set(self.form.errors) - {"answer"} if self.form.is_bound else set()
        return bool(wrong) or (self.action is DecisionAction.RESUME and not self.effects)


def offers_of(brief: Brief) -> list[Offer]:
    """Return what may be decided, the action that stands out first; empty where nothing may be."""
    if not (brief.waits and brief.may_act):
        return []
    offered = [action for action in KEYS if action is not DecisionAction.APPROVE or brief.packet.refused]
    offers = [offer_of(brief, action) for action in offered]
    first = _first(brief, offers)
    # Where the stop stands out, the other large button is the one that goes on.
    large = {first, DecisionAction.STOP if first is not DecisionAction.STOP else DecisionAction.RESUME}
    marked = [replace(o, is_first=o.action is first, is_large=o.action in large) for o in offers]
    return sorted(marked, key=lambda offer: not offer.is_first)


def offer_of(brief: Brief, action: DecisionAction, data: Mapping[str, Any] | None = None) -> Offer:
    """Return one action; its form holds ``data``, what somebody sent, or else what is suggested."""
    found = suggestions(brief.checkpoint, brief.packet, brief.ceiling)
    suggestion = next((one for one in found if one.action is action and _holds(one)), None)
    taken_back = _taken_back(brief, action)
    change, reason = (suggestion.change, suggestion.reason) if suggestion else (None, "")
    initial: dict[str, Any] = {"version": brief.checkpoint.version}
    if taken_back is not None:
        change, reason = taken_back.change, taken_back.decision.reason
        initial["answer"] = taken_back.decision.answer
        initial |= reconciled_as(taken_back.reconciled, brief.packet)
    initial |= initial_of(change or DecisionChange(), reason)
    return Offer(
        action,
        form_for(action, brief.packet, brief.ceiling, data=data, initial=initial),
        does=_does(brief, action, change),
        always=list(_always(brief, action)),
        effects=list(_effects(change)),
    )


def _holds(suggestion: Suggestion) -> bool:
    return suggestion.change is None or all_can_be_blocked(suggestion.change.blocked_sources)


def _taken_back(brief: Brief, action: DecisionAction) -> Receipt | None:
    """Return what the reader decided last and took back: the form begins with it, so that nothing is lost."""
    last = next((one for one in brief.undone if one.decision.undone_by_id == brief.reader.pk), None)
    return last if last is not None and last.decision.action == action else None


def _first(brief: Brief, offers: Sequence[Offer]) -> DecisionAction:
    if brief.packet.refused:
        return DecisionAction.APPROVE
    if brief.checkpoint.reason in _STOP_FIRST:
        return DecisionAction.STOP
    resume = next(offer for offer in offers if offer.action is DecisionAction.RESUME)
    return DecisionAction.RESUME if resume.effects else DecisionAction.FORCE_ANSWER


def _does(brief: Brief, action: DecisionAction, change: DecisionChange | None) -> str:
    """Return what the action does here, in one line."""
    number = brief.checkpoint.attempt + 1
    match action:
        case DecisionAction.RESUME:
            told = ", ".join(_in_short(change)) if change else f"As attempt {number}, with what you change"
            return f"{told}."
        case DecisionAction.STOP if brief.checkpoint.sub_agents:
            return f"Ends unresolved, cancels {_many(brief.checkpoint.sub_agents)}."
        case DecisionAction.STOP:
            return "Ends unresolved, at once."
        case DecisionAction.APPROVE if brief.packet.refused:
            return f"{brief.packet.refused.tool} may run once, as attempt {number}."
    return ACTIONS[action].does


def _always(brief: Brief, action: DecisionAction) -> Iterator[str]:
    """Yield what the action does whatever is filled in."""
    number = brief.checkpoint.attempt + 1
    match action:
        case DecisionAction.RESUME:
            yield f"Starts attempt {number}; what it has done so far is kept"
            yield from _left(brief)
        case DecisionAction.APPROVE:
            yield "This one call may run once, with exactly these arguments"
            yield f"Starts attempt {number}; everything else is guarded as before"
            yield from _left(brief)
        case DecisionAction.ANSWER:
            yield f"Attempt {number} ends the task as completed, answered by a person"
        case DecisionAction.FORCE_ANSWER:
            yield f"Attempt {number} has one turn without tools"
            yield "Its answer is marked incomplete, and the task is not counted as completed"
        case DecisionAction.STOP:
            yield "The task ends unresolved, and no attempt follows"
            if brief.checkpoint.sub_agents:
                yield _sub_agents(brief)


def _left(brief: Brief) -> Iterator[str]:
    """Yield what is left of the task's budget, where it was counted."""
    left = brief.packet.remaining
    parts = [f"{left.steps:,} steps"] if left.steps is not None else []
    parts += [shown.money(left.cost)] if left.cost is not None else []
    if parts:
        yield f"It goes on with what is left: {' and '.join(parts)}"


def _in_short(change: DecisionChange) -> Iterator[str]:
    """Yield what a change does, as short as a button's line is on a phone."""
    yield from (f"Blocks {source.name}" for source in change.blocked_sources)
    added = change.budget or AddedBudget()
    if added.steps:
        yield f"+{added.steps:,} steps"
    if added.seconds:
        yield f"+{added.seconds:,} s"
    if added.cost:
        yield f"+{shown.money(added.cost)}"


def _effects(change: DecisionChange | None) -> Iterator[str]:
    """Yield what a change does, each in a few words."""
    if change is None:
        return
    for source in change.blocked_sources:
        yield f"{source.name} blocked for this task"
    added = change.budget or AddedBudget()
    if added.steps:
        yield f"{added.steps:,} more steps"
    if added.seconds:
        yield f"{added.seconds:,} more seconds"
    if added.cost:
        yield f"at most {shown.money(added.cost)} more"
    if change.input:
        yield "with an instruction from you"
    if change.evidence:
        yield "with evidence from you"


def _sub_agents(brief: Brief) -> str:
    many = brief.checkpoint.sub_agents
    return f"{_many(many)} {'is' if many == 1 else 'are'} cancelled"


def _many(sub_agents: int) -> str:
    return "1 sub-agent" if sub_agents == 1 else f"{sub_agents:,} sub-agents"
