"""A run that waits for a person, as the application holds it: wait for the decision, and get what follows.

What follows is the next attempt, already begun where there is work left to do. The same handle is found again
after a restart (:meth:`guardops.guard.session.Guard.pending`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import msgspec

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.deciding import Deciding, Pause, Terms
from guardops.guard.decisions import Decision, DecisionAction, Refused
from guardops.guard.desk import Answered, Desk, Question
from guardops.guard.events import Answer, AnswerBy, Outcome
from guardops.guard.handoff import digest_of
from guardops.guard.kept_checkpoints import OpenCheckpoint
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.guard.sqlite_root import SqliteRoot
from guardops.guard.stores import Store

if TYPE_CHECKING:
    from guardops.guard.agent_run import AgentRun

_NOBODY = "Nobody decided in time."


class Begin(Protocol):
    """Begins the attempt after a checkpoint; ``policy`` is what the application declares of it."""

    def __call__(self, after: OpenCheckpoint, policy: Policy | None) -> AgentRun: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What escalations need of their process."""

    terms: Terms
    store: Store
    begin: Begin
    place: Callable[[str], str]
    """Names the gate and tenant that a run's checkpoints belong to, by the tenant that the run names."""
    desk: Desk | None = None
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was decided, and what follows from it."""

    action: DecisionAction
    run: AgentRun | None = None
    """The next attempt, begun, for all but an answer and a stop; use it in a ``with`` block."""
    reason: str = ""
    """Why, in the person's words."""
    answer: str | None = None
    """The person's own answer: the task is completed with it."""
    input: str | None = None
    """What takes the place of the task's input."""
    evidence: str | None = None
    """What the person knows that the agent could not find."""
    context: Any = None
    """What the application gave along when it handed the run over."""
    decision: Decision | None = None
    """None where nobody decided in time."""

    @property
    def told(self) -> str:
        """What the model is to be told, as the next message of its conversation."""
        lines = {
            DecisionAction.RESUME: "A person has looked at this task; go on with it.",
            DecisionAction.APPROVE: f"A person has approved the call of {self._approved} that was refused; "
            "make it now, with exactly these arguments.",
            DecisionAction.FORCE_ANSWER: "No more tools may be called. Answer with what you have.",
        }
        parts = [lines.get(self.action, ""), self.reason if self.decision is not None else ""]
        parts += [f"The task is now: {self.input}" if self.input else ""]
        parts += [f"What is known: {self.evidence}" if self.evidence else ""]
        change = self.decision.change if self.decision is not None else None
        if change is not None and change.blocked_sources:
            parts.append(f"Do not use {', '.join(source.name for source in change.blocked_sources)}.")
        return "\n".join(part for part in parts if part)

    @property
    def _approved(self) -> str:
        return self.decision.tool if self.decision is not None else ""


