"""Agents in processes of their own that hand each other a package in envelopes, until one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, cycle
from random import Random
from uuid import UUID

from guardops.guard.events import Envelope, GuardInfo, RunEnded, WorkRefused
from guardops.guard.scenarios.delivery import JOB, reads_and_passes_on
from guardops.guard.scenarios.driver import Clock, Driver
from guardops.guard.scenarios.roster import DELIVERY
from guardops.guard.session import Guard, Stopped
from guardops.guard.summary import VERSION

AGENTS = ("author", "reviewer")
ON_THE_WAY = timedelta(seconds=3)
POLICY = replace(DELIVERY.policy, limits=replace(DELIVERY.policy.limits, hops=12))
"""Room for more hand-overs than it takes to see that they go in a circle."""


def relay(
    rng: Random, release: str, started_at: datetime, make_id: Callable[[datetime, str], UUID]
) -> Iterator[RunEnded | WorkRefused]:
    """Yield the runs through which a package goes to and fro, and at last the refusal of it.

    Each has a guard with a store of its own, as in another process: only the envelope links them.
    ``make_id`` makes an id from a moment and a name that no other of the relay has.
    """
    package = {"draft": f"draft-{rng.randrange(10**6):06}"}
    at, envelope = started_at, None
    for agent, number in zip(cycle(AGENTS), count(), strict=False):
        clock, guard = Clock(), Guard(POLICY, jitter=rng.random)
        try:
            run = guard.run(
                job_type=JOB,
                run_id=make_id(at, f"/{number}"),
                agent=agent,
                release=release,
                clock=clock,
                started_at=at,
                envelope=envelope,
            )
        except Stopped as stopped:
            yield _refusal(stopped, agent, envelope, at, make_id(at, "/refused"))
            return
        event = Driver(run, clock).drive(reads_and_passes_on(rng)).event
        yield event
        handed = run.envelope(package)
        if not isinstance(handed, Envelope):
            return
        at, envelope = event.ended_at + ON_THE_WAY, handed


def _refusal(
    stopped: Stopped, agent: str, envelope: Envelope | None, at: datetime, refusal_id: UUID
) -> WorkRefused:
    return WorkRefused(
        reason=str(stopped.reason),
        refusal_id=refusal_id,
        at=at,
        job_type=JOB,
        agent=agent,
        envelope=envelope,
        guard=GuardInfo(version=VERSION),
    )
