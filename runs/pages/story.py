"""What one run tells: its last steps, with the guard's interventions between them.

Pure: everything follows from the run's row. Texts in it were written by agents and tools; they are passed on
as they are, for templates to show through ``visible``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from guardops.guard import events
from guardops.guard.events import Action, StepOutcome
from guardops.guard.reasons import Reason
from runs.ingest.rows import Detail
from runs.reasons_text import clause

LETTERS = "ABCD"
SHORT_ARGS = 100
"""How many characters of a step's arguments stand in its line; the rest opens beneath."""


def read_detail(column: Mapping[str, Any]) -> tuple[Detail, list[str]]:
    """Return the json column in types, and the parts that this version cannot read, which stay empty."""
    detail, unreadable = Detail(), []
    for part in msgspec.structs.fields(Detail):
        if part.name not in column:
            continue
        try:
            setattr(detail, part.name, msgspec.convert(column[part.name], part.type, strict=False))
        except msgspec.ValidationError:
            unreadable.append(part.name)
    return detail, unreadable


@dataclass(frozen=True, slots=True)
class StepLine:
    """One executed or refused step. ``letter`` marks the calls of the loop, A B A B."""

    step: int
    tool: str
    args: str
    args_hash: str
    outcome: str
    said: str
    image: str
    severity: str = ""
    letter: str = ""
    at: datetime | None = None

    @property
    def mark(self) -> str:
        """The class that colours its icon."""
        return f"is-{self.severity}" if self.severity else ""

    @property
    def is_long(self) -> bool:
        return len(self.args) > SHORT_ARGS

    @property
    def short_args(self) -> str:
        """The arguments as they stand in its line; a lone text says more without its name and braces."""
        told = _lone_text(self.args) or self.args
        return f"{told[:SHORT_ARGS]}…" if len(told) > SHORT_ARGS else told


@dataclass(frozen=True, slots=True)
class GuardLine:
    """Something the guard did at a step."""

    step: int
    action: str
    reason: str
    said: str
    severity: str
    image: str

    @property
    def word(self) -> str:
        return self.action.replace("_", " ")


Line = StepLine | GuardLine

_ACTIONS: dict[str, tuple[str, str, str]] = {
    Action.CONTINUE: ("Guard let it go on", "", "check"),
    Action.WAIT: ("Guard made it wait", "", "clock"),
    Action.REFUSE: ("Guard refused a call", "warn", "blocked"),
    Action.NUDGE: ("Guard nudged", "warn", "flag"),
    Action.FORCE_ANSWER: ("Guard asked for an answer now", "warn", "forced"),
    Action.ESCALATE: ("Guard handed it to a person", "warn", "escalate"),
    Action.HALT: ("Guard halted", "danger", "halt"),
}
_STEP_MARKS: dict[str, tuple[str, str]] = {
    StepOutcome.OK: ("check", ""),
    StepOutcome.EMPTY: ("same", ""),
    StepOutcome.ERROR: ("fail", "danger"),
    StepOutcome.REFUSED: ("blocked", "danger"),
}


def _lone_text(args: str) -> str:
    """Return the text that is a call's only argument, an address plain, all else in quotes; or nothing."""
    try:
        given = json.loads(args)
    except (ValueError, RecursionError):
        return ""
    values = list(given.values()) if isinstance(given, dict) else []
    if len(values) != 1 or not isinstance(values[0], str):
        return ""
    scheme, found, rest = values[0].partition("://")
    return rest if found and scheme in ("http", "https") else f'"{values[0]}"'


def timeline(detail: Detail, reason: str) -> list[Line]:
    """Return the last steps with what the guard did, each at its step; ``reason`` decides what loops."""
    pending = sorted(detail.interventions, key=lambda intervention: intervention.step)
    lines: list[Line] = []
    for line in _step_lines(detail.last_steps, loop_letters(detail.last_steps, reason)):
        while pending and pending[0].step < line.step:
            lines.append(_guard_line(pending.pop(0)))
        if line.outcome == StepOutcome.REFUSED:
            line = _with_refusal(line, pending)
        lines.append(line)
    return lines + [_guard_line(intervention) for intervention in pending]


