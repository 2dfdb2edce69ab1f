"""What the scripted agents' applications ask a person when they hand a run over."""

from __future__ import annotations

from collections.abc import Mapping

from guardops.guard.handoff import Said
from guardops.guard.reasons import Reason

_ASKED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    Reason.UNCERTAIN_WRITE: (
        "The refund timed out. Was it made?",
        ("whether the customer has the money",),
    ),
    Reason.TOOL_AUTH_ERROR: (
        "The order system refuses our credentials. Should the ticket wait, or be answered without it?",
        ("the state of the order",),
    ),
    Reason.QUOTA_EXHAUSTED: (
        "The quota of the help search is used up. Can the ticket be answered without it?",
        ("which article fits",),
    ),
    Reason.APPROVAL_REQUIRED: ("May this compensation be paid?", ("whether it was the carrier's fault",)),
    Reason.STEP_BUDGET: (
        "There are more files than steps. Is it worth going on?",
        ("which of the files matter",),
    ),
    Reason.MAX_TURNS: ("The turns are used up. Is it worth going on?", ("which of the files matter",)),
}


def question(reason: str, expires_in: float) -> Said:
    """Return what is said about a run that was stopped for this reason, for so many seconds."""
    asked, unresolved = _ASKED.get(reason, ("Should this run go on?", ()))
    return Said(asked, unresolved, expires_in=expires_in)
