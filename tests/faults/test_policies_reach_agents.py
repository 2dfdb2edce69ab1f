"""What is published reaches agents that are at work: a real gate, and guards that pull from it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from guardops.guard.calls import Stopped
from guardops.guard.events import Outcome, PolicySource
from guardops.guard.policy import Policy
from guardops.guard.session import AgentRun, Guard
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from policies.choices import StopScope
from policies.publish.policies import Place, save_policy
from policies.publish.sources import Reach, Wanted, block_sources
from policies.publish.stops import issue_stop, lift_stop
from tests.factories import make_key, make_tenant
from tests.gate_process import CHECKOUT, GateProcess
from tests.local.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

PATIENT = Policy.from_mapping({"max_steps": 500, "max_turns": 500, "domain_cap": 500})


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def gate(database_url: str) -> Iterator[GateProcess]:
    with GateProcess(database_url) as gate:
        yield gate


@pytest.fixture
def agent(gate: GateProcess, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of an agent."""
    scopes = [Scope.EVENTS_WRITE, Scope.BUNDLE_READ]
    monkeypatch.setenv("GUARDOPS_URL", gate.url)
    monkeypatch.setenv("GUARDOPS_KEY", make_key(tenant, scopes=scopes, now=datetime.now(UTC))[1])
    monkeypatch.setenv("GUARDOPS_STATE", str(tmp_path / "state"))


@pytest.fixture
def guard(agent: None) -> Iterator[Guard]:
    with Guard.from_env(PATIENT) as guard:
        yield guard


def limit(tenant: Tenant, most: int, seen: int) -> None:
    save_policy(
        Place(tenant.organisation, tenant, "research"),
        {"limits": {"max_steps": most}},
        seen=seen,
        actor=SYSTEM,
        now=datetime.now(UTC),
    )


def block(tenant: Tenant, name: str) -> None:
    block_sources(
        Reach(tenant.organisation, tenant), [Wanted(name=name)], actor=SYSTEM, now=datetime.now(UTC)
    )


def reads(run: AgentRun) -> str:
    """Let the agent read another page, and return why it was stopped; empty where it was not."""
    url = f"https://www.a.example/{run.counts.tool_calls}"
    try:
        run.call("fetch", {"url": url}, lambda url: url, progressed=True)
    except Stopped as stopped:
        return str(stopped.reason)
    return ""


def test_a_domain_that_is_blocked_is_refused_to_a_running_agent(guard: Guard, tenant: Tenant) -> None:
    run = guard.run(job_type="research")
    assert reads(run) == ""
    block(tenant, "a.example")
    assert until(lambda: reads(run), 10) == "blocked_source"
    policy = run.end(Outcome.COMPLETED).policy
    assert (policy.revision_end - policy.revision_start, policy.src) == (1, PolicySource.SERVER)


def test_a_stopped_job_type_stops_its_running_agents_for_good(guard: Guard, tenant: Tenant) -> None:
    stopped, other = guard.run(job_type="research"), guard.run(job_type="support")
    now = datetime.now(UTC)
    order = issue_stop(tenant, StopScope.JOB_TYPE, "research", reason="runs wild", actor=SYSTEM, now=now)
    assert until(lambda: reads(stopped), 10) == "operator_stop"
    assert reads(other) == ""
    assert reads(guard.run(job_type="research")) == "operator_stop"
    assert stopped.end(Outcome.COMPLETED).outcome is Outcome.HALTED
    lift_stop(order.stop, actor=SYSTEM, now=datetime.now(UTC))
    until(lambda: reads(guard.run(job_type="research")) == "", 10)
    assert reads(stopped) == "operator_stop"


def test_a_raised_cap_is_for_new_runs_and_a_lowered_one_for_running_ones_too(
    agent: None, tenant: Tenant
) -> None:
    def most_steps(run: AgentRun) -> int:
        assert reads(run) == ""
        return run.policy.limits.max_steps

    limit(tenant, 400, seen=0)
    with Guard.from_env(PATIENT) as guard:
        running = guard.run(job_type="research")
        assert most_steps(running) == 400
        limit(tenant, 450, seen=1)
        until(lambda: most_steps(guard.run(job_type="research")) == 450, 10)
        assert most_steps(running) == 400
        limit(tenant, 390, seen=2)
        until(lambda: most_steps(running) == 390, 7)


def test_without_a_gate_what_was_published_last_holds(agent: None, gate: GateProcess, tenant: Tenant) -> None:
    block(tenant, "a.example")
    with Guard.from_env(PATIENT) as guard:
        assert reads(guard.run(job_type="research")) == "blocked_source"
    gate.kill()
    later = Guard.from_env(PATIENT)
    run = later.run(job_type="research")
    assert reads(run) == "blocked_source"
    assert run.end().policy.src is PolicySource.FILE
    later.close(0.1)


def stopped_agents(path: Path, count: int, tenant: Tenant) -> list[dict[str, Any]]:
    """Wait until so many agents are at work, block what they read, and return what each says at its end."""

    def told(*, begun: bool) -> list[dict[str, Any]]:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["begun"] is begun]

    until(lambda: len(told(begun=True)) == count, 30)
    block(tenant, "a.example")
    until(lambda: len(told(begun=False)) == count, 20)
    return told(begun=False)


def begin(tmp_path: Path, command: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[bytes]:
    queue = tmp_path / "queue"
    queue.mkdir()
    monkeypatch.setenv("AGENTS_QUEUE", str(queue))
    return subprocess.Popen([sys.executable, "-m", *command], cwd=CHECKOUT)


def test_forked_agents_obey_each_as_a_guard_of_its_own(
    agent: None, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "said"
    with begin(tmp_path, ["tests.faults.forked_agents", str(path)], monkeypatch) as process:
        try:
            ended = stopped_agents(path, 3, tenant)
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert {line["reason"] for line in ended} == {"blocked_source"}
    assert len({line["guard"] for line in ended}) == len({line["pid"] for line in ended}) == 3


def test_tasks_of_a_prefork_worker_obey_each_as_a_guard_of_its_own(
    agent: None, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, worker = tmp_path / "said", ["worker", "--pool", "prefork", "--concurrency", "2"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    command = ["celery", "-A", "tests.faults.forked_agents", *worker, *quiet]
    with begin(tmp_path, command, monkeypatch) as process:
        try:
            folders = ("data_folder_in", "data_folder_out", "control_folder")
            app = Celery(broker="filesystem://")
            app.conf.broker_transport_options = {name: str(tmp_path / "queue") for name in folders}
            for _ in range(2):
                app.send_task("work", [str(path)])
            ended = stopped_agents(path, 2, tenant)
        finally:
            process.terminate()
            process.wait(30)
    assert {line["reason"] for line in ended} == {"blocked_source"}
    assert len({line["guard"] for line in ended}) == len({line["pid"] for line in ended}) == 2
    assert process.pid not in {line["pid"] for line in ended}
