"""Halt reasons in words: one clause a code, which completes "Stopped after 24 steps: …".

Numbers come from the run's own counters. A counter that was not reported is 0 and drops out of the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardops.guard.events import Outcome
from guardops.guard.reasons import Reason, canonical

if TYPE_CHECKING:
    from .models import Run

_CLAUSES: dict[str, str] = {
    Reason.STEP_BUDGET: "its step budget was used up",
    Reason.MAX_TURNS: "its turns were used up",
    Reason.WALL_CLOCK: "it ran longer than it may",
    Reason.DEADLINE: "its deadline passed, and work in flight is unresolved",
    Reason.TOKEN_BUDGET: "its token budget was used up",
    Reason.COST_BUDGET: "its cost budget was used up",
    Reason.HOP_BUDGET: "no hand-over to another agent was left",
    Reason.DESCENDANTS_BUDGET: "its task had started all the runs it may",
    Reason.CHILDREN_BUDGET: "too many sub-agents ran at once",
    Reason.BUDGET_UNAVAILABLE: "the budget shared by its task could not be reached",
    Reason.REPEATED_CALL: "same call, same result",
    Reason.TOOL_NO_PROGRESS: "a call that could not succeed was made again",
    Reason.DUPLICATE_IN_FLIGHT: "the same call was still running",
    Reason.DUPLICATE_SIDE_EFFECT: "a side effect already done was asked for again",
    Reason.CYCLE_PERIOD_2: "two calls in turn, nothing new",
    Reason.CYCLE_PERIOD_3: "three calls in turn, nothing new",
    Reason.CYCLE_PERIOD_4: "four calls in turn, nothing new",
    Reason.LINEAGE_PING_PONG: "agents handed unchanged work back and forth",
    Reason.NO_PROGRESS: "nothing new was learned",
    Reason.ERROR_STREAK: "one tool kept failing in the same way",
    Reason.POLL_EXHAUSTED: "what it waited for never came",
    Reason.TOOL_RETRY_EXHAUSTED: "every retry of a failing call was used up",
    Reason.TOOL_AUTH_ERROR: "a tool refused its credentials",
    Reason.QUOTA_EXHAUSTED: "a quota was used up",
    Reason.UNCERTAIN_WRITE: "a write may or may not have happened",
    Reason.FRAMEWORK_LIMIT: "the agent framework's own limit ended it",
    Reason.SOURCE_CAP: "one source was called too often",
    Reason.LISTING_CAP: "one listing was paged too far",
    Reason.BLOCKED_SOURCE: "it called a blocked source",
    Reason.FORBIDDEN_TOOL: "it called a forbidden tool",
    Reason.APPROVAL_REQUIRED: "a call needs a person's approval",
    Reason.REFUSAL_LIMIT: "it went on after refusals",
    Reason.REQUEUE_REFUSED: "it had been stopped and was started again without leave",
    Reason.OPERATOR_STOP: "a person stopped it",
    Reason.CANCELLED: "it was cancelled",
    Reason.GUARD_ERROR: "the guard itself failed",
}

_COUNTED: dict[str, tuple[str, str]] = {
    Reason.STEP_BUDGET: ("step_cap", "its {n} steps were used up"),
    Reason.MAX_TURNS: ("turns", "its turns were used up after {n}"),
    Reason.REPEATED_CALL: ("peak_repeats", "same call, same result, {n} times"),
    Reason.NO_PROGRESS: ("peak_stall", "nothing new in {n} steps"),
    Reason.ERROR_STREAK: ("peak_error_streak", "one tool failed in the same way {n} times in a row"),
    Reason.SOURCE_CAP: ("peak_domain_calls", "one source was called {n} times"),
    Reason.LISTING_CAP: ("peak_listing_pages", "one listing was paged {n} times"),
    Reason.REFUSAL_LIMIT: ("peak_refusals", "it went on after {n} refusals"),
}
"""What the counter of this column adds to the words, where it is above one."""

_OPENINGS: dict[str, str] = {
    Outcome.COMPLETED: "Completed after {steps}",
    Outcome.COMPLETED_FORCED: "Answer forced after {steps}",
    Outcome.UNRESOLVED: "Closed unresolved after {steps}",
    Outcome.ESCALATED: "Handed to a person after {steps}",
    Outcome.HALTED: "Stopped after {steps}",
    Outcome.CANCELLED: "Cancelled after {steps}",
    Outcome.FAILED: "Failed after {steps}",
}

_UNITS = {"tool_call": ("step", "steps"), "turn": ("turn", "turns"), "superstep": ("superstep", "supersteps")}


def clause(code: str) -> str:
    """Return what a reason means, in words that need no run; an unknown code says that it is unknown."""
    return _CLAUSES.get(canonical(code), "a reason this version does not know")


def why(run: Run) -> str:
    """Return why the guard stopped this run, with its numbers; empty where no guard stopped it."""
    if not run.halt_reason:
        return ""
    column, counted = _COUNTED.get(run.halt_reason, ("", ""))
    number = getattr(run, column) if column else 0
    return counted.format(n=number) if number and number > 1 else clause(run.halt_reason)


def unit_name(steps: int, unit: str) -> str:
    """Return the word for so many steps of a unit: ``step``, ``turns``."""
    one, many = _UNITS.get(unit, _UNITS["tool_call"])
    return one if steps == 1 else many


def headline(run: Run) -> str:
    """Return a run's story in one line: ``Stopped after 24 steps: two calls in turn, nothing new``."""
    opening = _OPENINGS[run.outcome].format(steps=f"{run.steps:,} {unit_name(run.steps, run.step_unit)}")
    reason = why(run)
    return f"{opening}: {reason}" if reason else opening
