"""An edit in the browser changes what a running agent may do: real pages, a real gate, a guard that pulls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page

from guardops.guard.calls import Stopped
from guardops.guard.policy import Policy
from guardops.guard.session import AgentRun, Guard
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant, User
from tests.browser.conftest import Desk, Desks
from tests.factories import make_key
from tests.gate_process import GateProcess
from tests.local.waiting import until

PATIENT = Policy.from_mapping({"max_steps": 400, "domain_cap": 400})


@pytest.fixture
def guard(
    tenant: Tenant, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Guard]:
    """The guard of an agent process, at a gate of its own."""
    scopes = [Scope.EVENTS_WRITE, Scope.BUNDLE_READ]
    with GateProcess(database_url) as gate:
        monkeypatch.setenv("GUARDOPS_URL", gate.url)
        monkeypatch.setenv("GUARDOPS_KEY", make_key(tenant, scopes=scopes, now=datetime.now(UTC))[1])
        monkeypatch.setenv("GUARDOPS_STATE", str(tmp_path / "state"))
        with Guard.from_env(PATIENT) as guard:
            yield guard


def reads(run: AgentRun, domain: str) -> str:
    """Let the agent read another page, and return why it was stopped; empty where it was not."""
    url = f"https://www.{domain}/{run.counts.tool_calls}"
    try:
        run.call("fetch", {"url": url}, lambda url: url, progressed=True)
    except Stopped as stopped:
        return str(stopped.reason)
    return ""


def press(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("button", name=name).click()


def set_cap(at: Desk, most: int) -> None:
    page = at.open("/policies/edit/?tenant=acme&job=research")
    page.fill("#id_max_steps", str(most))
    press(page, "Review the changes", "Save as")
    page.wait_for_url("**saved=**")


def test_an_edit_changes_what_a_running_agent_may_do(desk: Desks, person: User, guard: Guard) -> None:
    at = desk(person)
    reader, writer = guard.run(job_type="research"), guard.run(job_type="writing")
    assert (reads(reader, "a.example"), reads(writer, "b.example")) == ("", "")
    page = at.open("/blocklist/add/?tenant=acme&name=a.example")
    press(page, "Look at what it does", "Block")
    assert until(lambda: reads(reader, "a.example"), 10) == "blocked_source"
    assert reads(writer, "b.example") == ""

    page = at.open("/stops/new/?tenant=acme&scope=job_type&name=writing")
    page.get_by_label("Reason").fill("It writes too much")
    press(page, "Look at what it ends", "Stop it")
    assert until(lambda: reads(writer, "b.example"), 10) == "operator_stop"


def test_a_cap_that_is_raised_in_the_browser_is_for_new_runs_only(
    desk: Desks, person: User, guard: Guard
) -> None:
    def cap(run: AgentRun) -> int:
        assert reads(run, "b.example") == ""
        return run.policy.limits.max_steps

    at = desk(person)
    running = guard.run(job_type="research")
    assert cap(running) == 400
    set_cap(at, 390)
    until(lambda: cap(running) == 390, 10)
    set_cap(at, 500)
    until(lambda: cap(guard.run(job_type="research")) == 500, 10)
    assert cap(running) == 390
