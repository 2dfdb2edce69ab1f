from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from guardops.guard.events import Outcome, RunEnded
from guardops.guard.reasons import Reason
from guardops.guard.scenarios.roster import Job, jobs
from guardops.guard.scenarios.tarpit import MIRROR, Loopback, serving
from guardops.tenants.models import Tenant
from runs.replay import demo
from runs.replay.account import demo_keys
from runs.replay.demo import TENANTS, DemoTenant, Workload, run_demo, simulate
from runs.replay.progress import Progress

from .little_gate import little_gate

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def roster() -> Iterator[Mapping[str, Job]]:
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        yield jobs(client)


@pytest.fixture(scope="module")
def simulated(roster: Mapping[str, Job]) -> dict[str, list[RunEnded]]:
    return {tenant.slug: list(simulate(tenant, roster, NOW)) for tenant in TENANTS}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> tuple[DemoTenant, ...]:
    """The demo with a handful of runs a tenant."""
    tenants = tuple(
        DemoTenant(
            tenant.slug,
            tenant.name,
            tenant.organisation,
            tuple(Workload(load.job, 5, load.releases) for load in tenant.workloads),
        )
        for tenant in TENANTS
    )
    monkeypatch.setattr(demo, "TENANTS", tenants)
    return tenants


def test_three_tenants_of_two_organisations_have_thousands_of_runs_in_the_last_days(
    simulated: dict[str, list[RunEnded]],
) -> None:
    events = [event for runs in simulated.values() for event in runs]

    assert len({tenant.organisation for tenant in TENANTS}) == 2
    assert sum(event.attempt == 1 for event in events) == demo.TOTAL > 3_000
    assert len({event.run_id for event in events}) == len(events)
    assert NOW - timedelta(days=14) < min(event.started_at for event in events)
    assert max(event.ended_at for event in events) <= NOW


def test_every_tenant_meets_the_tarpit_and_has_runs_that_complete(
    simulated: dict[str, list[RunEnded]],
) -> None:
    for runs in simulated.values():
        caught = [run for run in runs if any(source.name == MIRROR for source in run.sources)]

        assert caught
        assert {(run.outcome, run.halt_reason, run.steps, run.turns) for run in caught} == {
            (Outcome.COMPLETED_FORCED, Reason.NO_PROGRESS, 11, 12)
        }
        assert sum(run.outcome is Outcome.COMPLETED for run in runs) > len(runs) / 2


def test_an_escalated_run_is_taken_up_again_as_a_second_attempt(simulated: dict[str, list[RunEnded]]) -> None:
    runs = {run.run_id: run for run in simulated["acme-service"]}
    again = [run for run in runs.values() if run.attempt == 2]

    assert len(again) > 5
    for run in again:
        first = runs[run.resumed_from]
        assert first.outcome is Outcome.ESCALATED
        assert (first.root_task_id, first.release) == (run.root_task_id, run.release)
        assert first.ended_at < run.started_at
        assert run.halt_reason is None


def test_the_newest_release_of_the_research_agents_is_bad(simulated: dict[str, list[RunEnded]]) -> None:
    runs = [run for run in simulated["acme-research"] if run.job_type == "research"]
    all_runs = Counter(run.release for run in runs)
    stopped = Counter(run.release for run in runs if run.halt_reason)

    assert min(run.started_at for run in runs if run.release == "scout-1.6") >= NOW - timedelta(hours=20)
    assert stopped["scout-1.6"] / all_runs["scout-1.6"] > 0.25
    assert stopped["scout-1.5"] / all_runs["scout-1.5"] < 0.1


def test_every_family_of_stops_appears(simulated: dict[str, list[RunEnded]]) -> None:
    reasons = {run.halt_reason for runs in simulated.values() for run in runs}

    assert reasons >= {
        Reason.NO_PROGRESS,
        Reason.REPEATED_CALL,
        Reason.STEP_BUDGET,
        Reason.WALL_CLOCK,
        Reason.TOOL_RETRY_EXHAUSTED,
        Reason.POLL_EXHAUSTED,
        Reason.TOOL_AUTH_ERROR,
        Reason.UNCERTAIN_WRITE,
        Reason.FORBIDDEN_TOOL,
        Reason.LISTING_CAP,
    }


def test_the_same_time_gives_the_same_runs(roster: Mapping[str, Job], small: tuple[DemoTenant, ...]) -> None:
    first, second = ([list(simulate(tenant, roster, NOW)) for tenant in small] for _ in range(2))

    assert first == second


def test_each_tenants_runs_are_sent_with_its_own_key(small: tuple[DemoTenant, ...]) -> None:
    keys = {tenant.slug: f"go_{tenant.slug}" for tenant in small}
    with little_gate() as gate:
        tallies = run_demo(gate.url, keys, NOW, Progress("Simulating", 30, io.StringIO()))

    assert {slug: tally.accepted for slug, tally in tallies.items()} == dict.fromkeys(keys, 10)
    assert [headers["authorization"] for headers in gate.headers] == [
        f"Bearer {key}" for key in keys.values()
    ]


@pytest.mark.django_db
def test_the_command_makes_organisations_tenants_and_keys(small: tuple[DemoTenant, ...]) -> None:
    with little_gate() as gate:
        call_command("demo", url=gate.url)

    assert set(Tenant.objects.values_list("slug", "organisation__slug")) == {
        ("acme-research", "acme"),
        ("acme-service", "acme"),
        ("globex-data", "globex"),
    }
    assert len(gate.kept) == 30


@pytest.mark.django_db
def test_tenants_that_exist_are_used(small: tuple[DemoTenant, ...]) -> None:
    said: list[str] = []
    demo_keys(small, now=NOW, say=lambda text: None)

    assert demo_keys(small, now=NOW, say=said.append) is not None
    assert not [text for text in said if "tenant in" in text or "organisation" in text]


def test_without_a_gate_the_command_says_so(settings: Any) -> None:
    settings.GATE_URL = ""

    with pytest.raises(CommandError, match="--url"):
        call_command("demo")
