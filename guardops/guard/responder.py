"""Turns a broken rule into an answer: what the ladder says, and what parallel calls make of it.

Calls that were proposed together were all proposed before the first answer, so a batch, and a call in
flight, climb one rung only.
"""

from __future__ import annotations

from guardops.guard import ladder
from guardops.guard.answers import CONTINUE, Check, Verdict
from guardops.guard.bundle import StopOrder
from guardops.guard.events import Action, SourceKind
from guardops.guard.ladder import Ladder
from guardops.guard.reasons import Reason, known
from guardops.guard.rungs import ALWAYS_HALT
from guardops.guard.state import BatchId, Call, RunState, Ticket, Trip
from guardops.guard.summary import Counts

_FORCED_TURNS = 2
"""Turns settled after an answer was forced: the one that was under way, and the answer itself."""


class Responder:
    """Answers for one run. Hold the run's lock."""

    __slots__ = ("_batch", "_counts", "_forced_turns", "_leaders", "_run", "ladder")

    def __init__(self, run: RunState, counts: Counts, run_ladder: Ladder) -> None:
        self.ladder = run_ladder
        self._run = run
        self._counts = counts
        self._batch: BatchId | None = None
        """The batch that tripped last."""
        self._leaders: set[int] = set()
        """Calls in flight whose duplicates have been answered."""
        self._forced_turns = 0

    def after_stop(self, batch: BatchId | None) -> Check | None:
        """Return the refusal of a call that comes after a stop, or None where there was none.

        A call inside the forced turn halts the run; one from the very batch that was stopped is only refused.
        """
        halted, standing = self._run.root.halted, self.ladder.standing
        if halted is None and standing is None:
            return None
        self._counts.refusals += 1
        sibling = batch is not None and batch == self._batch
        if halted is not None or (standing is Action.FORCE_ANSWER and not sibling):
            self.halt(halted)
        reason = known(self.ladder.reason) or Reason.OPERATOR_STOP
        return Check(self.ladder.standing or Action.HALT, reason, message=self.ladder.said)

    def refuse(
        self, trip: Trip, tool: str, batch: BatchId | None, call: Call | None = None, text: str = ""
    ) -> Check | None:
        """Refuse a call; None where the policy's mode only watches. ``text`` replaces the usual message."""
        reason, step = trip.reason, self._counts.tool_calls
        if not self.ladder.enforces(reason):
            if not trip.gently:
                self.ladder.climb(reason, step)
            return None
        self._counts.refusals += 1
        leader, again = 0, False
        if call is not None:
            again = call.row.blocked
            if not trip.gently:  # what is quarantined already must not be so for ever
                self._counts.note_refused(call, reason)
            leader = call.row.in_flight if reason is Reason.DUPLICATE_IN_FLIGHT else 0
        if self._told(reason, batch, leader):
            action = Action.REFUSE
        else:
            self._batch = batch
            self._counts.refusals_told += 1
            told = self._counts.refusals_told
            action = self.ladder.refuse(reason, step, told, again=again, gently=trip.gently)
            if action is Action.HALT:
                self._quarantine()
            if action is self.ladder.standing:
                reason = known(self.ladder.reason) or reason  # the refusal limit has its own
        message = text or ladder.message(reason, tool, trip.count, trip.detail)
        shared = leader if leader and call is not None and not call.spec.writes else None
        return Check(action, reason, message=message, leader=shared)

    def answer(self, trip: Trip, ticket: Ticket) -> Verdict:
        """Answer a trip that a result has caused."""
        if self._told(trip.reason, ticket.batch, 0):
            return self.standing()
        if self.ladder.standing is None and self.ladder.enforces(trip.reason):
            self._batch = ticket.batch
            self._counts.note_sources(ticket.visit, trip.reason)
        return self._climb(trip, ticket.tool)

    def answer_turn(self, trip: Trip) -> Verdict:
        """Answer a trip between two model turns."""
        self._batch = None
        return self._climb(trip, "")

    def before_turn(self) -> Verdict | None:
        """Return where a stopped run stands, or None where it may ask the model again."""
        if self._run.root.halted is not None:
            self.halt(self._run.root.halted)
        return self.standing() if self.ladder.standing is not None else None

    def after_turn(self) -> Verdict | None:
        """Count a model turn after a stop and return where the run stands: a forced answer takes one turn."""
        if self.ladder.standing is Action.FORCE_ANSWER:
            self._forced_turns += 1
            if self._forced_turns > _FORCED_TURNS:
                self.halt()
        return self.before_turn()

    def only_answer(self, reason: str) -> None:
        """Let the run do nothing but answer, in one turn: none was under way."""
        self.ladder.only_answer(reason)
        self._forced_turns = _FORCED_TURNS - 1

    def halt(self, reason: str | None = None) -> None:
        """Halt the run and its root, and quarantine the sources that led there."""
        self.ladder.halt(self._counts.tool_calls, reason)
        self._quarantine()

    def obey(self, order: StopOrder) -> None:
        """Stop by a person's order: what it names, and no more."""
        self.ladder.obey(order, self._counts.tool_calls)

    def standing(self) -> Verdict:
        """Return where the run stands."""
        if self.ladder.standing is None:
            return CONTINUE
        return Verdict(self.ladder.standing, known(self.ladder.reason), self.ladder.said)

    def landed(self, ticket: Ticket) -> None:
        """Note that a call is no longer in flight."""
        self._leaders.discard(ticket.number)

    def _quarantine(self) -> None:
        proposed = self._counts.proposed_sources
        names = [name for kind, name in proposed if kind is SourceKind.DOMAIN]
        self._run.root.quarantine(names)
        # What people block or stop says nothing of these sources to other roots.
        if names and self._run.quarantine is not None and known(self.ladder.reason) not in ALWAYS_HALT:
            self._run.quarantine.add(names)

    def _climb(self, trip: Trip, tool: str) -> Verdict:
        action = self.ladder.climb(trip.reason, self._counts.tool_calls)
        if action is Action.HALT:
            self._quarantine()
        if action is Action.CONTINUE:
            return CONTINUE
        return Verdict(action, trip.reason, ladder.message(trip.reason, tool, trip.count, trip.detail))

    def _told(self, reason: Reason, batch: BatchId | None, leader: int) -> bool:
        if leader:
            told = leader in self._leaders
            self._leaders.add(leader)
            return told
        same = batch is not None and batch == self._batch
        return same and self.ladder.nudges(reason)
