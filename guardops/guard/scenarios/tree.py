"""The runs of one task: the first one, and those that it and they start, each under the one guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import Lineage, OnTimeout, Outcome, RunEnded
from guardops.guard.guarded_run import RunGuard
from guardops.guard.handoff import DAY_S, Opening, opened
from guardops.guard.scenarios.driver import Clock, Drive, Driver
from guardops.guard.scenarios.questions import question
from guardops.guard.scenarios.script import Script, Seen
from guardops.guard.session import Guard

HELPER = "helper"
"""The agent of every run but the first."""


@dataclass
class Tree:
    """Plays a task; ``events`` holds its runs in the order in which they ended, the first run last."""

    guard: Guard
    job_type: str
    agent: str
    release: str
    make_id: Callable[[datetime, str], UUID]
    """Makes the id of a run from its start and a name that no other run of the tree has."""
    watch: Callable[[RunGuard, float], None] = lambda run, seconds: None
    """Called after every turn of every run, with the seconds since that run's start."""
    events: list[RunEnded] = field(default_factory=list)
    expires_in: float = DAY_S
    """How many seconds a person has where the first run is handed to one."""
    opened: CheckpointOpened | None = None
    """How it was."""

    def play(self, script: Script, started_at: datetime, *, resumed: RunEnded | None = None) -> RunEnded:
        """Play the task from its first run on; return that one's event."""
        details: dict[str, Any] = {"resumed_from": resumed.run_id} if resumed else {}
        clock = Clock()
        run = self.guard.run(
            job_type=self.job_type,
            run_id=self.make_id(started_at, ""),
            root_task_id=resumed.root_task_id if resumed else None,
            attempt=resumed.attempt + 1 if resumed else 1,
            agent=self.agent,
            release=self.release,
            clock=clock,
            started_at=started_at,
        )
        return self._drive(script, run, clock, "", **details).event

    def _drive(self, script: Script, run: RunGuard, clock: Clock, path: str, **details: Any) -> Drive:
        depth, hired = path.count("/"), 0

        def hire(helper: Script) -> Seen:
            nonlocal hired
            hired += 1
            return self._hire(helper, run, clock, f"{path}/{hired}")

        driver = Driver(run, clock, hire=hire, depth=depth, watch=lambda: self.watch(run, clock.seconds))
        driven = driver.drive(script, **details)
        self.events.append(driven.event)
        if not path and driven.event.outcome is Outcome.ESCALATED:
            self.opened = self._hand_over(run, driven.event)
        return driven

    def _hand_over(self, run: RunGuard, ended: RunEnded) -> CheckpointOpened:
        opening = Opening(
            place="",
            on_timeout=OnTimeout.STOP,
            checkpoint_id=self.make_id(ended.ended_at, "/checkpoint"),
        )
        said = question(ended.halt_reason or "", self.expires_in)
        return opened(run.record(ended.ended_at), ended, said, opening)

    def _hire(self, script: Script, parent: RunGuard, clock: Clock, path: str) -> Seen:
        started_at = parent.who.started_at + timedelta(seconds=clock.seconds)
        own = Clock()
        run = self.guard.run(
            job_type=self.job_type,
            run_id=self.make_id(started_at, path),
            root_task_id=parent.who.root_task_id,
            parent_run_id=parent.who.run_id,
            agent=HELPER,
            release=self.release,
            clock=own,
            started_at=started_at,
        )
        lineage = Lineage(
            root=parent.who.root_task_id,
            parent=str(parent.who.run_id),
            hops_remaining=max(0, parent.policy.limits.hops - path.count("/")),
        )
        event = self._drive(script, run, own, path, lineage=lineage).event
        done = event.outcome is Outcome.COMPLETED
        return Seen(
            result=f"{event.outcome.value} {path}",
            progressed=True if done else None,
            seconds=own.seconds,
            characters=400,
        )
