"""Halt reasons: one catalogue, in families, shared by the guard and the server.

Source: the field's terms for why an agent run was stopped. Codes that other frameworks use for the same
thing are accepted as aliases; a code nobody knows is kept verbatim and grouped as ``other``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Family(StrEnum):
    """What kind of thing stopped a run. ``OTHER`` holds codes that this catalogue does not know."""

    BUDGET = "budget"
    REPETITION = "repetition"
    CYCLE = "cycle"
    PROGRESS = "progress"
    ERROR = "error"
    SOURCE = "source"
    CONTROL = "control"
    OTHER = "other"


class Reason(StrEnum):
    """Why the guard stopped, refused or forced something."""

    STEP_BUDGET = "step_budget"
    MAX_TURNS = "max_turns"
    WALL_CLOCK = "wall_clock"
    DEADLINE = "deadline"
    TOKEN_BUDGET = "token_budget"
    COST_BUDGET = "cost_budget"
    HOP_BUDGET = "hop_budget"
    DESCENDANTS_BUDGET = "descendants_budget"
    CHILDREN_BUDGET = "children_budget"
    BUDGET_UNAVAILABLE = "budget_unavailable"

    REPEATED_CALL = "repeated_call"
    TOOL_NO_PROGRESS = "tool_no_progress"
    DUPLICATE_IN_FLIGHT = "duplicate_in_flight"
    DUPLICATE_SIDE_EFFECT = "duplicate_side_effect"

    CYCLE_PERIOD_2 = "cycle_period_2"
    CYCLE_PERIOD_3 = "cycle_period_3"
    CYCLE_PERIOD_4 = "cycle_period_4"
    LINEAGE_PING_PONG = "lineage_ping_pong"

    NO_PROGRESS = "no_progress"
    ERROR_STREAK = "error_streak"
    POLL_EXHAUSTED = "poll_exhausted"

    TOOL_RETRY_EXHAUSTED = "tool_retry_exhausted"
    TOOL_AUTH_ERROR = "tool_auth_error"
    QUOTA_EXHAUSTED = "quota_exhausted"
    UNCERTAIN_WRITE = "uncertain_write"
    FRAMEWORK_LIMIT = "framework_limit"

    SOURCE_CAP = "source_cap"
    LISTING_CAP = "listing_cap"
    BLOCKED_SOURCE = "blocked_source"

    FORBIDDEN_TOOL = "forbidden_tool"
    APPROVAL_REQUIRED = "approval_required"
    REFUSAL_LIMIT = "refusal_limit"
    REQUEUE_REFUSED = "requeue_refused"
    OPERATOR_STOP = "operator_stop"
    CANCELLED = "cancelled"
    GUARD_ERROR = "guard_error"


_BY_FAMILY: Mapping[Family, tuple[Reason, ...]] = {
    Family.BUDGET: (
        Reason.STEP_BUDGET,
        Reason.MAX_TURNS,
        Reason.WALL_CLOCK,
        Reason.DEADLINE,
        Reason.TOKEN_BUDGET,
        Reason.COST_BUDGET,
        Reason.HOP_BUDGET,
        Reason.DESCENDANTS_BUDGET,
        Reason.CHILDREN_BUDGET,
        Reason.BUDGET_UNAVAILABLE,
    ),
    Family.REPETITION: (
        Reason.REPEATED_CALL,
        Reason.TOOL_NO_PROGRESS,
        Reason.DUPLICATE_IN_FLIGHT,
        Reason.DUPLICATE_SIDE_EFFECT,
    ),
    Family.CYCLE: (
        Reason.CYCLE_PERIOD_2,
        Reason.CYCLE_PERIOD_3,
        Reason.CYCLE_PERIOD_4,
        Reason.LINEAGE_PING_PONG,
    ),
    Family.PROGRESS: (Reason.NO_PROGRESS, Reason.ERROR_STREAK, Reason.POLL_EXHAUSTED),
    Family.ERROR: (
        Reason.TOOL_RETRY_EXHAUSTED,
        Reason.TOOL_AUTH_ERROR,
        Reason.QUOTA_EXHAUSTED,
        Reason.UNCERTAIN_WRITE,
        Reason.FRAMEWORK_LIMIT,
    ),
    Family.SOURCE: (Reason.SOURCE_CAP, Reason.LISTING_CAP, Reason.BLOCKED_SOURCE),
    Family.CONTROL: (
        Reason.FORBIDDEN_TOOL,
        Reason.APPROVAL_REQUIRED,
        Reason.REFUSAL_LIMIT,
        Reason.REQUEUE_REFUSED,
        Reason.OPERATOR_STOP,
        Reason.CANCELLED,
        Reason.GUARD_ERROR,
    ),
}

FAMILY_OF: Mapping[str, Family] = MappingProxyType(
    {reason.value: family for family, reasons in _BY_FAMILY.items() for reason in reasons}
)

_BY_CODE: Mapping[str, Reason] = MappingProxyType({reason.value: reason for reason in Reason})

ALIASES: Mapping[str, Reason] = MappingProxyType(
    {
        "budget_exhausted": Reason.STEP_BUDGET,
        "tool_call_limit": Reason.STEP_BUDGET,
        "MaxTurnsExceeded": Reason.MAX_TURNS,
        "GraphRecursionError": Reason.MAX_TURNS,
        "recursion_limit": Reason.MAX_TURNS,
        "max_iter": Reason.MAX_TURNS,
        "max_iterations": Reason.MAX_TURNS,
        "request_limit": Reason.MAX_TURNS,
        "error_max_turns": Reason.MAX_TURNS,
        "timeout": Reason.WALL_CLOCK,
        "max_execution_time": Reason.WALL_CLOCK,
        "error_max_budget_usd": Reason.COST_BUDGET,
        "duplicate_call": Reason.TOOL_NO_PROGRESS,
        "abab_handoff": Reason.LINEAGE_PING_PONG,
        "per_source_cap": Reason.SOURCE_CAP,
    }
)

LOOP_FAMILIES = frozenset({Family.REPETITION, Family.CYCLE, Family.PROGRESS, Family.SOURCE})
"""Families that the loop rate counts; ``blocked_source`` is a decision of people and is left out."""

LOOP_REASONS: frozenset[str] = frozenset(
    reason
    for reason, family in FAMILY_OF.items()
    if family in LOOP_FAMILIES and reason != Reason.BLOCKED_SOURCE
)


def canonical(code: str) -> str:
    """Return the catalogue's code for ``code`` or one of its aliases; an unknown code comes back as it is."""
    alias = ALIASES.get(code)
    return alias.value if alias is not None else code


def known(code: str | None) -> Reason | None:
    """Return the catalogue's reason for a code or alias, None for a code that it does not know."""
    return _BY_CODE.get(canonical(code)) if code is not None else None


def family_of(code: str) -> Family:
    """Return the family of a code or alias; ``Family.OTHER`` for a code that the catalogue does not know."""
    return FAMILY_OF.get(canonical(code), Family.OTHER)


def is_loop(code: str, *, provider_failure: bool) -> bool:
    """Say whether a halt for ``code`` counts in the loop rate.

    ``tool_retry_exhausted`` counts only where its last error was not a provider's (429, 5xx, timeout, reset).
    """
    if provider_failure:
        return False
    name = canonical(code)
    return name in LOOP_REASONS or name == Reason.TOOL_RETRY_EXHAUSTED
