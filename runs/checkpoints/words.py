"""Checkpoints in words: what stopped the run, where it stands, how late it is, what each action does.

Pure: nothing here reads the database. Numbers in titles are limits that a guard sent; one that is no plain
number of this world drops out of the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from guardops.guard.reasons import Reason, canonical
from runs.choices import CheckpointState, DecisionAction, LastStep, OnTimeout

if TYPE_CHECKING:
    from runs.models import Checkpoint

_GAP = "\u00a0"
_MOST = 1_000_000  # of a limit that is told; no guard runs with more
_SOON = timedelta(minutes=5)
_PART_SOON = 6  # the last sixth of its time is soon, too
_NUMBERS = ("", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


@dataclass(frozen=True, slots=True)
class Said:
    """Something as icon, word and colour; ``severity`` is ok, warn, danger or empty."""

    words: str
    icon: str
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Sla:
    """How a waiting checkpoint stands to its due time: ``over by 11 min``; ``age`` is how long it waits."""

    said: Said
    age: str
    late: bool


@dataclass(frozen=True, slots=True)
class ActionWords:
    """An action: on its button, once it is done, and what it does in one line."""

    label: str
    done: str
    icon: str
    does: str


_TITLES: dict[str, tuple[str, str, str]] = {
    # Code: the words without a number, the limit that gives one, and the words with it.
    Reason.STEP_BUDGET: ("Its step budget is used up", "max_steps", "All of its {n} steps are used up"),
    Reason.MAX_TURNS: ("Its turns are used up", "max_turns", "All of its {n} turns are used up"),
    Reason.WALL_CLOCK: ("It ran longer than it may", "max_seconds", "It ran longer than its {n} seconds"),
    Reason.DEADLINE: ("Its deadline has passed", "", ""),
    Reason.TOKEN_BUDGET: ("Its token budget is used up", "max_tokens", "All of its {n} tokens are used up"),
    Reason.COST_BUDGET: ("Its cost budget is used up", "", ""),
    Reason.HOP_BUDGET: ("No hand-over to another agent is left", "", ""),
    Reason.DESCENDANTS_BUDGET: (
        "Its task may start no more runs",
        "descendants",
        "Its task started {n} runs",
    ),
    Reason.CHILDREN_BUDGET: ("Too many sub-agents at once", "children", "More than {n} sub-agents at once"),
    Reason.BUDGET_UNAVAILABLE: ("The budget of its task cannot be reached", "", ""),
    Reason.REPEATED_CALL: (
        "The same call, the same result",
        "max_repeats",
        "The same call {n} times, same result",
    ),
    Reason.TOOL_NO_PROGRESS: ("A call that cannot succeed, again", "", ""),
    Reason.DUPLICATE_IN_FLIGHT: ("The same call while it was still running", "", ""),
    Reason.DUPLICATE_SIDE_EFFECT: ("A side effect that was done already, again", "", ""),
    Reason.CYCLE_PERIOD_2: ("Two calls in turn, nothing new", "cycle_reps", "Two calls in turn, {n} rounds"),
    Reason.CYCLE_PERIOD_3: (
        "Three calls in turn, nothing new",
        "cycle_reps",
        "Three calls in turn, {n} rounds",
    ),
    Reason.CYCLE_PERIOD_4: (
        "Four calls in turn, nothing new",
        "cycle_reps",
        "Four calls in turn, {n} rounds",
    ),
    Reason.LINEAGE_PING_PONG: ("Agents hand the same task back and forth", "", ""),
    Reason.NO_PROGRESS: ("It learns nothing new", "stall_limit", "{n} steps in a row found nothing new"),
    Reason.ERROR_STREAK: ("One tool keeps failing", "max_error_streak", "One tool failed {n} times in a row"),
    Reason.POLL_EXHAUSTED: ("What it waits for never came", "", ""),
    Reason.TOOL_RETRY_EXHAUSTED: ("Every retry of a failing call is used up", "", ""),
    Reason.TOOL_AUTH_ERROR: ("A tool refused its credentials", "", ""),
    Reason.QUOTA_EXHAUSTED: ("A quota is used up", "", ""),
    Reason.UNCERTAIN_WRITE: ("A write may or may not have happened", "", ""),
    Reason.FRAMEWORK_LIMIT: ("The agent framework’s own limit ended it", "", ""),
    Reason.SOURCE_CAP: ("One source was called too often", "domain_cap", "One source was called {n} times"),
    Reason.LISTING_CAP: ("One listing was paged too far", "listing_cap", "One listing was paged {n} times"),
    Reason.BLOCKED_SOURCE: ("It called a blocked source", "", ""),
    Reason.FORBIDDEN_TOOL: ("It called a forbidden tool", "", ""),
    Reason.APPROVAL_REQUIRED: ("A call waits for a person’s approval", "", ""),
    Reason.REFUSAL_LIMIT: ("It goes on after refusals", "max_refusals", "It goes on after {n} refusals"),
    Reason.REQUEUE_REFUSED: ("It was stopped, and started again without leave", "", ""),
    Reason.OPERATOR_STOP: ("A person stopped it", "", ""),
    Reason.CANCELLED: ("It was cancelled", "", ""),
    Reason.GUARD_ERROR: ("The guard itself failed", "", ""),
}

STATES: dict[str, Said] = {
    CheckpointState.OPEN: Said("Open", "escalate"),
    CheckpointState.CLAIMED: Said("Claimed", "person"),
    CheckpointState.DECIDED: Said("Decided, not sent yet", "clock", "warn"),
    CheckpointState.DELIVERED: Said("Sent, not carried out yet", "clock"),
    CheckpointState.CONSUMED: Said("Carried out", "ok", "ok"),
    CheckpointState.EXPIRED: Said("Expired", "clock", "danger"),
    CheckpointState.UNDELIVERABLE: Said("Never carried out", "warn", "danger"),
}

ACTIONS: dict[str, ActionWords] = {
    DecisionAction.RESUME: ActionWords(
        "Resume", "Resumed", "play", "It goes on as its next attempt, with what you change and what is left."
    ),
    DecisionAction.ANSWER: ActionWords(
        "Give the answer", "Answered", "pen", "You write the result; the task ends as completed by a person."
    ),
    DecisionAction.FORCE_ANSWER: ActionWords(
        "Force an answer",
        "Answer forced",
        "forced",
        "One turn without tools; its answer is marked incomplete.",
    ),
    DecisionAction.STOP: ActionWords(
        "Stop the run", "Stopped", "halt", "The task ends unresolved, at once. It cannot be undone."
    ),
    DecisionAction.APPROVE: ActionWords(
        "Approve the call", "Approved", "check", "It may make this one call once, as its next attempt."
    ),
}

_TIMEOUTS: dict[str, str] = {
    OnTimeout.STOP: "stops as unresolved",
    OnTimeout.FORCE_ANSWER: "forces an answer",
}

_DONE_BY_SYSTEM: dict[str, str] = {
    LastStep.OPENED: "Opened",
    LastStep.LEASE_ENDED: "The claim ran out",
    LastStep.DELIVERED: "The decision was sent",
    LastStep.CONSUMED: "The decision was carried out",
    LastStep.EXPIRED: "Nobody decided in time",
    LastStep.UNDELIVERABLE: "Nobody carried the decision out in time",
}


def title_of(reason: str, limits: Mapping[str, Any] | None = None) -> str:
    """Return what stopped the run as a sentence: ``Six steps in a row found nothing new``."""
    plain, limit, counted = _TITLES.get(canonical(reason), ("Stopped for an unknown reason", "", ""))
    number = (limits or {}).get(limit)
    if type(number) is not int or not 1 < number < _MOST:  # True is no number of steps
        return plain
    told = _NUMBERS[number] if counted.startswith("{n}") and number < len(_NUMBERS) else f"{number:,}"
    return counted.format(n=told)


def state_of(checkpoint: Checkpoint, now: datetime) -> Said:
    """Return where a checkpoint stands at ``now``: a claim whose lease has ended counts as none."""
    if checkpoint.state == CheckpointState.CLAIMED and not is_claimed(checkpoint, now):
        return STATES[CheckpointState.OPEN]
    return STATES[checkpoint.state]


def is_claimed(checkpoint: Checkpoint, now: datetime) -> bool:
    """Say whether somebody works on it."""
    lease = checkpoint.lease_until
    return checkpoint.state == CheckpointState.CLAIMED and lease is not None and lease > now


def is_waiting(checkpoint: Checkpoint) -> bool:
    """Say whether nobody has decided it."""
    return checkpoint.state in (CheckpointState.OPEN, CheckpointState.CLAIMED)


def sla_of(checkpoint: Checkpoint, now: datetime) -> Sla:
    """Return how late a waiting checkpoint is, or how long there is to decide it."""
    left, due_in = checkpoint.due_at - now, checkpoint.due_at - checkpoint.opened_at
    age = f"{span(now - checkpoint.opened_at)} old"
    if left <= timedelta(0):
        return Sla(Said(f"over by {span(-left)}", "warn", "danger"), age, late=True)
    soon = left <= max(_SOON, due_in / _PART_SOON)
    return Sla(Said(f"{span(left)} left", "clock", "warn" if soon else ""), age, late=False)


def span(length: timedelta) -> str:
    """Return a time that somebody waits, no finer than minutes: ``11 min``, ``1 h 3 min``, ``2 d 4 h``."""
    minutes = max(0, int(length.total_seconds())) // 60
    if not minutes:
        return f"under a{_GAP}minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    amounts = ((days, "d"), (hours, "h"), (minutes, "min"))
    first = next(at for at, (amount, _) in enumerate(amounts) if amount)
    return " ".join(f"{amount}{_GAP}{unit}" for amount, unit in amounts[first : first + 2] if amount)


def timeout_words(on_timeout: str) -> str:
    """Return what happens where nobody decides, to go on after a time: ``forces an answer``."""
    return _TIMEOUTS[on_timeout]


def last_words(checkpoint: Checkpoint, name: str) -> str:
    """Return the last thing that happened, ``kim decided it``; ``name`` is who did it, empty for GuardOps."""
    if name:
        return f"{name} {LastStep(checkpoint.last_did).label}"
    step = LastStep(checkpoint.last_did)
    return _DONE_BY_SYSTEM.get(step, f"Somebody {step.label}")
