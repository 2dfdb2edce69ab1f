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
from guardops.guard.escalation import Escalation, Means
from guardops.guard.events import (
    Action,
    Answer,
    Envelope,
    GuardInfo,
    OnTimeout,
    Outcome,
    RunEnded,
    RunHeartbeat,
)
from guardops.guard.guarded_run import RunGuard
from guardops.guard.handoff import DAY_S, Opening, Said, kept, opened
from guardops.guard.next_attempt import added_by
from guardops.guard.policy import MICRO, Policy
from guardops.guard.reasons import Reason, known
from guardops.guard.reporter import Reporter, encoded
from guardops.guard.run_events import short_attributes, started
from guardops.guard.state import BatchId, Ticket
from guardops.guard.summary import VERSION

_MAX_WAITS = 20
_MAX_UNASKED = 32
_MAX_SHARE = 100.0
_MAX_HEARTBEAT_SOURCES = 5

_T = TypeVar("_T")


class Edge(NamedTuple):
    """Where a run meets the world: who is told of it, for which tenant, and how it waits (seconds)."""

    reporter: Reporter | None = None
    tenant: str | None = None
    instance: str = ""
    envelope: Envelope | None = None
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    means: Means | None = None
    declared: Policy | None = None
    """What the application has declared of the run and its tools."""


class AgentRun(RunGuard):
    """One guarded run. Made by :meth:`guardops.guard.session.Guard.run`; use it in a ``with`` block."""

    def __init__(self, *args: Any, edge: Edge, **options: Any) -> None:
        super().__init__(*args, **options)
        self.attributes: dict[str, str] = {}
        """What the application wants to find the run by: at most 20 short texts."""
        self._edge = edge
        self._ended: RunEnded | None = None
        self._escalation: Escalation | None = None
        self._ending = Lock()
        self._heartbeats = count(1)
        self._forced_turn = False
        """Whether the model has been asked for its forced answer: a call from here on halts the run."""
        self._unasked = 0
        self._key = str(self.who.run_id)
        if edge.reporter is not None:
            event = started(self.who, self.policy, self._info(), edge.envelope, self._identity())
            event.policy = self.in_force()
            edge.reporter.started(event, self._key, self)

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
        with self._ending:
            if self._ended is not None and self._edge.reporter is not None:
                return self._ended
            self._ended = super().end(outcome, answer=answer, at=at, **self._detailed(details))
            if self._edge.reporter is not None:
                self._edge.reporter.ended(self._ended, self._key)
            return self._ended

    def _detailed(self, details: dict[str, Any]) -> dict[str, Any]:
        """Return what the caller says of the run's end, with what this process knows."""
        if self.attributes:
            details["attributes"] = {**self.attributes, **details.get("attributes", {})}
        if self._edge.tenant is not None:
            details.setdefault("tenant", self._edge.tenant)
        if self._edge.reporter is not None:
            details.setdefault("guard", self._info())
            details["attributes"] = short_attributes(details.get("attributes", {}))
        return details

    def escalate(
        self,
        question: str = "",
        *,
        reason: Reason | None = None,
        unresolved: Sequence[str] = (),
        artifact: str | None = None,
        evidence: Mapping[str, str] | None = None,
        context: Any = None,
        expires_in: float = DAY_S,
        on_timeout: OnTimeout | None = None,
    ) -> Escalation:
        """Hand the run to a person: end this attempt, open a checkpoint, and return where to wait.

        Both are on this machine's disk when it returns. The person is shown the question, facts that are
        ``unresolved``, an ``artifact`` (a draft, say; the decision is bound to it), and which version of its
        ``evidence`` each source had. ``context`` (JSON) is shown to nobody: it is what the next attempt needs
        to go on, kept in this machine's file. After ``expires_in`` seconds ``on_timeout`` holds, by default
        the policy's. Raises :class:`Stopped` where the run was halted, and ValueError where it has ended in
        another way.
        """
        said = Said(question, unresolved, artifact, evidence or {}, context, expires_in, on_timeout)
        with self._ending:
            if self._escalation is None:
                self._escalation = self._open(said, reason)
            return self._escalation

    def _open(self, said: Said, reason: Reason | None) -> Escalation:
        means, edge = self._edge.means, self._edge
        assert means is not None
        ended_before = self._ended is not None
        with self._answer_to_write:
            ended = self._ended or self._leave_to_a_person(reason)
            if ended.outcome is not Outcome.ESCALATED:
                raise ValueError(f"the run has ended as {ended.outcome.value}: nobody can decide on it")
            record = self.record(ended.ended_at)
            usual = self._following.review.on_timeout if self._following is not None else OnTimeout.STOP
            opening = Opening(
                place=means.place(self.who.tenant),
                on_timeout=said.on_timeout or usual,
                envelope=edge.envelope,
                added=added_by(self._after) if self._after is not None else None,
            )
            event = opened(record, ended, said, opening)
            one = kept(record, event, said, opening, [encoded(ended), encoded(event)])
            self._store.checkpoints.add(one, self.state.root)
        self._store.checkpoints.confirm(one, self.state.root)
        if edge.reporter is not None:
            if not ended_before:
                edge.reporter.ended(ended, self._key)
            edge.reporter.opened(event)
        return Escalation(one, means, policy=edge.declared, event=event)

    def _leave_to_a_person(self, reason: Reason | None) -> RunEnded:
        """End the run as escalated, for the reason that the guard has given where it has."""
        before = self._responder.before_turn()
        if before is None or before.action is not Action.HALT:
            before = self.suspend(reason or known(self.ladder.reason) or Reason.APPROVAL_REQUIRED)
        if before.action is Action.HALT:
            raise Stopped(before.action, before.reason, before.message)
        self._ended = super().end(**self._detailed({}))
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

    def _identity(self) -> dict[str, Any]:
        """Return whom an event is of, as its end names it."""
        external = self.who.external_id
        run_id = None if external else self.who.run_id
        return {"run_id": run_id, "external_id": external, "tenant": self._edge.tenant}

    def _info(self) -> GuardInfo:
        return GuardInfo(version=VERSION, instance=self._edge.instance)
