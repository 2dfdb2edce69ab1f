"""A run as a guard case: its last steps, limits and verdict in the form that ``guardops.guard.cases`` runs.

A run's event holds its last 20 steps, arguments redacted and results as digests. That is enough to meet the
same verdict where the verdict follows from these steps alone. Where it does not, the case says ``partial``
and why: every case that is not marked so has been put through the runner.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from guardops.guard import cases, events
from guardops.guard.errors import RETRYABLE
from guardops.guard.events import Action, StepOutcome
from guardops.guard.policy import Limits, SideEffect
from runs.reasons_text import headline

if TYPE_CHECKING:
    from runs.ingest.rows import Detail
    from runs.models import Run

KEPT = 20
"""How many of a run's last steps its event holds."""

_LIMIT_NAMES = frozenset(field.name for field in fields(Limits))


def case_of(run: Run, detail: Detail, source: str) -> dict[str, Any]:
    """Return the run as a case; ``source`` says where it comes from.

    ``partial`` stands where the runner cannot be expected to meet the verdict, with ``partial_why``.
    """
    case: dict[str, Any] = {
        "id": f"run-{run.run_id}",
        "source": source,
        "kind": "run",
        "description": headline(run),
        "policy": _policy(detail),
        "calls": list(_calls(run, detail)),
        "expect": _expected(run, detail),
    }
    why = list(_gaps(run, detail)) or list(_differences(case))
    return {**case, "partial": True, "partial_why": why} if why else case


def _policy(detail: Detail) -> dict[str, Any]:
    """Return the limits that the guard knows, and which tools do more than read. Shadow mode is left out."""
    policy: dict[str, Any] = {name: value for name, value in detail.limits.items() if name in _LIMIT_NAMES}
    tools = {
        row.tool: {"class": row.side_effect} for row in detail.ledger if row.side_effect != SideEffect.READ
    }
    return {**policy, "tools": tools} if tools else policy


def _calls(run: Run, detail: Detail) -> Iterator[dict[str, Any]]:
    steps = sorted(detail.last_steps, key=lambda step: step.step)
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for step in steps:
        hashes[step.tool, step.args].add(step.args_hash)
    retryable = {(row.tool, row.args_hash): row.retryable for row in detail.ledger}
    for step in steps:
        ambiguous = len(hashes[step.tool, step.args]) > 1
        call: dict[str, Any] = {
            "tool": step.tool,
            "args": _arguments(step, ambiguous=ambiguous),
            "result": step.result_digest or None if step.outcome == StepOutcome.OK else None,
            "error": _error(step, retryable.get((step.tool, step.args_hash), True)),
            "progressed": step.progressed,
        }
        if step.at is not None:
            call["at"] = max(0.0, round((step.at - run.started_at).total_seconds(), 3))
        yield call


def _arguments(step: events.Step, *, ambiguous: bool) -> dict[str, Any]:
    """Return a step's arguments; where redaction hid what told two calls apart, their hash does."""
    try:
        found = json.loads(step.args) if step.args else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return {"redacted": step.args, "args_hash": step.args_hash}
    return {**found, "args_hash": step.args_hash} if ambiguous else found


def _error(step: events.Step, retryable: bool) -> dict[str, Any] | None:
    if step.outcome != StepOutcome.ERROR:
        return None
    error: dict[str, Any] = {"class": step.error_class or "unknown"}
    if step.error_code:
        error["code"] = step.error_code
    if step.error_class in RETRYABLE and not retryable:
        error["retryable"] = False
    return error


def _expected(run: Run, detail: Detail) -> dict[str, Any]:
    """Return the first verdict other than ``continue`` that the run met, or in shadow mode would have."""
    if detail.would_halt:
        return _verdict(detail, detail.would_halt.reason, detail.would_halt.step)
    for told in sorted(detail.interventions, key=lambda told: told.step):
        if told.action is not Action.CONTINUE:
            reason = Action.WAIT.value if told.action is Action.WAIT else told.reason
            return _verdict(detail, reason, told.step)
    if run.halt_reason:
        return _verdict(detail, run.halt_reason, run.tool_calls)
    return {"verdict": "continue", "at_step": len(detail.last_steps)}


def _verdict(detail: Detail, reason: str, step: int) -> dict[str, Any]:
    refused = any(one.step == step and one.outcome == StepOutcome.REFUSED for one in detail.last_steps)
    return {"verdict": reason, "at_step": step, **({"phase": "pre"} if refused else {})}


def _gaps(run: Run, detail: Detail) -> Iterator[str]:
    """Say which of the run's calls are missing; nothing where all of them are there."""
    numbers = sorted(step.step for step in detail.last_steps)
    if run.tool_calls > KEPT:
        yield f"The run made {run.tool_calls:,} calls, of which the last {len(numbers)} are kept."
    elif numbers != list(range(1, run.tool_calls + 1)):
        yield f"Of {run.tool_calls:,} calls {len(numbers)} were sent as steps."
    if any(step.tool.startswith("@") for step in detail.last_steps):
        yield "A tool's name begins with @, as only what the runner does by itself may."
    if "last_steps" in detail.truncated and run.tool_calls <= KEPT:
        yield "The guard cut the steps to fit."


def _differences(case: dict[str, Any]) -> Iterator[str]:
    """Say how the runner's verdict differs: steps tell nothing of turns, approvals and the rules of tools."""
    try:
        wrong = cases.difference(case, cases.run_case(case))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        wrong = type(error).__name__  # limits and steps are what a guard sent: they may make no sense
    if wrong:
        yield f"The steps alone do not lead to this verdict: {wrong}."


def case_line(case: dict[str, Any]) -> str:
    """Return a case as the one line of a case file."""
    return json.dumps(case) + "\n"