class Escalation:
    """One run that was handed to a person."""

    def __init__(
        self,
        one: OpenCheckpoint,
        means: Means,
        *,
        policy: Policy | None = None,
        event: CheckpointOpened | None = None,
    ) -> None:
        self._one = one
        self._means = means
        self._policy = policy
        self._deciding = Deciding(one, means.terms)
        self._waiting = Lock()
        self.event = event
        """What the gate was told; None where an earlier process has told it."""
        self.resolution: Resolution | None = None
        """What was decided, once it is known here."""

    @property
    def checkpoint_id(self) -> UUID:
        """The checkpoint's id, which its page and webhooks name."""
        return self._one.checkpoint_id

    @property
    def job_type(self) -> str:
        return self._one.who.job_type

    @property
    def root_task_id(self) -> str:
        return self._one.who.root_task_id

    @property
    def run_id(self) -> UUID:
        return self._one.who.run_id

    @property
    def attempt(self) -> int:
        return self._one.who.attempt

    @property
    def reason(self) -> str:
        """Why the run was handed over."""
        return self._one.reason

    @property
    def expires_at(self) -> datetime:
        """When what was agreed for that case holds, unless somebody decides before."""
        return self._one.expires_at

    @property
    def context(self) -> Any:
        """What the application gave along when it handed the run over."""
        return msgspec.json.decode(self._one.context)

    def decided(self, seconds: float | None = None, *, artifact: str | None = None) -> Resolution | None:
        """Wait for the decision, for so many seconds; return what follows, None where nobody has decided.

        Without ``seconds`` it waits until the checkpoint expires, with 0 it only looks. Where the work itself
        may have changed, ``artifact`` is what it is now. Raises
        :class:`guardops.guard.decisions.Refused` for a decision that must not be carried out here: forged,
        about something else, expired, or already carried out by another attempt.
        """
        with self._alone():
            steps, answer = self._steps(seconds, artifact), None
            while self.resolution is None:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return self._resolved(end.value)
                try:
                    answer = self._do(step)
                except BaseException:
                    steps.close()
                    raise
        return self.resolution

    async def adecided(
        self, seconds: float | None = None, *, artifact: str | None = None
    ) -> Resolution | None:
        """Do the same in an event loop."""
        with self._alone():
            steps, answer = self._steps(seconds, artifact), None
            while self.resolution is None:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return self._resolved(end.value)
                try:
                    answer = await self._ado(step)
                except BaseException:
                    steps.close()
                    raise
        return self.resolution

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread or task at a time wait with this handle: what follows must not begin twice."""
        if not self._waiting.acquire(blocking=False):
            raise Refused("in_hand", "another part of this process waits for the decision")
        try:
            yield
        finally:
            self._waiting.release()

    def _steps(
        self, seconds: float | None, artifact: str | None
    ) -> Generator[Question | Pause, Answered | None, OpenCheckpoint | None]:
        if artifact is not None and digest_of(artifact) != self._one.artifact_digest:
            raise Refused("wrong_artifact", "the work has changed since it was handed over")
        return self._deciding.steps(seconds)

    def _do(self, step: Question | Pause) -> Answered | None:
        if isinstance(step, Question):
            return self._means.desk.ask(step) if self._means.desk is not None else Answered(0)
        self._means.sleep(step.seconds)
        return None

    async def _ado(self, step: Question | Pause) -> Answered | None:
        if isinstance(step, Question):
            return await self._means.desk.aask(step) if self._means.desk is not None else Answered(0)
        await self._means.asleep(step.seconds)
        return None

    def _resolved(self, settled: OpenCheckpoint | None) -> Resolution | None:
        """Carry out what holds, once: begin the next attempt, or end the task."""
        if settled is None:
            return None
        try:
            self.resolution = self._follow(settled)
        except BaseException:
            self._means.terms.checkpoints.give_back(settled.checkpoint_id, self._deciding.tag)
            raise
        return self.resolution

    def _follow(self, settled: OpenCheckpoint) -> Resolution:
        decision, action = settled.decision, settled.settled_as
        assert action is not None
        change = decision.change if decision is not None else None
        run: AgentRun | None = None
        if action is DecisionAction.STOP:
            self._end_the_task(settled)
        else:
            run = self._means.begin(settled, self._policy)
        if action is DecisionAction.ANSWER and run is not None:
            run.end(Outcome.COMPLETED, answer=Answer.FULL, answer_by=AnswerBy.PERSON)
            run = None
        return Resolution(
            action=action,
            run=run,
            reason=decision.reason if decision is not None else _NOBODY,
            answer=decision.answer if decision is not None else None,
            input=change.input if change is not None else None,
            evidence=change.evidence if change is not None else None,
            context=self.context,
            decision=decision,
        )

    def _end_the_task(self, settled: OpenCheckpoint) -> None:
        """Halt the root for good: its sub-agents are refused too, those of other processes included."""
        store, limits = self._means.store, (self._policy or Policy()).limits
        root = store.root(settled.who.root_key, limits)
        with root.lock:
            if isinstance(root, SqliteRoot):
                root.begin(sync=True)
            root.halt(Reason.CANCELLED.value)
            store.checkpoints.remove(settled.checkpoint_id, root)
            if isinstance(root, SqliteRoot):
                root.commit(None)
