"""What the demo's agents do from a moment on, in real time: tasks begin, show how far they are, and end.

A task is played through the real guard as a whole when it begins, which takes no time; what happens in it is
told when it is due. So a run lasts as long as its script says, and its pressure is the guard's own word.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

from guardops.guard.decisions import DecisionAction
from guardops.guard.events import Answer, AnswerBy, Outcome, RunEnded, RunHeartbeat, RunStarted
from guardops.guard.guarded_run import RunGuard
from guardops.guard.policy import MICRO
from guardops.guard.scenarios.roster import Job
from guardops.guard.wire import Event

from .demo import task_tree
from .demo_tenants import DemoTenant, Workload
from .timing import stable_id

HEARTBEAT_S = 4.0
"""A run that goes on gives a sign of life about this often."""
BETWEEN_S = (10.0, 30.0)
"""So many seconds pass between two beginnings in a tenant."""
ASTRAY = 0.3
LINGERS = 0.1
"""The share of tasks that stay near a limit for minutes, where their job has such."""
VANISHES = 0.01
"""The share of tasks whose process dies: they start and never end."""
MOST_WAITING = 50
"""Tasks that the agents remember while they wait for a person; older ones are left to expire."""
EARLIER = timedelta(minutes=14)
"""What began so long before the first look, and is not over, is seen as well."""


@dataclass(order=True, slots=True)
class _Due:
    at: datetime
    number: int  # of two at the same moment the earlier one comes first
    tenant: str = field(compare=False)
    event: Event = field(compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that was handed to a person, and what it takes to go on with it."""

    tenant: str
    workload: Workload
    first: RunEnded


class Stage:
    """The tenants' agents at work since ``now``; look at it with a ``now`` that only grows."""

    def __init__(
        self, tenants: Sequence[DemoTenant], roster: Mapping[str, Job], rng: Random, now: datetime
    ) -> None:
        self._tenants = tenants
        self._roster = roster
        self._rng = rng
        self._numbers = itertools.count()
        self._due: list[_Due] = []
        self._live: dict[UUID, tuple[str, RunStarted, RunHeartbeat | None]] = {}
        self._opened = now
        self.waiting: dict[UUID, Waiting] = {}
        """Tasks that wait for a person, by their checkpoint, the newest last."""
        self._next = {tenant.slug: now - EARLIER + self._pause() for tenant in tenants}

    @property
    def live(self) -> int:
        """How many runs have started and not ended."""
        return len(self._live)

    def look(self, now: datetime) -> dict[str, list[Event]]:
        """Return what happened since the last look, by the tenant's slug, in its order."""
        for tenant in self._tenants:
            while self._next[tenant.slug] <= now:
                self._begin(tenant, self._next[tenant.slug])
                self._next[tenant.slug] += self._pause()
        seen: dict[str, list[Event]] = defaultdict(list)
        while self._due and self._due[0].at <= now:
            due = heapq.heappop(self._due)
            self._note(due.tenant, due.event)
            seen[due.tenant].append(due.event)
        return seen

    def close(self, now: datetime) -> dict[str, list[Event]]:
        """Return what is left to say when the agents are told to stop: each live run ends cancelled."""
        ends: dict[str, list[Event]] = defaultdict(list)
        for tenant, started, beat in self._live.values():
            ends[tenant].append(_cancelled(started, beat, now))
        self._live.clear()
        self._due.clear()
        return ends

    def _note(self, tenant: str, event: Event) -> None:
        match event:
            case RunStarted(run_id=UUID() as run_id):
                self._live[run_id] = (tenant, event, None)
            case RunHeartbeat(run_id=UUID() as run_id) if run_id in self._live:
                self._live[run_id] = (*self._live[run_id][:2], event)
            case RunEnded(run_id=UUID() as run_id):
                self._live.pop(run_id, None)

    def _pause(self) -> timedelta:
        return timedelta(seconds=self._rng.uniform(*BETWEEN_S))

    def _begin(self, tenant: DemoTenant, at: datetime) -> None:
        """Play a task that begins at ``at`` and put what happens in it onto the clock."""
        (workload,) = self._rng.choices(tenant.workloads, [load.tasks for load in tenant.workloads])
        job, release = self._roster[workload.job], workload.releases[-1]
        seed = f"{tenant.slug}/live/{at.timestamp()}"
        rng = Random(seed)
        beats: dict[UUID, list[RunHeartbeat]] = defaultdict(list)

        def watch(run: RunGuard, seconds: float) -> None:
            _beat(beats[run.who.run_id], run, seconds)

        tree = task_tree(workload, job, release.name, seed, rng, watch)
        lingers = job.lingering and rng.random() < LINGERS
        first = tree.play(rng.choice(job.lingering)(rng) if lingers else job.draw(rng, ASTRAY), at)
        if first.ended_at <= self._opened:
            return
        told = [event for run in tree.events for event in _told(run, beats[run.run_id or UUID(int=0)])]
        dies_at = at + (first.ended_at - at) * rng.uniform(0.3, 0.9) if rng.random() < VANISHES else None
        if tree.opened is not None and dies_at is None:
            told.append((tree.opened.opened_at, tree.opened))
            self.waiting[tree.opened.checkpoint_id] = Waiting(tenant.slug, workload, first)
            if len(self.waiting) > MOST_WAITING:
                del self.waiting[next(iter(self.waiting))]
        alive = [(when, event) for when, event in told if dies_at is None or when < dies_at]
        self._tell(alive, tenant.slug)

    def take_up(self, checkpoint_id: UUID, action: DecisionAction, now: datetime) -> UUID:
        """Go on with a task as a person decided, from ``now`` on; return the id of its next run.

        Of a stop nothing follows: the id is its own, for the receipt.
        """
        left = self.waiting.pop(checkpoint_id)
        if action is DecisionAction.STOP:
            return stable_id(now, f"{checkpoint_id}/stop")
        job, release = self._roster[left.workload.job], left.workload.releases[-1]
        seed = f"{checkpoint_id}/again"
        rng = Random(seed)
        tree = task_tree(left.workload, job, release.name, seed, rng)
        again = tree.play(job.draw(rng, 0.0), now, resumed=left.first)
        if action in (DecisionAction.ANSWER, DecisionAction.FORCE_ANSWER):
            again = _answered(again, action)
            tree.events = [again]
        self._tell([pair for run in tree.events for pair in _told(run, [])], left.tenant)
        assert again.run_id is not None
        return again.run_id

    def _tell(self, told: Iterable[tuple[datetime, Event]], tenant: str) -> None:
        for when, event in told:
            heapq.heappush(self._due, _Due(when, next(self._numbers), tenant, event))


