"""PostgreSQL killed under load: every run is there once in the end, and guards that wait notice nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

from guardops.local.postgres import Postgres
from tests.gate_process import CHECKOUT, FoldProcess, GateProcess
from tests.local.waiting import until

from .posting import Posting, agents, make_post
from .pulls import PullingGuard

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


EDIT = """
import django
django.setup()
from guardops.tenants.models import Tenant
from tests.faults.pulls import editor
print(editor(Tenant.objects.get(slug="acme"))(0))
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server of its own, which keeps what it acknowledged when it is killed."""
    server = Postgres(tmp_path_factory.mktemp("postgres"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def key(postgres: Postgres) -> str:
    """Return the key of the only tenant."""
    return python(MAKE_KEY, postgres.url)


def kill(postgres: Postgres) -> None:
    assert postgres.process is not None
    postgres.process.send_signal(signal.SIGKILL)
    postgres.process.wait()


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


def test_database_killed_under_load_loses_nothing_and_needs_no_restart(postgres: Postgres, key: str) -> None:
    posts = [make_post(place) for place in range(400)]
    with GateProcess(postgres.url) as gate, FoldProcess(postgres.url) as fold:
        pids = gate.pid, fold.pid
        posting = Posting(gate, key, clients=4)

        def kill_twice() -> None:
            for count in (100, 250):
                posting.wait_for(count)
                kill(postgres)
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


def test_database_killed_under_waits_ends_none_and_the_next_edit_arrives(
    postgres: Postgres, key: str
) -> None:
    with GateProcess(postgres.url) as gate:
        short, long = PullingGuard(gate, key), PullingGuard(gate, key)
        short.hold(wait=2)
        long.hold(wait=60)
        kill(postgres)
        other = PullingGuard(gate, key)
        other.ask()
        assert other.status == 200  # from memory, as long as the key is remembered
        short.thread.join()
        assert (short.status, short.etag) == (304, other.etag)
        postgres.start()
        revision = int(python(EDIT, postgres.url))
        edited = time.monotonic()
        assert long.revision() == revision
        assert time.monotonic() - edited <= 5.5
