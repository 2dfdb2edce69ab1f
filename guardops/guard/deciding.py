"""From a checkpoint to what holds: which questions to ask the gate, and what its answers come to. No I/O.

A decision is proven first: it names this checkpoint, the work as it was handed over, and is signed for this
tenant. Then it is written down, with the run that will carry it out, and only then consumed; so whatever dies
or is lost on the way, the same run asks again and gets its grant, and no other does. Where nobody can be
asked until the checkpoint expires, what was agreed for that case holds.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import NamedTuple, TypeVar

import msgspec

from guardops.guard.bundle import SigningKey
from guardops.guard.decisions import (
    CheckpointReply,
    CheckpointState,
    Consume,
    Decision,
    DecisionAction,
    Grant,
    Refused,
    prove,
)
from guardops.guard.desk import MAX_WAIT, Answered, Question
from guardops.guard.ids import new_uuid7
from guardops.guard.kept_checkpoints import Checkpoints, OpenCheckpoint, Taken, new_tag
from guardops.guard.stores import StoreError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
DENIED_PAUSE = 300.0
UNHELD_PAUSE = 10.0
UNKNOWN_PAUSE = 2.0
KEY_PATIENCE = 120.0
"""How long a decision may be signed with a key that has not arrived, in seconds: after an outage the policies
that bring it may be asked for a minute later than the decision."""
_SEND_AGAIN_EVERY = 60.0
_OVER = (CheckpointState.EXPIRED, CheckpointState.UNDELIVERABLE)
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_log = logging.getLogger("guardops.guard")


class Pause(NamedTuple):
    """So many seconds in which nothing is asked."""

    seconds: float


Steps = Generator[Question | Pause, Answered | None, OpenCheckpoint | None]
_T = TypeVar("_T")


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""


@dataclass(slots=True)
class Terms:
    """What deciding needs of its process: keys, a clock, a place to write to, and who sends events again."""

    checkpoints: Checkpoints
    keys: Callable[[str], Sequence[SigningKey]]
    send_again: Callable[[Sequence[bytes]], None]
    reachable: bool
    """Whether there is a gate to ask at all."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