def _beat(beats: list[RunHeartbeat], run: RunGuard, seconds: float) -> None:
    """Note a sign of life, unless the last one was just before."""
    at = run.who.started_at + timedelta(seconds=seconds)
    last = beats[-1].at if beats else run.who.started_at
    if last is not None and at - last < timedelta(seconds=HEARTBEAT_S):
        return
    beats.append(
        RunHeartbeat(
            run_id=run.who.run_id,
            seq=len(beats),
            at=at,
            steps=run.counts.steps,
            turns=run.counts.turns,
            cost=Decimal(run.counts.cost) / MICRO,
            pressure=run.pressure(),
        )
    )


def _told(run: RunEnded, beats: list[RunHeartbeat]) -> Iterator[tuple[datetime, Event]]:
    """Yield what a run's guard tells, each with its moment."""
    yield (
        run.started_at,
        RunStarted(
            run_id=run.run_id,
            job_type=run.job_type,
            started_at=run.started_at,
            agent=run.agent,
            root_task_id=run.root_task_id,
            parent_run_id=run.parent_run_id,
            attempt=run.attempt,
            resumed_from=run.resumed_from,
            release=run.release,
            limits=run.limits,
            policy=run.policy,
            guard=run.guard,
        ),
    )
    for beat in beats:
        if beat.at is not None and beat.at < run.ended_at:
            yield beat.at, beat
    yield run.ended_at, run


def _answered(run: RunEnded, action: DecisionAction) -> RunEnded:
    """Return a second attempt that makes no call: a person's answer, or one turn with what there is."""
    forced = action is DecisionAction.FORCE_ANSWER
    return RunEnded(
        run_id=run.run_id,
        job_type=run.job_type,
        outcome=Outcome.COMPLETED_FORCED if forced else Outcome.COMPLETED,
        answer=Answer.FORCED if forced else Answer.FULL,
        answer_by=AnswerBy.AGENT if forced else AnswerBy.PERSON,
        started_at=run.started_at,
        ended_at=run.started_at + timedelta(seconds=4 if forced else 1),
        agent=run.agent,
        root_task_id=run.root_task_id,
        attempt=run.attempt,
        resumed_from=run.resumed_from,
        release=run.release,
        turns=1 if forced else 0,
        limits=run.limits,
        policy=run.policy,
        guard=run.guard,
    )


def _cancelled(started: RunStarted, beat: RunHeartbeat | None, now: datetime) -> RunEnded:
    return RunEnded(
        run_id=started.run_id,
        job_type=started.job_type,
        outcome=Outcome.CANCELLED,
        started_at=started.started_at,
        ended_at=now,
        agent=started.agent,
        root_task_id=started.root_task_id,
        parent_run_id=started.parent_run_id,
        release=started.release,
        steps=beat.steps if beat else 0,
        tool_calls=beat.steps if beat else 0,
        turns=beat.turns if beat else 0,
        cost=beat.cost if beat else Decimal(0),
        limits=started.limits,
        policy=started.policy,
        guard=started.guard,
    )
