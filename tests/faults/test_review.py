"""An agent in processes that are killed, a person at the page, a gate between them, and one task."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role, Scope
from guardops.tenants.models import Tenant
from policies.publish.policies import Place, save_policy
from runs.models import Checkpoint, Decision, Run
from tests.factories import let_undo_time_pass, make_key, make_member, make_tenant
from tests.gate_process import CHECKOUT, GateProcess
from tests.local.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

SCOPES = [Scope.EVENTS_WRITE, Scope.BUNDLE_READ, Scope.CHECKPOINTS]


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    tenant = make_tenant("library")
    review = {"review": {"resume_max": {"steps": 10}}}
    place = Place(tenant.organisation, tenant, "research")
    save_policy(place, review, seen=0, actor=SYSTEM, now=datetime.now(UTC))
    return tenant


@pytest.fixture
def gate(database_url: str) -> Iterator[GateProcess]:
    with GateProcess(database_url) as gate:
        yield gate


class Agent:
    """The agent's folder, and the processes that it has."""

    def __init__(self, folder: Path, gate: GateProcess, key: str) -> None:
        self.folder = folder
        names = {"GUARDOPS_URL": gate.url, "GUARDOPS_KEY": key, "GUARDOPS_STATE": str(folder / "state")}
        self.environment = {**os.environ, **names}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, **more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.reviewed_agent", str(self.folder)]
        process = subprocess.Popen(command, cwd=CHECKOUT, env={**self.environment, **more})
        self.processes.append(process)
        return process

    def said(self, word: str) -> list[str]:
        path = self.folder / "said"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == word]


@pytest.fixture
def agent(tmp_path: Path, gate: GateProcess, tenant: Tenant) -> Iterator[Agent]:
    agent = Agent(tmp_path, gate, make_key(tenant, scopes=SCOPES, now=datetime.now(UTC))[1])
    yield agent
    for process in agent.processes:
        process.kill()
        process.wait()


def arrived(agent: Agent) -> Checkpoint:
    """Return the checkpoint that the agent has opened, once it is there."""
    [name] = until(lambda: agent.said("waits"), 30)
    return until(lambda: Checkpoint.objects.filter(checkpoint_id=UUID(name)).first(), 20)


def decide(client: Client, checkpoint: Checkpoint, action: str, **fields: str) -> Decision:
    form = {"action": action, "version": str(checkpoint.version), "reason": "it is all there", **fields}
    response = client.post(f"/review/{checkpoint.checkpoint_id}/decide/", form)
    assert response.status_code == 302, response.content.decode()
    return Decision.objects.get()


def test_an_agent_that_is_killed_while_it_waits_goes_on_with_what_was_decided(
    agent: Agent, tenant: Tenant, client: Client
) -> None:
    first = agent.start()
    checkpoint = arrived(agent)
    first.kill()
    first.wait()

    client.force_login(make_member(tenant, Role.REVIEWER, username="ann"))
    decision = decide(client, checkpoint, "resume", input="look on shelf B", budget_steps="5")
    began = time.monotonic()
    second = agent.start()
    assert second.wait(40) == 0
    assert time.monotonic() - began > 5, "nobody gets a decision that can still be undone"

    assert agent.said("answer") == ["Voles, says page shelf B"]
    [run_id], [attempt_id] = agent.said("run"), agent.said("attempt")
    runs = until(lambda: Run.objects.count() == 2 and list(Run.objects.order_by("attempt")), 20)
    assert [str(run.run_id) for run in runs] == [run_id, attempt_id]
    assert [(run.attempt, run.outcome, run.steps) for run in runs] == [
        (1, "escalated", 3),
        (2, "completed", 1),
    ]
    assert {run.root_task_id or str(run.run_id) for run in runs} == {run_id}
    assert (str(runs[1].resumed_from), runs[0].cost + runs[1].cost) == (run_id, Decimal("0.02"))
    decision.refresh_from_db()
    assert (str(decision.attempt_id), decision.attempt, decision.consumed_at is not None) == (
        attempt_id,
        2,
        True,
    )

    page = client.get(f"/runs/{attempt_id}/").content.decode()
    (line,) = re.findall(r'<ol class="attempts".*?</ol>', page, re.DOTALL)
    words = " ".join(re.sub(r"<[^>]+>", " ", line).split())
    assert words == "attempt 1 Escalated Resume by ann attempt 2 Completed"
    assert page.count(f"/review/{checkpoint.checkpoint_id}/") == 1
    assert re.findall(r"<dt>Whole task</dt><dd><a[^>]*>([^<]*)", page) == ["$0.020, 4 steps"]


def test_an_agent_that_is_killed_as_it_goes_on_goes_on_once(
    agent: Agent, tenant: Tenant, client: Client
) -> None:
    agent.start(DIES_AS_IT_BEGINS="1")
    checkpoint = arrived(agent)
    client.force_login(make_member(tenant, Role.REVIEWER))
    let_undo_time_pass(decide(client, checkpoint, "resume", input="look on shelf B", budget_steps="5"))
    until(lambda: agent.said("attempt"), 20)
    assert agent.processes[0].wait(10) == -signal.SIGKILL
    assert agent.start().wait(40) == 0
    [*attempts], [answer] = agent.said("attempt"), agent.said("answer")
    assert (len(attempts), len(set(attempts)), answer) == (2, 1, "Voles, says page shelf B")
    until(lambda: Run.objects.filter(attempt=2).count() == 1, 20)


def test_a_stop_reaches_an_agent_that_waits_at_once(agent: Agent, tenant: Tenant, client: Client) -> None:
    process = agent.start()
    checkpoint = arrived(agent)
    client.force_login(make_member(tenant, Role.REVIEWER))
    decide(client, checkpoint, "stop")
    assert process.wait(10) == 0
    assert (agent.said("decided"), agent.said("answer")) == (["stop"], ["stopped"])
    checkpoint.refresh_from_db()
    assert checkpoint.state == "consumed"


def test_a_gate_that_is_killed_while_an_agent_waits_loses_no_decision(
    agent: Agent, gate: GateProcess, tenant: Tenant, client: Client
) -> None:
    process = agent.start()
    checkpoint = arrived(agent)
    gate.kill()
    client.force_login(make_member(tenant, Role.REVIEWER))
    let_undo_time_pass(decide(client, checkpoint, "answer", answer="Voles."))
    gate.start()
    assert process.wait(40) == 0
    assert agent.said("answer") == ["Voles."]
    runs = until(lambda: Run.objects.count() == 2 and list(Run.objects.order_by("attempt")), 20)
    assert [(run.outcome, run.cost) for run in runs][1] == ("completed", 0)
