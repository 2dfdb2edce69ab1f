"""Plays recorded runs through the real guard, each as its agent went on whatever the guard said.

A recorded call is known by the digest of its arguments; its result by the digest of that, an error by its
text, which classifies nothing. Whether the task got on is unknown: a model's own verdict on that, where
recorded, is no evidence. A call of a reading tool whose domain was recorded counts as a fetch from there.
How the run ends: the guard's stop decides first (``completed_forced``, ``escalated``, ``halted``); else the
recording: completed with a full answer; failed; unknown counts as unresolved, since nobody can say that its
task was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from guardops.guard.events import Outcome, RunEnded
from guardops.guard.policy import DEFAULT_TOOL, Policy
from guardops.guard.results import is_empty
from guardops.guard.scenarios.driver import Clock, Driver, Stop
from guardops.guard.scenarios.script import Move, Script, Seen, Turn
from guardops.guard.session import Guard

from .economy import Bill, bill
from .timing import Calendar, stable_id
from .traces import Call, Recorded, Trace

SHORT = 256

_OUTCOMES: Mapping[Recorded, Outcome] = MappingProxyType(
    {
        Recorded.COMPLETED: Outcome.COMPLETED,
        Recorded.FAILED: Outcome.FAILED,
        Recorded.UNKNOWN: Outcome.UNRESOLVED,
    }
)


@dataclass(frozen=True, slots=True)
class Played:
    """A recorded run after the guard; ``news_after_stop``: its recording goes on to an unseen result."""

    trace: Trace
    event: RunEnded
    stop: Stop | None
    refused: int
    nudges: int
    calls_after_stop: int
    news_after_stop: bool

    def line(self) -> dict[str, Any]:
        """Return what a dry run prints of the run."""
        return {
            "run_id": self.trace.run_id,
            "stop_reason": self.stop.reason if self.stop else None,
            "stop_step": self.stop.step if self.stop else None,
            "refused": self.refused,
            "nudges": self.nudges,
            "calls_after_stop": self.calls_after_stop,
        }


class Player:
    """Plays recorded runs under one policy into the days of one calendar."""

    def __init__(self, policy: Policy, calendar: Calendar, *, tenant: str | None = None) -> None:
        self._policy = policy
        self._calendar = calendar
        self._tenant = tenant

    def play(self, trace: Trace) -> Played:
        """Return what the guard makes of ``trace``; the same policy and calendar always give the same."""
        billed = bill(trace)
        started_at = self._calendar.start(trace.run_id, billed.duration_s)
        clock = Clock()
        guard = Guard(self._policy, jitter=_no_jitter)
        run = guard.run(
            job_type=trace.job_type,
            run_id=stable_id(started_at, trace.run_id),
            agent=trace.source,
            release=trace.release,
            clock=clock,
            started_at=started_at,
        )
        driven = Driver(run, clock, billed.rates).drive(
            self._script(trace, billed),
            tenant=self._tenant,
            cost_basis=billed.basis,
            attributes=_attributes(trace),
        )
        after = trace.calls[driven.proposed :] if driven.stop else []
        return Played(
            trace=trace,
            event=driven.event,
            stop=driven.stop,
            refused=driven.refused,
            nudges=driven.nudges,
            calls_after_stop=len(after),
            news_after_stop=_brings_news(after, trace.calls[: driven.proposed]),
        )

    def _script(self, trace: Trace, billed: Bill) -> Script:
        for first, last in billed.shares:
            yield Turn(tuple(self._move(call, billed.tool_s) for call in trace.calls[first:last]))
        return _OUTCOMES[trace.outcome]

    def _move(self, call: Call, seconds: float) -> Move:
        args = call.args
        if call.domain and not self._policy.tool(call.tool).writes:
            args = {**args, "recorded_source": f"https://{call.domain}/{call.args_sha}"}
        return Move(call.tool, args, lambda: _seen(call, seconds), identity=call.args_sha)


def _seen(call: Call, seconds: float) -> Seen:
    if call.error:
        return Seen(error=call.error_text or "error", seconds=seconds, characters=call.result_len)
    return Seen(result=call.result, seconds=seconds, characters=call.result_len, digest=call.result_sha)


def _attributes(trace: Trace) -> dict[str, str]:
    said = {
        "recorded_run_id": trace.run_id,
        "recorded_outcome": trace.outcome.value,
        "recorded_started_at": trace.started_at,
        "recorded_end": trace.ended,
    }
    return {name: value[:SHORT] for name, value in said.items() if value}


def _brings_news(after: list[Call], before: list[Call]) -> bool:
    """Whether any later call succeeded with something in it that no earlier call had brought."""
    known = {call.result_identity for call in before}
    return any(not _is_bare(call) and call.result_identity not in known for call in after)


def _is_bare(call: Call) -> bool:
    """Whether a call failed, or brought nothing by the guard's own rule."""
    return call.error or is_empty(call.result, DEFAULT_TOOL)


def _no_jitter() -> float:
    return 0.0
