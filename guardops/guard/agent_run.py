"""A guarded run as an agent's loop uses it: reported from its start to its end, its tools called for it.

Two ways out of a call make a hand-written loop simple. A refusal is text for the model, like any result, so
that the loop has no branch for it. A stop is an exception, so that the loop ends by itself and nobody takes a
halted run for an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from guardops.guard.answers import Check, Verdict
from guardops.guard.batches import Batch, task_of
from guardops.guard.calls import (
    STOPS,
    Progress,
    Stopped,
    ToolCall,
    ToolResult,
    answer_now,
    carry_out,
    carry_out_async,
    checked,
    in_threads,
    refused,
)
from guardops.guard.dispatch import release
from guardops.guard.events import (
    Action,
    Answer,
    Envelope,
    GuardInfo,
    Outcome,
    RunEnded,
    RunHeartbeat,
    RunStarted,
)
from guardops.guard.guarded_run import RunGuard
from guardops.guard.policy import MICRO
from guardops.guard.reasons import known
from guardops.guard.reporter import Reporter
from guardops.guard.state import BatchId, Ticket
from guardops.guard.summary import VERSION
from guardops.guard.texts import encodable

_MAX_WAITS = 20
_MAX_UNASKED = 32
_MAX_SHARE = 100.0
_MAX_HEARTBEAT_SOURCES = 5
_MAX_ATTRIBUTES = 20

_T = TypeVar("_T")


class Edge(NamedTuple):
    """Where a run meets the world: who is told of it, for which tenant, and how it waits (seconds)."""

    reporter: Reporter | None = None
    tenant: str | None = None
    instance: str = ""
    envelope: Envelope | None = None
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class AgentRun(RunGuard):
    """One guarded run. Made by :meth:`guardops.guard.session.Guard.run`; use it in a ``with`` block."""

    def __init__(self, *args: Any, edge: Edge, **options: Any) -> None:
        super().__init__(*args, **options)
        self.attributes: dict[str, str] = {}
        """What the application wants to find the run by: at most 20 short texts."""
        self._edge = edge
        self._ended: RunEnded | None = None
        self._ending = Lock()
        self._heartbeats = count(1)
        self._forced_turn = False
        """Whether the model has been asked for its forced answer: a call from here on halts the run."""
        self._unasked = 0
        self._key = str(self.who.run_id)
        if edge.reporter is not None:
            edge.reporter.started(self._started(), self._key, self)

    # -- around a model call -----------------------------------------------------------------------------

    def tools(self, tools: Sequence[_T], *, tokens: int = 0, cost: Decimal | float | str = 0) -> list[_T]:
        """Return the tools that the model may be offered now: none where it has to answer.

        To be asked before every model call, which may take up to ``tokens`` and ``cost`` (USD). Raises
        :class:`Stopped` where the run is over.
        """
        verdict = self.reserve_turn(tokens=tokens, cost=cost)
        if verdict.action in STOPS:
            raise Stopped(verdict.action, verdict.reason, verdict.message)
        self._forced_turn = verdict.action is Action.FORCE_ANSWER
        return [] if self._forced_turn else list(tools)

    def turn(
        self,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost: Decimal | float | str = 0,
        at: float | None = None,
        *,
        tokens_cached: int = 0,
        usage_known: bool = True,
        answered: bool = False,
    ) -> Verdict:
        """Settle one model turn; see :meth:`guardops.guard.guarded_run.RunGuard.turn`."""
        self._forced_turn = self._forced_turn or self.ladder.standing is Action.FORCE_ANSWER
        return super().turn(
            tokens_in,
            tokens_out,
            cost,
            at,
            tokens_cached=tokens_cached,
            usage_known=usage_known,
            answered=answered,
        )

    # -- tool calls --------------------------------------------------------------------------------------

    def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        progressed: Progress = None,
    ) -> ToolResult:
        """Call a tool if it may run, and return what the model is told of it.

        What the tool raises is classified, and told to the model as well; it is in the result's ``error``.
        Waits where the guard says so. ``progressed`` says whether the call brought the task further, or how
        to tell from its result. Raises :class:`Stopped` where the run is over.
        """
        if (told := self.without_asking()) is not None:
            return told
        check = self._check_patiently(tool, args)
        if check.ticket is None:
            return refused(check, tool)
        return checked(carry_out(self, check.ticket, args, function, progressed))

    async def acall(
        self,
        tool: str,
        args: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        progressed: Progress = None,
    ) -> ToolResult:
        """Do the same for a coroutine function, or for a plain one in a thread."""
        if (told := self.without_asking()) is not None:
            return told
        check = await self._acheck_patiently(tool, args)
        if check.ticket is None:
            return refused(check, tool)
        return checked(await carry_out_async(self, check.ticket, args, function, progressed))

    def calls(self, calls: Iterable[ToolCall], *, progressed: Progress = None) -> list[ToolResult]:
        """Make the calls of one model turn side by side, in threads; return their results in order.

        The guard judges them as one batch. Raises :class:`Stopped` once all that were begun are done.
        """
        batch = Batch(self, list(calls))
        for place, call in enumerate(batch.calls):
            if batch.asks(place):
                batch.note(place, self._check_patiently(call.tool, call.args, batch.id))
        granted = batch.granted()
        landed = in_threads([task_of(self, ticket, call, progressed) for ticket, call in granted])
        return batch.results(landed)

    async def acalls(self, calls: Iterable[ToolCall], *, progressed: Progress = None) -> list[ToolResult]:
        """Make the calls of one model turn at the same time; see :meth:`calls`."""
        batch = Batch(self, list(calls))
        for place, call in enumerate(batch.calls):
            if batch.asks(place):
                batch.note(place, await self._acheck_patiently(call.tool, call.args, batch.id))
        granted = batch.granted()
        landed = await asyncio.gather(
            *(carry_out_async(self, ticket, call.args, call.function, progressed) for ticket, call in granted)
        )
        return batch.results(landed)

    def _check_patiently(self, tool: str, args: Mapping[str, Any], batch: BatchId | None = None) -> Check:
        check = self.check(tool, args, batch=batch)
        for _ in range(_MAX_WAITS):
            if (pause := self._pause(check)) is None:
                break
            self._edge.sleep(pause)
            check = self.check(tool, args, batch=batch)
        return check

    async def _acheck_patiently(
        self, tool: str, args: Mapping[str, Any], batch: BatchId | None = None
    ) -> Check:
        check = self.check(tool, args, batch=batch)
        for _ in range(_MAX_WAITS):
            if (pause := self._pause(check)) is None:
                break
            await self._edge.asleep(pause)
            check = self.check(tool, args, batch=batch)
        return check

    def _pause(self, check: Check) -> float | None:
        """Return how long to wait before the call is proposed again; None where that is no use."""
        if check.action is not Action.WAIT or check.not_before is None:
            return None
        now, deadline = self._clock(), self.state.deadline
        left = min(self.policy.limits.max_seconds, deadline if deadline is not None else float("inf")) - now
        pause = max(0.0, check.not_before - now)
        return pause if pause < left else None

    def without_asking(self) -> ToolResult | None:
        """Answer the other calls of the very turn in which an answer was forced: they were asked for before.

        What the model asks for in the forced turn itself is put to the guard, and ends the run.
        """
        if self.ladder.standing is not Action.FORCE_ANSWER or self._forced_turn:
            return None
        self._unasked += 1
        if self._unasked > _MAX_UNASKED:  # the loop never comes back to the model
            return None
        reason = known(self.ladder.reason)
        return ToolResult(answer_now(reason), reason=reason, is_error=True)

    def withdraw(self, ticket: Ticket) -> None:
        """Give back a call that was allowed and not begun, since the run was stopped in between."""
        with self._answer:
            if self.state.in_flight.pop(ticket.number, None) is ticket:
                release(self.state, ticket)
                ticket.row.count -= 1

    # -- the run's ends ----------------------------------------------------------------------------------

    def heartbeat(self) -> RunHeartbeat:
        """Return how far the run has come."""
        pressure = self.pressure()
        with self.state.root.lock:
            named = self.state.sources.named(self.counts.proposed_sources, quarantined=False)
            return RunHeartbeat(
                seq=next(self._heartbeats),
                **self._identity(),
                at=self._wall(self._clock()),
                steps=self.counts.steps,
                turns=self.counts.turns,
                cost=Decimal(self.counts.cost) / MICRO,
                pressure={name: min(share, _MAX_SHARE) for name, share in pressure.items()},
                sources=named[:_MAX_HEARTBEAT_SOURCES],
            )

    def end(
        self,
        outcome: Outcome | None = None,
        *,
        answer: Answer | None = None,
        at: float | None = None,
        **details: Any,
    ) -> RunEnded:
        """Close the run, report it, and return its event; see :meth:`RunGuard.end` for the arguments.

        A reported run ends once: its event outlives this process from here on, and is returned again later.
        """
        if self.attributes:
            details["attributes"] = {**self.attributes, **details.get("attributes", {})}
        with self._ending:
            if self._ended is not None and self._edge.reporter is not None:
                return self._ended
            if self._edge.tenant is not None:
                details.setdefault("tenant", self._edge.tenant)
            if self._edge.reporter is not None:
                details.setdefault("guard", self._info())
                details["attributes"] = _short(details.get("attributes", {}))
            self._ended = super().end(outcome, answer=answer, at=at, **details)
            if self._edge.reporter is not None:
                self._edge.reporter.ended(self._ended, self._key)
            return self._ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run: failed where an exception leaves the block, cancelled where that is an interrupt."""
        if self._ended is not None:
            return
        if error is None or isinstance(error, Stopped):
            self.end()
            return
        cancelled = isinstance(error, KeyboardInterrupt | asyncio.CancelledError | GeneratorExit)
        self.end(
            Outcome.CANCELLED if cancelled else Outcome.FAILED,
            attributes={"error": type(error).__name__},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _started(self) -> RunStarted:
        who = self.who
        return RunStarted(
            job_type=who.job_type,
            started_at=who.started_at,
            **self._identity(),
            agent=who.agent,
            root_task_id=who.root_task_id,
            parent_run_id=who.parent_run_id,
            attempt=who.attempt,
            release=who.release,
            prompt_version=who.prompt_version,
            envelope=self._edge.envelope,
            limits=self.policy.limits_in_force(),
            policy=self.in_force(),
            guard=self._info(),
        )

    def _identity(self) -> dict[str, Any]:
        """Return whom an event is of, as its end names it."""
        external = self.who.external_id
        run_id = None if external else self.who.run_id
        return {"run_id": run_id, "external_id": external, "tenant": self._edge.tenant}

    def _info(self) -> GuardInfo:
        return GuardInfo(version=VERSION, instance=self._edge.instance)


def _short(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """Return attributes as the wire takes them: 20 at most, names cut to 64 characters, values to 256."""
    items = list(attributes.items())[:_MAX_ATTRIBUTES]
    return {encodable(str(name))[:64]: encodable(str(value))[:256] for name, value in items}
