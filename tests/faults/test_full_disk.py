"""The database's disk is full: guards are told to come back, and nothing that was acknowledged is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from guardops.local.postgres import Postgres
from tests.gate_process import GateProcess
from tests.local.waiting import until

from .posting import Posting, agents, make_post
from .test_ingest_database import MAKE_KEY, python

pytestmark = pytest.mark.fault

SIZE = "320m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which others don't miss when it is full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "tmpfs", str(disk)]
    refused = subprocess.run(mount, capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(
            f"a disk of its own needs root and a machine that lets it mount: {refused.stderr.strip()}"
        )
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def postgres(disk: Path) -> Iterator[Postgres]:
    server = Postgres(disk / "home")
    server.start()
    yield server
    server.stop()


def fill(disk: Path) -> Path:
    """Take what room is left, and return the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_full_disk_is_said_to_guards_and_loses_nothing_that_was_acknowledged(
    disk: Path, postgres: Postgres
) -> None:
    key, posts = python(MAKE_KEY, postgres.url), [make_post(place, runs=12) for place in range(150)]
    with GateProcess(postgres.url) as gate:
        posting = Posting(gate, key, clients=4)

        def fill_once() -> None:
            posting.wait_for(30)
            ballast = fill(disk)
            until(lambda: posting.answers[503] >= 8)
            assert gate.ask("/livez") == 200
            ballast.unlink()
            assert postgres.process is not None
            if postgres.process.poll() is not None:  # it could not even write its log: the supervisor's turn
                postgres.start()

        posting.post_all(posts, meanwhile=fill_once)
        assert set(posting.answers) == {200, 503}
        assert all(asked and int(asked) >= 1 for asked in posting.retry_after)
    with psycopg.connect(postgres.url) as connection:
        kept = connection.execute('SELECT agent FROM run ORDER BY agent COLLATE "C"').fetchall()
    assert [agent for (agent,) in kept] == agents(posts)
