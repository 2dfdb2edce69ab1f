"""Simulates what three tenants' agents did over the last days: scripted agents, the real guard, a real
tarpit page.

Every run is seeded by its tenant, job and number, so that the same ``now`` gives the same runs. Releases
follow one another in time; the research agents' newest one, out for less than a day, goes astray far more
often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import httpx

from guardops.guard.events import Outcome, RunEnded
from guardops.guard.scenarios import coding, exports, research, support
from guardops.guard.scenarios.driver import Clock, Driver
from guardops.guard.scenarios.roster import Job, jobs
from guardops.guard.scenarios.tarpit import Loopback, serving
from guardops.guard.session import Guard

from .progress import Progress
from .sender import Sender, Tally
from .timing import Calendar, stable_id

LONGEST_S = 1_000.0
"""No scripted run takes longer than this many seconds."""
LONGEST = timedelta(seconds=LONGEST_S)
REVIEWED_AFTER = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Release:
    """A release that came out ``age`` before now, and the share of its runs that go astray."""

    name: str
    age: timedelta
    astray: float


@dataclass(frozen=True, slots=True)
class Workload:
    """So many runs of one job, and its releases, the oldest first."""

    job: str
    runs: int
    releases: tuple[Release, ...]

    def release_at(self, age: timedelta) -> Release:
        """Return the release that was out ``age`` before now; the first one was always there."""
        out = [release for release in self.releases if release.age >= age]
        return out[-1] if out else self.releases[0]


@dataclass(frozen=True, slots=True)
class DemoTenant:
    """A tenant of the demo, its organisation, and what its agents do."""

    slug: str
    name: str
    organisation: str
    workloads: tuple[Workload, ...]


def _steady(agent: str, astray: float) -> tuple[Release, ...]:
    return (
        Release(f"{agent}-1.4", timedelta(days=30), astray),
        Release(f"{agent}-1.5", timedelta(days=6), astray * 0.7),
    )


TENANTS = (
    DemoTenant(
        "acme-research",
        "Acme Research",
        "acme",
        (
            Workload(
                research.JOB,
                1_100,
                (*_steady("scout", 0.05), Release("scout-1.6", timedelta(hours=20), 0.45)),
            ),
            Workload(coding.JOB, 500, _steady("smith", 0.07)),
        ),
    ),
    DemoTenant(
        "acme-service",
        "Acme Service",
        "acme",
        (
            Workload(support.JOB, 1_300, _steady("desk", 0.04)),
            Workload(research.JOB, 300, _steady("scout", 0.06)),
        ),
    ),
    DemoTenant(
        "globex-data",
        "Globex Data",
        "globex",
        (
            Workload(exports.JOB, 900, _steady("hauler", 0.06)),
            Workload(research.JOB, 400, _steady("scout", 0.05)),
        ),
    ),
)
TOTAL = sum(workload.runs for tenant in TENANTS for workload in tenant.workloads)
"""Tasks; those that escalate take a second run."""


def run_demo(url: str, keys: Mapping[str, str], now: datetime, progress: Progress) -> dict[str, Tally]:
    """Simulate all tenants' runs up to ``now``, send each tenant's with its key; return tallies by slug.

    Raises ``runs.replay.sender.SendFailed`` where the gate at ``url`` does not take them.
    """
    tallies = {}
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        roster = jobs(client)
        for tenant in TENANTS:
            with Sender(url, keys[tenant.slug]) as sender:
                tallies[tenant.slug] = sender.send(simulate(tenant, roster, now), progress.advance)
    return tallies


def simulate(tenant: DemoTenant, roster: Mapping[str, Job], now: datetime) -> Iterator[RunEnded]:
    """Yield the runs of one tenant that ended before ``now``.

    A run that the guard escalated is started again by a person half an hour later, and then goes well.
    """
    calendar = Calendar(now)
    for workload in tenant.workloads:
        job = roster[workload.job]
        for number in range(workload.runs):
            seed = f"{tenant.slug}/{workload.job}/{number}"
            started_at = calendar.start(seed, LONGEST_S)
            release = workload.release_at(now - started_at)
            event = _run(job, release, seed, started_at)
            yield event
            again_at = event.ended_at + REVIEWED_AFTER
            if event.outcome is Outcome.ESCALATED and again_at + LONGEST < now:
                yield _run(job, release, f"{seed}/again", again_at, resumed=event)


def _run(
    job: Job, release: Release, seed: str, started_at: datetime, resumed: RunEnded | None = None
) -> RunEnded:
    rng, clock = Random(seed), Clock()
    run = Guard(job.policy, jitter=rng.random).run(
        job_type=job.name,
        run_id=stable_id(started_at, seed),
        root_task_id=resumed.root_task_id if resumed else None,
        attempt=resumed.attempt + 1 if resumed else 1,
        agent=job.agent,
        release=release.name,
        clock=clock,
        started_at=started_at,
    )
    script = job.draw(rng, 0.0 if resumed else release.astray)
    return Driver(run, clock).drive(script, resumed_from=resumed.run_id if resumed else None).event
