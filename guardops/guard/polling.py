"""Polling contracts: a call that may be repeated, at its interval, so often, until a terminal state."""

from __future__ import annotations

from collections.abc import Mapping

from guardops.guard.ledger import Row
from guardops.guard.policy import Poll
from guardops.guard.reasons import Reason

_STATE_NAMES = ("status", "state", "phase")
_MAX_DEPTH = 3


def poll_refusal(row: Row, poll: Poll, at: float) -> Reason | None:
    """Return why the contract allows no poll at ``at`` (seconds since the run's start), if it doesn't."""
    if row.terminal:
        return Reason.TOOL_NO_PROGRESS
    if row.polls >= poll.max_attempts:
        return Reason.POLL_EXHAUSTED
    if row.polls and at - row.first_poll_at >= poll.max_seconds:
        return Reason.POLL_EXHAUSTED
    return None


def next_poll_at(row: Row, poll: Poll) -> float:
    """Return the earliest time of the next poll."""
    return row.last_at + poll.interval if row.polls else 0.0


def is_terminal(result: object, poll: Poll) -> bool:
    """Say whether a result names a terminal state: as its whole text, or under status, state or phase."""
    return bool(poll.terminal) and _names_state(result, poll.terminal, 0)


def _names_state(result: object, states: frozenset[str], depth: int) -> bool:
    if isinstance(result, str):
        return depth == 0 and result.strip() in states
    if not isinstance(result, Mapping) or depth >= _MAX_DEPTH:
        return False
    if any(isinstance(result.get(name), str) and result[name] in states for name in _STATE_NAMES):
        return True
    return any(
        _names_state(value, states, depth + 1) for value in result.values() if isinstance(value, Mapping)
    )
