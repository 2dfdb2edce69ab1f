"""Whom the demo shows: five tenants of two organisations, what their agents do, and in which releases.

Releases follow one another in time. The research agents' newest one, out for less than a day, goes astray
far more often; the desk of the second organisation only watches, in shadow mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from guardops.guard.events import Mode
from guardops.guard.scenarios import coding, delivery, exports, research, support


@dataclass(frozen=True, slots=True)
class Release:
    """A release that came out ``age`` before now, and the share of its runs that go astray."""

    name: str
    age: timedelta
    astray: float


@dataclass(frozen=True, slots=True)
class Workload:
    """So many tasks of one job, and its releases, the oldest first."""

    job: str
    tasks: int
    releases: tuple[Release, ...]
    mode: Mode = Mode.ENFORCE
    relays: int = 0
    """Tasks beside those that two agents hand to and fro between their processes."""

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
                4_500,
                (*_steady("scout", 0.05), Release("scout-1.6", timedelta(hours=22), 0.5)),
            ),
            Workload(coding.JOB, 900, _steady("smith", 0.07)),
        ),
    ),
    DemoTenant(
        "acme-service",
        "Acme Service",
        "acme",
        (
            Workload(support.JOB, 2_700, _steady("desk", 0.05)),
            Workload(research.JOB, 900, _steady("scout", 0.06)),
        ),
    ),
    DemoTenant(
        "acme-delivery",
        "Acme Delivery",
        "acme",
        (
            Workload(delivery.JOB, 600, _steady("lead", 0.10), relays=12),
            Workload(coding.JOB, 600, _steady("smith", 0.06)),
        ),
    ),
    DemoTenant(
        "globex-data",
        "Globex Data",
        "globex",
        (
            Workload(exports.JOB, 2_100, _steady("hauler", 0.07)),
            Workload(research.JOB, 900, _steady("scout", 0.05)),
        ),
    ),
    DemoTenant(
        "globex-desk",
        "Globex Desk",
        "globex",
        (Workload(support.JOB, 1_200, _steady("desk", 0.06), mode=Mode.SHADOW),),
    ),
)
TOTAL = sum(workload.tasks for tenant in TENANTS for workload in tenant.workloads)
"""Tasks; those that start helpers, and those that are taken up again, have more runs than one."""
