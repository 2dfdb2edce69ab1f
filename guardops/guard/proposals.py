"""From a proposed call to its answer: prepared, checked, and let pass or refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from guardops.guard import checks
from guardops.guard.answers import Check
from guardops.guard.dispatch import dispatch, prepare, release, unjudged
from guardops.guard.events import Action, Mode
from guardops.guard.fingerprint import FingerprintError
from guardops.guard.keeping import Keeper
from guardops.guard.ledger import Last
from guardops.guard.policy import ToolSpec
from guardops.guard.reasons import Reason
from guardops.guard.responder import Responder
from guardops.guard.sqlite_root import Kept
from guardops.guard.state import BatchId, Call, RunState, Trip, Wait
from guardops.guard.summary import Counts, RecentStep, refused_step


class Proposals:
    """Judges the calls that one run proposes. Hold the run's lock."""

    __slots__ = ("_counts", "_keeper", "_recent", "_responder", "_run")

    def __init__(
        self,
        run: RunState,
        counts: Counts,
        responder: Responder,
        recent: deque[RecentStep],
        keeper: Keeper | None,
    ) -> None:
        self._run = run
        self._counts = counts
        self._responder = responder
        self._recent = recent
        self._keeper = keeper

    def judge(
        self,
        tool: str,
        args: Mapping[str, Any],
        spec: ToolSpec,
        at: float,
        batch: BatchId | None,
        depth: int,
        identity: str | None,
    ) -> Check:
        """Say whether a call may run, a fault of the guard's own included; see ``RunGuard.check``."""
        try:
            return self._judge(tool, args, spec, at, batch, depth, identity)
        except Exception as fault:
            return self._after_fault(tool, spec, fault, at, batch)

    def kept(self, answer: Check, kept: Kept) -> Check:
        """Return an answer that could be committed; else a write may not run, since a crash would hide it."""
        ticket = answer.ticket
        if kept is Kept.TAKEN_OVER:
            self._responder.ladder.stand_aside(self._counts.tool_calls, Reason.REQUEUE_REFUSED)
            refused: Check | None = Check(Action.HALT, Reason.REQUEUE_REFUSED)
        elif kept is Kept.YES or ticket is None or not ticket.spec.writes:
            return answer
        else:
            refused = self._responder.refuse(Trip(Reason.GUARD_ERROR), ticket.tool, ticket.batch)
        if refused is None:
            return answer
        if ticket is not None:
            del self._run.in_flight[ticket.number]
            release(self._run, ticket)
        return refused

    def _judge(
        self,
        tool: str,
        args: Mapping[str, Any],
        spec: ToolSpec,
        at: float,
        batch: BatchId | None,
        depth: int,
        identity: str | None,
    ) -> Check:
        try:
            call = prepare(self._run, tool, args, spec, at=at, batch=batch, depth=depth, identity=identity)
        except FingerprintError as error:
            refused = self._responder.refuse(Trip(Reason.TOOL_NO_PROGRESS), tool, batch, text=str(error))
            return refused or self._let_unjudged_pass(tool, spec, at, batch)
        if self._keeper is not None:
            self._keeper.touch(call.row)
        found = checks.pre_check(self._run, call)
        if spec.poll is None:
            self._counts.peak_repeats = max(self._counts.peak_repeats, call.row.streak + 1)
        if isinstance(found, Trip):
            refused = self._responder.refuse(found, tool, batch, call)
            if refused is not None:
                self._recent.append(refused_step(self._counts.tool_calls, call, found.reason))
                return refused
        elif isinstance(found, Wait) and self._run.policy.mode is Mode.ENFORCE:
            return Check(Action.WAIT, not_before=found.not_before)
        return self._let_pass(call)

    def _let_pass(self, call: Call) -> Check:
        number = self._counts.tool_calls
        if call.row.last is Last.RETRYABLE:
            self._counts.retries += 1
        ticket = self._run.in_flight[number] = dispatch(self._run, call, number)
        return Check(Action.CONTINUE, ticket=ticket)

    def _after_fault(
        self, tool: str, spec: ToolSpec, fault: Exception, at: float, batch: BatchId | None
    ) -> Check:
        """The guard itself failed: it says so, lets a read pass and refuses a write."""
        self._counts.note_fault(fault)
        if spec.writes:
            refused = self._responder.refuse(Trip(Reason.GUARD_ERROR), tool, batch)
            if refused is not None:
                return refused
        return self._let_unjudged_pass(tool, spec, at, batch)

    def _let_unjudged_pass(self, tool: str, spec: ToolSpec, at: float, batch: BatchId | None) -> Check:
        """Let a call pass that has no fingerprint, as far as its tool and the budgets allow."""
        call = unjudged(tool, spec, self._counts.tool_calls, at=at, batch=batch)
        found = checks.without_fingerprint(self._run, call)
        refused = self._responder.refuse(found, tool, batch) if found else None
        return refused or self._let_pass(call)