def _with_refusal(line: StepLine, pending: list[events.Intervention]) -> StepLine:
    """Say a refused step's reason in its own line, not in a second one."""
    for intervention in pending:
        if intervention.step == line.step and intervention.action == Action.REFUSE:
            pending.remove(intervention)
            return replace(line, said=f"{line.said}: {clause(intervention.reason)}")
    return line


def _guard_line(intervention: events.Intervention) -> GuardLine:
    said, severity, image = _ACTIONS[intervention.action]
    return GuardLine(intervention.step, intervention.action, intervention.reason, said, severity, image)


def _step_lines(steps: Sequence[events.Step], letters: Sequence[str]) -> Iterator[StepLine]:
    results: dict[tuple[str, str], str] = {}
    for step, letter in zip(steps, letters, strict=True):
        unchanged = bool(step.result_digest) and results.get(_call(step)) == step.result_digest
        results[_call(step)] = step.result_digest
        image, severity = _STEP_MARKS[step.outcome]
        yield StepLine(
            step=step.step,
            tool=step.tool,
            args=step.args,
            args_hash=step.args_hash,
            outcome=step.outcome,
            said=_said(step, unchanged),
            image=image,
            severity=severity,
            letter=letter,
            at=step.at,
        )


def _said(step: events.Step, unchanged: bool) -> str:
    if step.outcome == StepOutcome.REFUSED:
        return "refused before it ran"
    if step.outcome == StepOutcome.ERROR:
        return " ".join(["error", *filter(None, (step.error_code, step.error_class))])
    if step.outcome == StepOutcome.EMPTY:
        return "empty"
    if unchanged:
        return "unchanged"
    return {True: "progress", False: "nothing new", None: ""}[step.progressed]


def _call(step: events.Step) -> tuple[str, str]:
    return step.tool, step.args_hash or step.args


def loop_letters(steps: Sequence[events.Step], reason: str) -> list[str]:
    """Return a letter for each step of the loop that ends the steps (A B A B), empty for all others.

    The period is what ``reason`` names: 2 to 4 for a cycle, 1 for a repeated call, else none.
    """
    letters = [""] * len(steps)
    period = _PERIODS.get(reason, 0)
    calls = [_call(step) for step in steps]
    start = len(calls) - period
    while start > 0 and calls[start - 1] == calls[start - 1 + period]:
        start -= 1
    if not period or len(calls) - start < 2 * period:
        return letters
    seen: dict[tuple[str, str], str] = {}
    for index in range(start, len(calls)):
        if calls[index] not in seen:
            seen[calls[index]] = LETTERS[len(seen)]
        letters[index] = seen[calls[index]]
    return letters


_PERIODS: dict[str, int] = {
    Reason.REPEATED_CALL: 1,
    Reason.TOOL_NO_PROGRESS: 1,
    Reason.DUPLICATE_SIDE_EFFECT: 1,
    Reason.TOOL_RETRY_EXHAUSTED: 1,
    Reason.CYCLE_PERIOD_2: 2,
    Reason.CYCLE_PERIOD_3: 3,
    Reason.CYCLE_PERIOD_4: 4,
}


_POLICY_SOURCES = {
    events.PolicySource.SERVER: "from the server",
    events.PolicySource.FILE: "from a file",
    events.PolicySource.BUILTIN: "built-in limits",
}


def policy_source(detail: Detail) -> str:
    """Return in words where the policy in force came from."""
    return _POLICY_SOURCES[(detail.policy or events.PolicyInForce()).src]


def as_text(value: Mapping[str, Any] | None) -> str:
    """Return an object as indented JSON, to be read and not parsed."""
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""
