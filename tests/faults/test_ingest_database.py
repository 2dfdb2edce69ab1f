"""PostgreSQL killed under load: senders are told to come back, and in the end every run is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from guardops.local.postgres import Postgres
from tests.gate_process import CHECKOUT, FoldProcess, GateProcess
from tests.local.waiting import until

from .posting import Posting, agents, make_post

pytestmark = pytest.mark.fault

MAKE_KEY = """
import django
django.setup()
from datetime import UTC, datetime
from django.core.management import call_command
from tests.factories import make_key, make_tenant
call_command("migrate", verbosity=0, skip_checks=True)
print(make_key(make_tenant("acme"), now=datetime.now(UTC))[1])
"""


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Postgres]:
    """A server of its own, which keeps what it acknowledged when it is killed."""
    server = Postgres(tmp_path)
    server.start()
    yield server
    server.stop()


def python(code: str, database_url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "guardops.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_database_killed_under_load_loses_nothing_and_needs_no_restart(postgres: Postgres) -> None:
    key = python(MAKE_KEY, postgres.url)
    posts = [make_post(place) for place in range(400)]
    with GateProcess(postgres.url) as gate, FoldProcess(postgres.url) as fold:
        pids = gate.pid, fold.pid
        posting = Posting(gate, key, clients=4)

        def kill_twice() -> None:
            for count in (100, 250):
                posting.wait_for(count)
                assert postgres.process is not None
                postgres.process.send_signal(signal.SIGKILL)
                postgres.process.wait()
                until(lambda: posting.retry_after)
                assert gate.ask("/livez") == 200
                assert gate.ask("/readyz") == 503
                postgres.start()

        posting.post_all(posts, meanwhile=kill_twice)
        assert set(posting.answers) == {200, 503}
        assert all(asked and int(asked) >= 1 for asked in posting.retry_after)
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            until(lambda: connection.execute("SELECT count(*) FROM ingest_span").fetchone() == (0,), 60)
            kept = connection.execute('SELECT agent FROM run ORDER BY agent COLLATE "C"').fetchall()
            counted = connection.execute(
                "SELECT sum(runs) FROM rollup WHERE tenant_id <> 0 AND grain = 0 AND cut = 0"
            ).fetchone()
        assert [agent for (agent,) in kept] == agents(posts)
        assert counted == (1_200,)
        assert pids == (gate.pid, fold.pid)
        assert fold.process is not None
        assert fold.process.poll() is None
