"""A small agent for tests: puts calls through a run's guard on a clock that stands still until told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from guardops.guard.answers import Check, Verdict
from guardops.guard.events import Action
from guardops.guard.policy import Policy
from guardops.guard.session import Guard, RunGuard
from guardops.guard.state import Ticket

STARTED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def guard(**policy: Any) -> Guard:
    """Return a guard with a policy of overrides, without jitter and on a fixed date."""
    return Guard(Policy.from_mapping(policy), jitter=lambda: 0.0, now=lambda: STARTED_AT)


class Agent:
    """One run. ``call`` proposes a call and reports what came of it; answers are the guard's own."""

    def __init__(self, guarded: Guard | None = None, /, **policy: Any) -> None:
        self.now = 0.0
        self.run: RunGuard = (guarded or guard(**policy)).run(job_type="test", clock=lambda: self.now)

    def check(self, tool: str, args: Mapping[str, Any] | None = None, **more: Any) -> Check:
        """Propose a call."""
        return self.run.check(tool, args or {}, **more)

    def ticket(self, tool: str, args: Mapping[str, Any] | None = None, **more: Any) -> Ticket:
        """Propose a call that must be allowed."""
        check = self.check(tool, args, **more)
        assert check.ticket is not None, check
        return check.ticket

    def call(
        self, tool: str, args: Mapping[str, Any] | None = None, result: Any = None, **report: Any
    ) -> Check | Verdict:
        """Propose a call and, where it may run, report its result or error."""
        check = self.check(tool, args)
        if check.ticket is None:
            return check
        return self.run.observe(check.ticket, result=result, **report)

    def reasons(
        self, count: int, tool: str, args: Mapping[str, Any] | None = None, **report: Any
    ) -> list[str]:
        """Make one call ``count`` times and return what the guard said each time."""
        return [said(self.call(tool, args, **report)) for _ in range(count)]


def said(answer: Check | Verdict) -> str:
    """Return an answer's reason, or its action where it has none."""
    return answer.action.value if answer.reason is None else answer.reason.value


def allowed(answer: Check | Verdict) -> bool:
    """Say whether the run goes on unhindered."""
    return answer.action is Action.CONTINUE
