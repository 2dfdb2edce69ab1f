"""The rungs of the response ladder, and on which of them the answer to a reason starts.

A policy's ``ladder`` names reasons, or whole families of them, and the action that answers their first trip.
A reason's own entry goes before its family's. Two things it can't do: soften what people have ordered, and
answer a budget with a mere nudge, since a budget is what proves that every run ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardops.guard.events import Action
from guardops.guard.fields import PolicyError
from guardops.guard.reasons import FAMILY_OF, Family, Reason, family_of, known

RUNGS = (Action.NUDGE, Action.FORCE_ANSWER, Action.ESCALATE, Action.HALT)
"""Softest first."""

USUAL: Mapping[Reason, Action] = MappingProxyType({})

_START_BY_FAMILY: Mapping[Family, Action] = MappingProxyType(
    {
        Family.BUDGET: Action.FORCE_ANSWER,
        Family.REPETITION: Action.NUDGE,
        Family.CYCLE: Action.NUDGE,
        Family.PROGRESS: Action.NUDGE,
        Family.SOURCE: Action.NUDGE,
        Family.ERROR: Action.ESCALATE,
        Family.CONTROL: Action.HALT,
    }
)

_START: Mapping[Reason, Action] = MappingProxyType(
    {
        Reason.TOOL_RETRY_EXHAUSTED: Action.NUDGE,
        Reason.FRAMEWORK_LIMIT: Action.FORCE_ANSWER,
        Reason.REFUSAL_LIMIT: Action.FORCE_ANSWER,
        Reason.APPROVAL_REQUIRED: Action.ESCALATE,
        Reason.GUARD_ERROR: Action.ESCALATE,
        Reason.LINEAGE_PING_PONG: Action.HALT,
        Reason.BLOCKED_SOURCE: Action.HALT,
    }
)
"""Reasons that start on another rung than the rest of their family."""

ALWAYS_HALT = frozenset(
    {
        Reason.LINEAGE_PING_PONG,
        Reason.BLOCKED_SOURCE,
        Reason.FORBIDDEN_TOOL,
        Reason.OPERATOR_STOP,
        Reason.REQUEUE_REFUSED,
        Reason.CANCELLED,
    }
)
"""What people have ordered, and work that only goes round: nothing but a halt answers it."""

NEVER_NUDGED = frozenset(
    {
        *(reason for reason in Reason if family_of(reason) is Family.BUDGET),
        Reason.REFUSAL_LIMIT,
        Reason.FRAMEWORK_LIMIT,
    }
)
"""Limits: past them a run may answer, at most."""


def first_rung(reason: Reason, chosen: Mapping[Reason, Action] = USUAL) -> Action:
    """Return the action with which the ladder answers a reason's first trip."""
    found = chosen.get(reason) or _START.get(reason)
    return found if found is not None else _START_BY_FAMILY[family_of(reason)]


def rung(
    reason: Reason, *, nudged: bool, partial_ok: bool, chosen: Mapping[Reason, Action] = USUAL
) -> Action:
    """Return the action for a trip, given whether the run's or root's one nudge is used up.

    Where a partial answer is worse than a delay (``partial_ok`` false), the run escalates instead.
    """
    action = first_rung(reason, chosen)
    if action is Action.NUDGE and nudged:
        action = Action.FORCE_ANSWER
    if action is Action.FORCE_ANSWER and not partial_ok:
        action = Action.ESCALATE
    return action


def read_ladder(name: str, value: object) -> Mapping[Reason, Action]:
    """Read the ``ladder`` of a policy document: ``{reason or family: action}``.

    Returns the rung of every reason that is meant. Raises :class:`PolicyError` for a name that is no reason
    and no family, an action that is no rung, and one that is too soft for its reason.
    """
    if not isinstance(value, Mapping):
        raise PolicyError(name, "must be an object")
    rungs = {str(code): _rung(f"{name}.{code}", action) for code, action in value.items()}
    chosen: dict[Reason, Action] = {}
    for code, action in rungs.items():
        if code in _START_BY_FAMILY:
            _take_family(chosen, f"{name}.{code}", Family(code), action)
    for code, action in rungs.items():
        if code in _START_BY_FAMILY:
            continue
        reason = known(code)
        if reason is None:
            raise PolicyError(f"{name}.{code}", "is no reason and no family of reasons")
        if wrong := _too_soft(reason, action):
            raise PolicyError(f"{name}.{code}", wrong)
        chosen[reason] = action
    return MappingProxyType(chosen)


def stricter(one: Mapping[Reason, Action], other: Mapping[Reason, Action]) -> Mapping[Reason, Action]:
    """Return of two ladders the higher rung for each reason."""
    if one == other:
        return one
    highest = {
        reason: max(first_rung(reason, one), first_rung(reason, other), key=RUNGS.index)
        for reason in one.keys() | other.keys()
    }
    return MappingProxyType(highest)


def _take_family(chosen: dict[Reason, Action], where: str, family: Family, action: Action) -> None:
    """Choose a rung for those of a family that may stand on it; refuse one that is too soft for them all."""
    members = [reason for reason in Reason if FAMILY_OF[reason] is family]
    refusals = [_too_soft(reason, action) for reason in members]
    if all(refusals) or (family is Family.CONTROL and action is not Action.HALT):
        raise PolicyError(where, refusals[0])
    chosen.update({reason: action for reason, wrong in zip(members, refusals, strict=True) if not wrong})


def _too_soft(reason: Reason, action: Action) -> str:
    """Return why an action is too soft for a reason, or an empty text."""
    if reason in ALWAYS_HALT and action is not Action.HALT:
        return "must be halt: it stands for what people have ordered, or for work that only goes round"
    if reason in NEVER_NUDGED and action is Action.NUDGE:
        return "can't be a nudge: a limit ends the run"
    return ""


def _rung(name: str, value: object) -> Action:
    action = next((action for action in RUNGS if action == value), None)
    if action is None:
        raise PolicyError(name, f"must be one of {', '.join(RUNGS)}")
    return action
