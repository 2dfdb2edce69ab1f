"""`manage.py up` in a folder of its own: it comes up, stays up and goes, whatever happens to it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from guardops.local import ports, state
from guardops.local.processes import spawn
from guardops.local.valkey import Valkey
from tests.factories import make_run_event, make_run_id
from tests.faults.installation import Up, status
from tests.local.outsider import Outsider
from tests.local.waiting import until

pytestmark = pytest.mark.fault

MAKE_KEY = (
    "from django.utils import timezone; from runs.replay.account import make_key;"
    "print(make_key('main', name='test', now=timezone.now(), say=lambda line: None))"
)
COUNT_RUNS = "from runs.models import Run; print(Run.objects.count())"
FROZEN_SECONDS = 60.0 if os.environ.get("CI") else 10.0  # the promise is for a minute


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """An installation that the tests share; each leaves it running."""
    home = Path(tempfile.mkdtemp(prefix="go-"))
    with Up(home) as up:
        yield up
    shutil.rmtree(home)


def post_run(up: Up, key: str) -> int:
    now = datetime.now(UTC)
    event = make_run_event(run_id=make_run_id(now), started_at=now, ended_at=now)
    return status(f"{up.running.gate_url}/api/v1/events", data=msgspec.json.encode([event]), key=key)


def test_both_doors_answer_at_the_addresses_it_prints(up: Up) -> None:
    web_url = up.said("dashboard  ").split()[-1]
    gate_url = up.said("gate       ").split()[-1]
    assert (web_url, gate_url) == (up.running.web_url, up.running.gate_url)
    assert status(f"{web_url}/login/") == 200
    assert status(f"{web_url}/static/guardops.css") == 200
    assert status(f"{gate_url}/api/v1/openapi.json") == 200
    assert status(f"{gate_url}/api/v1/events", data=b"[]") == 401


def test_the_printed_password_signs_in(up: Up) -> None:
    named = f"username='admin', password={up.password!r}"
    check = f"from django.contrib.auth import authenticate; print(authenticate({named}))"
    assert up.ask(check) == "admin"


def test_a_second_up_is_refused_with_the_reason(up: Up) -> None:
    second = Up(up.home)
    second.launch()
    assert second.process
    assert second.process.wait(30) == 1
    assert up.process
    refusal = until(lambda: second.said("already runs"))
    assert f"process {up.process.pid}" in refusal
    assert up.running.web_url in refusal


def test_a_run_sent_to_the_gate_is_stored_and_counted(up: Up) -> None:
    before = int(up.ask(COUNT_RUNS))
    assert post_run(up, up.ask(MAKE_KEY)) == 200
    assert int(up.ask(COUNT_RUNS)) == before + 1


@pytest.mark.parametrize("name", ["web", "gate", "fold", "worker", "beat", "valkey", "postgres"])
def test_a_killed_child_is_restarted_and_all_answers_again(up: Up, name: str) -> None:
    key = up.ask(MAKE_KEY)
    killed = up.pid(name)
    os.kill(killed, signal.SIGKILL)
    until(lambda: up.pid(name) != killed)
    until(lambda: status(f"{up.running.web_url}/login/") == 200)
    until(lambda: post_run(up, key) == 200)


def test_the_worker_does_what_was_queued(up: Up) -> None:
    name = up.ask(
        "from runs.partitions import existing_partitions; from django.db import connection;"
        "name = max(existing_partitions()); connection.cursor().execute(f'DROP TABLE {name}'); print(name)"
    )
    up.ask("from runs.tasks import ensure_partitions; ensure_partitions.delay()")
    exists = f"from runs.partitions import existing_partitions; print({name!r} in existing_partitions())"
    until(lambda: up.ask(exists) == "True")


def test_a_frozen_broker_holds_up_no_page_and_no_run(up: Up) -> None:
    key = up.ask(MAKE_KEY)
    before = int(up.ask(COUNT_RUNS))
    broker = up.pid("valkey")
    os.kill(broker, signal.SIGSTOP)
    sent, slowest = 0, 0.0
    end = time.monotonic() + FROZEN_SECONDS
    while time.monotonic() < end:
        asked = time.monotonic()
        assert status(f"{up.running.web_url}/login/") == 200
        assert post_run(up, key) == 200
        sent, slowest = sent + 1, max(slowest, time.monotonic() - asked)
        time.sleep(0.1)
    os.kill(broker, signal.SIGCONT)
    assert slowest < 5.0
    assert int(up.ask(COUNT_RUNS)) == before + sent
    assert up.pid("valkey") == broker


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_after_any_end_nothing_blocks_the_next_start(home: Path, signum: signal.Signals) -> None:
    with Up(home) as first:
        assert first.password
        code = first.end(signum)
        assert code == (-signal.SIGKILL if signum == signal.SIGKILL else 0)
        if signum != signal.SIGKILL:
            assert state.last_running(home) is None
        with Up(home) as second:  # at once, while a killed one's children may still be ending
            assert not second.password  # the first admin is still there
            assert status(f"{second.running.web_url}/login/") == 200
            assert sorted(second.alive()) == sorted(
                ["beat", "fold", "gate", "postgres", "valkey", "web", "worker"]
            )


def test_a_killed_launcher_takes_everything_along(home: Path) -> None:
    launcher = home / "uv"  # a process of this name cannot pass a SIGKILL on
    shutil.copy("/bin/sh", launcher)
    with Up(home, launcher=[str(launcher), "-c", '"$@"; exit $?', "uv"]) as up:
        assert up.process
        assert up.running.pid != up.process.pid
        up.process.kill()
        until(lambda: state.last_running(home) is None)
        assert not (home / "postgres" / "postmaster.pid").exists()


def test_ctrl_c_while_starting_leaves_nothing(home: Path) -> None:
    up = Up(home)
    up.launch()
    until(lambda: up.said("bringing the database up to date"), 60)
    assert up.end(signal.SIGINT) == 0
    assert not list((home / "run").glob("*"))
    assert not (home / "postgres" / "postmaster.pid").exists()


def test_a_busy_port_moves_on(home: Path) -> None:
    with ports.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with Up(home, "--web-port", str(port), "--gate-port", "0") as up:
            assert up.said(f"port {port} is busy")
            assert not up.running.web_url.endswith(f":{port}")
            assert status(f"{up.running.web_url}/login/") == 200


def test_outside_servers_are_used_where_they_are_named(home: Path, database_url: str) -> None:
    broker = Valkey(home / "outside")
    broker.prepare()
    process = spawn(broker.command(), output=subprocess.DEVNULL)
    until(broker.is_ready)
    outside = {"DATABASE_URL": database_url, "BROKER_URL": broker.url}
    with Up(home, environment=outside) as up:
        assert status(f"{up.running.web_url}/login/") == 200
        assert not {"postgres", "valkey"} & set(up.running.children)
        assert not (home / "postgres").exists()
    process.kill()
    process.wait()


def test_a_database_that_does_not_answer_is_said_at_once(home: Path) -> None:
    up = Up(home, environment={"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"})
    up.launch()
    assert up.process
    assert up.process.wait(30) == 1
    assert until(lambda: up.said("DATABASE_URL does not answer"))


def test_an_ordinary_user_gets_everything_in_a_private_home(outsider: Callable[[int], Outsider]) -> None:
    user = outsider(pwd.getpwnam("nobody").pw_uid)
    up = Up(user.home / "state")
    arguments = [str(user.checkout / "manage.py"), "up", "--web-port", "0", "--gate-port", "0"]
    up.follow(user.start(arguments, {"GUARDOPS_HOME": str(up.home)}))
    until(lambda: up.said("ready;") or up.ended, 120)
    assert not up.ended, "\n".join(up.lines)
    assert up.password
    assert status(f"{up.running.web_url}/login/") == 200
    assert status(f"{up.running.gate_url}/api/v1/openapi.json") == 200
    assert Path(f"/proc/{up.pid('postgres')}").stat().st_uid == user.uid
    assert up.end(signal.SIGINT) == 0
