"""Simulates what the demo's agents did of late: scripted, under the real guard, with a real tarpit page.

Every task is seeded by its tenant, job and number, so that the same ``now`` gives the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import httpx

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import RunEnded, WorkRefused
from guardops.guard.guarded_run import RunGuard
from guardops.guard.scenarios.relay import relay
from guardops.guard.scenarios.roster import Job, jobs
from guardops.guard.scenarios.tarpit import Loopback, serving
from guardops.guard.scenarios.tree import Tree
from guardops.guard.session import Guard

from .demo_tenants import DemoTenant, Workload
from .progress import Progress
from .sender import Sender, Tally
from .timing import Calendar, fraction, stable_id

LONGEST_S = 1_000.0
"""No scripted task takes longer than this many seconds."""
LONGEST = timedelta(seconds=LONGEST_S)
REVIEWED_AFTER = timedelta(minutes=30)
RECENT = timedelta(hours=16)
LEFT_OPEN, LEFT_TO_EXPIRE = 0.7, 0.15
"""The share of escalated tasks that nobody decides: of those that began of late, and of all others."""
LONG = timedelta(days=30)
"""How long those wait that somebody decides: what is told of the past must not expire as it is told."""

Told = RunEnded | WorkRefused | CheckpointOpened

Watch = Callable[[RunGuard, float], None]


def _look_away(run: RunGuard, seconds: float) -> None:
    """Watch nothing."""


def run_demo(
    tenants: Sequence[DemoTenant], url: str, keys: Mapping[str, str], now: datetime, progress: Progress
) -> dict[str, Tally]:
    """Simulate the tenants' runs up to ``now``, send each tenant's with its key; return tallies by slug.

    Raises ``runs.replay.sender.SendFailed`` where the gate at ``url`` does not take them.
    """
    tallies = {}
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        roster = jobs(client)
        for tenant in tenants:
            with Sender(url, keys[tenant.slug]) as sender:
                tallies[tenant.slug] = sender.send(simulate(tenant, roster, now), progress.advance)
    return tallies


def simulate(tenant: DemoTenant, roster: Mapping[str, Job], now: datetime) -> Iterator[Told]:
    """Yield what one tenant's guards said before ``now``, a task's events one after the other."""
    calendar = Calendar(now)
    for workload in tenant.workloads:
        for number in range(workload.tasks):
            yield from _task(
                workload, roster[workload.job], calendar, f"{tenant.slug}/{workload.job}/{number}"
            )
        for number in range(workload.relays):
            yield from _relay(workload, calendar, f"{tenant.slug}/relay/{number}")


def _task(workload: Workload, job: Job, calendar: Calendar, seed: str) -> Iterator[Told]:
    """Yield a task's runs, and the checkpoint where the guard handed it to a person.

    Most of those are decided: the task is started again half an hour later, and goes well.
    """
    started_at = calendar.start(seed, LONGEST_S)
    release = workload.release_at(calendar.until - started_at)
    rng = Random(seed)
    tree = task_tree(workload, job, release.name, seed, rng)
    recent = calendar.until - started_at < RECENT
    decided = fraction(seed, "decided") >= (LEFT_OPEN if recent else LEFT_TO_EXPIRE)
    tree.expires_in = LONG.total_seconds() if decided else tree.expires_in
    first = tree.play(job.draw(rng, release.astray), started_at)
    again_at = first.ended_at + REVIEWED_AFTER
    if tree.opened is not None and decided and again_at + LONGEST < calendar.until:
        rng = Random(f"{seed}/again")
        again = task_tree(workload, job, release.name, f"{seed}/again", rng)
        again.play(job.draw(rng, 0.0), again_at, resumed=first)
        tree.events += again.events
    yield from tree.events
    if tree.opened is not None:
        yield tree.opened


def _relay(workload: Workload, calendar: Calendar, seed: str) -> Iterator[Told]:
    started_at = calendar.start(seed, LONGEST_S)
    release = workload.release_at(calendar.until - started_at)
    return relay(
        Random(seed), release.name, started_at, make_id=lambda at, path: stable_id(at, f"{seed}{path}")
    )


def task_tree(
    workload: Workload, job: Job, release: str, seed: str, rng: Random, watch: Watch = _look_away
) -> Tree:
    """Return a task of this job, ready to be played, with a guard of its own; see `Tree` for ``watch``."""
    policy = replace(job.policy, mode=workload.mode)
    return Tree(
        Guard(policy, jitter=rng.random),
        job.name,
        job.agent,
        release,
        make_id=lambda started_at, path: stable_id(started_at, f"{seed}{path}"),
        watch=watch,
    )
