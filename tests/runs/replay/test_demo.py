from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import Mode, Outcome, RunEnded, WorkRefused
from guardops.guard.reasons import Reason
from guardops.guard.scenarios import research
from guardops.guard.scenarios.roster import LOOP_CLASSES, Job, jobs
from guardops.guard.scenarios.tarpit import MIRROR, Loopback, serving
from guardops.guard.scenarios.tree import HELPER
from guardops.management.commands import demo as command
from guardops.tenants.choices import Role
from guardops.tenants.models import Membership, Tenant, User
from runs.replay.account import demo_keys, has_demo
from runs.replay.demo import run_demo, simulate
from runs.replay.demo_tenants import TENANTS, TOTAL, DemoTenant
from runs.replay.progress import Progress
from tests.factories import NOW as FACTORY_NOW
from tests.factories import make_run_event, store_runs

from .little_gate import little_gate

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def roster() -> Iterator[Mapping[str, Job]]:
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        yield jobs(client)


@pytest.fixture(scope="module")
def simulated(roster: Mapping[str, Job]) -> dict[str, list[RunEnded]]:
    """A third of the demo: its tasks are seeded one by one, so that they are among the whole demo's."""
    return {
        tenant.slug: [event for event in simulate(tenant, roster, NOW) if isinstance(event, RunEnded)]
        for tenant in resized(lambda tasks: tasks // 3)
    }


def resized(size: Callable[[int], int]) -> tuple[DemoTenant, ...]:
    return tuple(
        replace(
            tenant,
            workloads=tuple(replace(load, tasks=size(load.tasks), relays=0) for load in tenant.workloads),
        )
        for tenant in TENANTS
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> tuple[DemoTenant, ...]:
    """The demo with a handful of tasks a tenant."""
    tenants = resized(lambda tasks: 5)
    monkeypatch.setattr(command, "TENANTS", tenants)
    return tenants


@pytest.fixture(scope="module")
def events(simulated: dict[str, list[RunEnded]]) -> list[RunEnded]:
    return [event for runs in simulated.values() for event in runs]


def test_five_tenants_of_two_organisations_have_thousands_of_runs_in_the_last_days(
    events: list[RunEnded],
) -> None:
    assert len(TENANTS) == 5
    assert len({tenant.organisation for tenant in TENANTS}) == 2
    assert sum(event.attempt == 1 and event.parent_run_id is None for event in events) == TOTAL // 3 > 3_000
    assert len({event.run_id for event in events}) == len(events)
    assert NOW - timedelta(days=14) < min(event.started_at for event in events)
    assert max(event.ended_at for event in events) <= NOW


def test_three_tenants_of_two_organisations_meet_the_tarpit(simulated: dict[str, list[RunEnded]]) -> None:
    caught = {
        slug: [run for run in runs if any(source.name == MIRROR for source in run.sources)]
        for slug, runs in simulated.items()
    }

    assert {slug for slug, runs in caught.items() if runs} == {"acme-research", "acme-service", "globex-data"}
    assert {(run.outcome, run.halt_reason, run.steps) for runs in caught.values() for run in runs} == {
        (Outcome.COMPLETED_FORCED, Reason.NO_PROGRESS, 11)
    }


def test_most_runs_of_every_tenant_complete(simulated: dict[str, list[RunEnded]]) -> None:
    for runs in simulated.values():
        assert sum(run.outcome is Outcome.COMPLETED for run in runs) > len(runs) / 2


@pytest.mark.parametrize("loop", LOOP_CLASSES)
def test_every_class_of_loops_is_acted_out_and_stopped_for_its_reason(
    loop: str, roster: Mapping[str, Job], events: list[RunEnded]
) -> None:
    script, reason = LOOP_CLASSES[loop]
    jobs_of_it = {
        job.name
        for job in roster.values()
        for _, start in job.astray
        if start is script or (script is research.falls_into_the_tarpit and start.__name__ == "tarpit")
    }
    workloads = [load for tenant in TENANTS for load in tenant.workloads if load.mode is Mode.ENFORCE]

    assert jobs_of_it & {load.job for load in workloads}
    stopped = [run for run in events if run.job_type in jobs_of_it and run.first_reason == reason]
    assert [run for run in stopped if run.halt_reason]


def test_helpers_are_runs_of_their_leads_task_and_nest_until_the_hops_are_used_up(
    simulated: dict[str, list[RunEnded]],
) -> None:
    runs = {run.run_id: run for run in simulated["acme-delivery"]}
    helpers = [run for run in runs.values() if run.parent_run_id]

    assert len(helpers) > 100
    for run in helpers:
        parent = runs[run.parent_run_id]
        assert (run.agent, run.root_task_id) == (HELPER, parent.root_task_id)
        assert parent.started_at < run.started_at < run.ended_at <= parent.ended_at
        assert run.lineage is not None
    out_of_hops = [run for run in helpers if run.halt_reason == Reason.HOP_BUDGET]
    assert {run.lineage.hops_remaining for run in out_of_hops if run.lineage} == {0}


def test_a_lead_that_hires_without_end_is_stopped_after_20_helpers(
    simulated: dict[str, list[RunEnded]],
) -> None:
    runs = simulated["acme-delivery"]
    hired = Counter(run.parent_run_id for run in runs if run.parent_run_id)
    endless = [run for run in runs if run.halt_reason == Reason.DESCENDANTS_BUDGET]

    assert endless
    assert {hired[run.run_id] for run in endless} == {20}


def test_work_that_is_handed_to_and_fro_between_processes_is_refused_by_the_envelopes_chain(
    roster: Mapping[str, Job],
) -> None:
    (tenant,) = (tenant for tenant in TENANTS if tenant.slug == "acme-delivery")
    (load,) = (load for load in tenant.workloads if load.relays)
    events = list(simulate(replace(tenant, workloads=(replace(load, tasks=0),)), roster, NOW))
    refused = [event for event in events if isinstance(event, WorkRefused)]

    assert len(refused) == load.relays > 5
    assert {event.reason for event in refused} == {Reason.LINEAGE_PING_PONG}
    assert max(event.at for event in refused if event.at) < NOW


def test_the_shadowed_desk_is_never_stopped_by_a_detector_but_would_have_been(
    simulated: dict[str, list[RunEnded]],
) -> None:
    runs = simulated["globex-desk"]

    assert {run.policy.mode for run in runs} == {Mode.SHADOW}
    assert {run.halt_reason for run in runs} <= {None, Reason.MAX_TURNS, Reason.STEP_BUDGET}
    assert len({run.would_halt.reason for run in runs if run.would_halt}) >= 4


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


def test_every_escalated_task_has_its_checkpoint_and_most_are_decided(roster: Mapping[str, Job]) -> None:
    (tenant,) = (tenant for tenant in resized(lambda tasks: tasks // 3) if tenant.slug == "acme-service")
    events = list(simulate(tenant, roster, NOW))
    escalated = {
        event.run_id
        for event in events
        if isinstance(event, RunEnded) and event.outcome is Outcome.ESCALATED and not event.parent_run_id
    }
    opened = [event for event in events if isinstance(event, CheckpointOpened)]
    again = {event.resumed_from for event in events if isinstance(event, RunEnded) and event.resumed_from}

    assert {event.run_id for event in opened} == escalated
    assert len(again) > len(escalated) / 2
    for event in opened:
        # What was decided of the past must not expire before it is told.
        assert event.run_id not in again or event.expires_at > NOW + timedelta(days=10)
    assert {event.reason for event in opened} >= {Reason.APPROVAL_REQUIRED, Reason.UNCERTAIN_WRITE}
    assert all(event.refused for event in opened if event.reason == Reason.APPROVAL_REQUIRED)
    assert all(event.question for event in opened)


def test_the_newest_release_of_the_research_agents_is_bad(simulated: dict[str, list[RunEnded]]) -> None:
    runs = [run for run in simulated["acme-research"] if run.job_type == "research"]
    all_runs = Counter(run.release for run in runs)
    stopped = Counter(run.release for run in runs if run.halt_reason)

    assert min(run.started_at for run in runs if run.release == "scout-1.6") >= NOW - timedelta(hours=22)
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
        tallies = run_demo(small, gate.url, keys, NOW, Progress("Simulating", 45, io.StringIO()))

    assert list(tallies) == list(keys)
    assert all(tally.accepted >= 5 for tally in tallies.values())
    assert [headers["authorization"] for headers in gate.headers] == [
        f"Bearer {key}" for key in keys.values()
    ]


@pytest.mark.django_db
def test_the_command_makes_organisations_tenants_keys_and_people(small: tuple[DemoTenant, ...]) -> None:
    out = io.StringIO()
    with little_gate() as gate:
        call_command("demo", url=gate.url, stdout=out)

    assert set(Tenant.objects.values_list("slug", "organisation__slug")) == {
        ("acme-research", "acme"),
        ("acme-service", "acme"),
        ("acme-delivery", "acme"),
        ("globex-data", "globex"),
        ("globex-desk", "globex"),
    }
    assert len(gate.kept) >= 45
    for name, role in (("admin", Role.ADMIN), ("reviewer", Role.REVIEWER), ("viewer", Role.VIEWER)):
        user = User.objects.get(username=f"demo-{name}")
        said = re.search(rf"Log in as {user.username} with (\S+) ", out.getvalue())
        assert said is not None
        assert user.check_password(said[1])
        assert set(Membership.objects.filter(user=user).values_list("role", flat=True)) == {role}
        assert not user.is_operator


@pytest.mark.django_db
def test_tenants_and_people_that_exist_are_used(small: tuple[DemoTenant, ...]) -> None:
    out = io.StringIO()
    with little_gate() as gate:
        call_command("demo", url=gate.url, stdout=io.StringIO())
        call_command("demo", url=gate.url, stdout=out)

    assert "tenant in" not in out.getvalue()
    assert "organisation" not in out.getvalue()
    assert "Log in" not in out.getvalue()
    assert User.objects.count() == 3


@pytest.mark.django_db
def test_a_demo_that_is_there_is_left_alone(small: tuple[DemoTenant, ...]) -> None:
    assert not has_demo(small)
    demo_keys(small, now=NOW, say=lambda text: None)
    assert not has_demo(small)
    for tenant in Tenant.objects.all():
        store_runs(tenant, make_run_event(), received_at=FACTORY_NOW)
    out = io.StringIO()

    call_command("demo", url="http://127.0.0.1:9", stdout=out)

    assert "here already" in out.getvalue()


def test_without_a_gate_the_command_says_so(settings: Any) -> None:
    settings.GATE_URL = ""

    with pytest.raises(CommandError, match="--url"):
        call_command("demo")