@dataclass(slots=True)
class Deciding:
    """One checkpoint on its way to what holds. ``steps`` may be begun again after it has ended with None."""

    one: OpenCheckpoint
    terms: Terms
    tag: str = field(default_factory=new_tag)
    _failures: int = 0
    _sent_at: float | None = None
    _keyless_since: float | None = None

    def steps(self, seconds: float | None) -> Steps:
        """Ask until something holds, for so many seconds; with None until the checkpoint expires.

        Yields questions and pauses, takes answers, and returns the checkpoint with what holds, in hand of
        whoever asked; None where nothing does yet. Raises :class:`Refused`.
        """
        try:
            return (yield from self._steps(seconds))
        except BaseException:  # a loop that was cancelled in the middle, too
            self.terms.checkpoints.give_back(self.one.checkpoint_id, self.tag)
            raise

    def _steps(self, seconds: float | None) -> Steps:
        until = None if seconds is None else self.terms.clock() + seconds
        self.one = self.terms.checkpoints.get(self.one.checkpoint_id) or self.one
        while True:
            if self.one.settled_as is not None:  # an earlier process died before its attempt had ended
                return self._taken()
            if self.one.decision is None and self._left() <= 0:
                yield from self._ask_at_the_end()
                if self.one.decision is None:
                    return self._timed_out()
            found = None
            if self.one.decision is None:
                found = yield from self._ask(max(0.0, self._until(until)))
            if found is None and self.one.decision is not None:
                found = yield from self._consume(until)
            if found is not None:
                return found
            if self._until(until) <= 0:
                return None

    # -- asking ------------------------------------------------------------------------------------------

    def _ask(self, left: float) -> Steps:
        """Ask once; take a decision to heart, or wait before the next time."""
        if not self.terms.reachable:
            yield Pause(min(left, self._left(), LONGEST_PAUSE))
            return None
        wait = min(left, self._left(), MAX_WAIT)
        answer = yield Question(self.one.checkpoint_id, wait, tenant=self.one.who.tenant)
        assert answer is not None
        if answer.status == HTTPStatus.OK:
            self._failures = 0
            reply = _decoded(answer, CheckpointReply)
            if reply is not None and reply.decision is not None:
                if self._proves(reply.decision):
                    self.one.decision = reply.decision
                else:
                    yield self._pause(FIRST_PAUSE, left)
            elif reply is not None and reply.state in _OVER:
                return self._timed_out()
            elif answer.took < wait / 2:  # the gate holds no requests
                yield self._pause(UNHELD_PAUSE * (0.5 + 0.5 * self.terms.jitter()), left)
            return None
        if answer.status == HTTPStatus.NOT_FOUND:
            self._send_again()
            yield self._pause(UNKNOWN_PAUSE, left)
        else:
            yield self._pause(self._back_off(answer), left)
        return None

    def _ask_at_the_end(self) -> Generator[Question, Answered | None, None]:
        """Ask once more when the time is over: the gate may have noted what holds, and wants a receipt."""
        if not self.terms.reachable:
            return
        answer = yield Question(self.one.checkpoint_id, tenant=self.one.who.tenant)
        reply = _decoded(answer, CheckpointReply) if answer and answer.status == HTTPStatus.OK else None
        if reply is None or reply.decision is None:
            return
        try:
            if self._proves(reply.decision):
                self.one.decision = reply.decision
        except Refused as refusal:
            _log.warning("What was agreed for this case holds, and not the decision (%s).", refusal.code)

    def _proves(self, decision: Decision) -> bool:
        """Say whether a decision may be acted on; False while the key that signed it may still arrive."""
        one, now = self.one, self.terms.now()
        try:
            prove(
                decision,
                checkpoint_id=one.checkpoint_id,
                tenant=one.who.tenant,
                artifact_digest=one.artifact_digest,
                now=now,
                keys=self.terms.keys(one.who.tenant),
            )
            if decision.attempt != one.who.attempt:
                raise Refused("wrong_attempt", "the decision is about another attempt")
            if decision.run_id not in (None, one.who.run_id):
                raise Refused("wrong_run", "the decision is about another run")
        except Refused as refusal:
            clock = self.terms.clock()
            self._keyless_since = clock if self._keyless_since is None else self._keyless_since
            if refusal.code == "unknown_key" and clock - self._keyless_since < KEY_PATIENCE:
                return False
            _log.error("A decision is refused: %s.", refusal)
            raise
        self._keyless_since = None
        return True

    def _send_again(self) -> None:
        """Tell the gate of a checkpoint that it does not know: word of it may be on its way, or lost."""
        clock = self.terms.clock()
        if self._sent_at is None or clock - self._sent_at >= _SEND_AGAIN_EVERY:
            self._sent_at = clock
            self.terms.send_again(self.one.records)

    # -- consuming ---------------------------------------------------------------------------------------

    def _consume(self, until: float | None) -> Steps:
        """Take the decision up, as the one run that may carry it out."""
        decision = self.one.decision
        assert decision is not None
        try:
            one = self._in_hand()
            if one.settled_as is not None:
                return one
            one.attempt_id, one.decision = one.attempt_id or new_uuid7(), one.decision or decision
            self.terms.checkpoints.save(one, self.tag)
        except StoreError:  # the file is locked, or away: what may not be done twice waits for it
            yield Pause(max(0.0, min(FIRST_PAUSE, self._until(until))))
            return self._timed_out() if self._left() <= 0 else None
        wanted = Consume(
            decision_id=one.decision.decision_id,
            attempt_id=one.attempt_id,
            artifact_digest=one.artifact_digest,
        )
        answer = yield Question(one.checkpoint_id, consume=wanted, tenant=one.who.tenant)
        assert answer is not None
        if answer.status == HTTPStatus.OK:
            return self._granted(one, _decoded(answer, Grant))
        if answer.status in (HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.NOT_FOUND):
            return self._not_granted(one, _decoded(answer, _Problem) or _Problem())
        if one.decision.action is DecisionAction.STOP:  # needs no grant, and is not put off for a receipt
            return self._settle(one, DecisionAction.STOP)
        if self._left() <= 0:
            return self._timed_out()
        pause = self._pause(self._back_off(answer), self._until(until))
        self.terms.checkpoints.give_back(one.checkpoint_id, self.tag)
        yield pause
        return None

    def _granted(self, one: OpenCheckpoint, grant: Grant | None) -> OpenCheckpoint:
        decision = one.decision
        assert decision is not None
        if (
            grant is None
            or grant.attempt_id != one.attempt_id
            or grant.decision.decision_id != decision.decision_id
        ):
            self.terms.checkpoints.give_back(one.checkpoint_id, self.tag)
            raise Refused("wrong_grant", "the grant is another run's, or for another decision")
        return self._settle(one, decision.action)

    def _not_granted(self, one: OpenCheckpoint, problem: _Problem) -> OpenCheckpoint | None:
        checkpoints = self.terms.checkpoints
        if problem.code == "decision_expired":
            return self._timed_out()
        if problem.code in ("not_delivered", "unknown_checkpoint"):  # it was taken back: another may come
            one.decision = None
            checkpoints.save(one, self.tag)
            checkpoints.give_back(one.checkpoint_id, self.tag)
            return None
        if problem.code == "already_consumed":  # another attempt is at work, and this one never will be
            if one.decision is not None and one.decision.action is DecisionAction.STOP:
                return self._settle(one, DecisionAction.STOP)
            checkpoints.remove(one.checkpoint_id)
        else:
            checkpoints.give_back(one.checkpoint_id, self.tag)
        raise Refused(problem.code or "refused", problem.detail or "the gate does not grant the decision")

    def _timed_out(self) -> OpenCheckpoint:
        """Let what was agreed hold, since nobody has decided in time."""
        one = self._taken()
        if one.settled_as is not None:
            return one
        one.decision = None
        one.attempt_id = one.attempt_id or new_uuid7()
        return self._settle(one, DecisionAction(one.on_timeout.value))

    def _settle(self, one: OpenCheckpoint, action: DecisionAction) -> OpenCheckpoint:
        one.settled_as = action
        try:
            self.terms.checkpoints.save(one, self.tag)
        except StoreError as error:
            _log.warning("What was decided could not be written down (%s).", error)
        self.one = one
        return one

    def _taken(self) -> OpenCheckpoint:
        try:
            return self._in_hand()
        except StoreError as error:
            raise Refused("store_unavailable", f"the guard's file can't be used: {error}") from error

    def _in_hand(self) -> OpenCheckpoint:
        """Take the checkpoint in hand. Raises :class:`Refused` and :class:`StoreError`."""
        try:
            found = self.terms.checkpoints.take(self.one.checkpoint_id, self.tag)
        except Taken:
            raise Refused("in_hand", "another part of this machine carries the decision out") from None
        if found is None:
            raise Refused("already_done", "what was decided has been carried out, or the task is over")
        self.one = found
        return found

    # -- time --------------------------------------------------------------------------------------------

    def _left(self) -> float:
        """Return the seconds until the checkpoint expires."""
        return (self.one.expires_at - self.terms.now()).total_seconds()

    def _until(self, until: float | None) -> float:
        return float("inf") if until is None else until - self.terms.clock()

    def _pause(self, seconds: float, left: float) -> Pause:
        return Pause(max(0.0, min(seconds, left, self._left())))

    def _back_off(self, answer: Answered) -> float:
        if answer.status in _DENIED:
            if not self._failures:
                _log.warning(
                    "Decisions can't be asked for: HTTP %d. The key needs the scope checkpoints.",
                    answer.status,
                )
            self._failures += 1
            return DENIED_PAUSE
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
        if not self._failures:
            why = f"HTTP {answer.status}" if answer.status else "no answer"
            _log.warning("Decisions can't be asked for at the moment: %s.", why)
        self._failures += 1
        pause = self.terms.jitter() * longest
        return pause if answer.retry_after is None else max(pause, min(answer.retry_after, LONGEST_PAUSE))


def _decoded(answer: Answered, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
