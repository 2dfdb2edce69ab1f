from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from guardops.local import postgres
from guardops.local.errors import LocalError
from guardops.local.postgres import Postgres
from guardops.local.processes import started_at, wait_until_gone
from tests.local.outsider import Outsider

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
STARTED = (
    "import pathlib, sys\n"
    "from guardops.local.postgres import Postgres\n"
    "p = Postgres(pathlib.Path(sys.argv[1]))\n"
)

STARTED_APART = (
    f"{STARTED}from guardops.local import postgres\n"
    "postgres._can_run = lambda place, home: False\n"
    "postgres._folder_apart = lambda home: home.parent / 'apart'\n"
    "p.home.parent.chmod(0o755)\n"
)


@pytest.fixture
def server(home: Path) -> Iterator[Postgres]:
    server = Postgres(home)
    server.start()
    yield server
    server.stop()


def query(server: Postgres, statement: str) -> object:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[call-overload]
        return row[0]


def test_the_database_is_utf8_and_sorts_by_code_point(server: Postgres) -> None:
    shown = query(
        server,
        "SELECT concat_ws(' ', pg_encoding_to_char(encoding), datlocprovider, datlocale)"
        " FROM pg_database WHERE datname = current_database()",
    )
    assert shown == "UTF8 b C.UTF-8"
    assert query(server, "SELECT upper('ä')") == "Ä"


def test_the_role_owns_its_database_and_is_no_superuser(server: Postgres) -> None:
    assert query(server, "SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = current_user") is False
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert query(server, owner) == "guardops"
    with psycopg.connect(server.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SET session_replication_role = replica")


def test_it_listens_on_a_private_socket_only(server: Postgres) -> None:
    assert query(server, "SHOW listen_addresses") == ""
    assert server.place.sockets.stat().st_mode & 0o777 == 0o700
    assert server.place.data.stat().st_mode & 0o777 == 0o700


def test_the_server_is_our_direct_child_and_not_root(server: Postgres) -> None:
    assert server.process
    assert query(server, "SELECT pg_backend_pid()") != server.process.pid
    first_line = (server.place.data / "postmaster.pid").read_text().split("\n")[0]
    assert int(first_line) == server.process.pid
    assert Path(f"/proc/{server.process.pid}/comm").read_text().strip() == "postgres"


def test_data_outlive_a_restart(server: Postgres) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    server.stop()
    assert not (server.place.data / "postmaster.pid").exists()
    server.start()
    assert query(server, "SELECT n FROM kept") == 7


def test_a_killed_server_starts_again_with_its_commits(server: Postgres) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    assert server.process
    server.process.kill()
    server.process.wait()
    server.start()
    assert query(server, "SELECT n FROM kept") == 7


@pytest.mark.parametrize("holder", ["gone", "recycled", "zombie"])
def test_a_lock_left_by_a_dead_server_does_not_block(server: Postgres, holder: str) -> None:
    server.stop()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        pid = 2**22 - 1 if holder == "gone" else stranger.pid
        if holder == "zombie":
            stranger.kill()
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        data, sockets = server.place.data, server.place.sockets
        text = f"{pid}\n{data}\n1\n5432\n{sockets}\n\n0 0\nready\n"
        (data / "postmaster.pid").write_text(text)
        (sockets / ".s.PGSQL.5432.lock").write_text(text)
        server.start()
        stranger.kill()
    assert query(server, "SELECT 1") == 1


def test_the_environment_chooses_no_other_port(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6000")
    server = Postgres(home, durable=False)
    server.start()
    assert query(server, "SHOW port") == "5432"
    server.stop()


def test_a_half_made_folder_is_made_again(home: Path) -> None:
    (home / "postgres.new" / "base").mkdir(parents=True)
    server = Postgres(home)
    server.prepare()
    assert (server.place.data / "PG_VERSION").exists()
    assert not (home / "postgres.new").exists()


def test_a_long_home_gets_a_short_socket_path(home: Path) -> None:
    server = Postgres(home / ("x" * 120), durable=False)
    try:
        server.start()
        assert query(server, "SELECT 1") == 1
    finally:
        server.stop()
        shutil.rmtree(server.place.sockets)


def test_a_start_that_fails_says_what_the_server_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres._SETTINGS, "max_connections", "many")
    with pytest.raises(LocalError, match=r"max_connections.*many"):
        Postgres(home, durable=False).start()


@pytest.mark.parametrize("place", ["ours", pytest.param("apart", marks=needs_root)])
def test_the_server_goes_when_its_parent_is_killed(home: Path, place: str) -> None:
    script = STARTED if place == "ours" else STARTED_APART
    script += "p.start()\nprint(p.process.pid, flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", script, str(home / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        started = started_at(pid)
        assert started is not None
        parent.kill()
    assert wait_until_gone(pid, started, 30)
    assert not list(home.rglob("postmaster.pid"))


def test_a_start_waits_for_a_server_that_is_still_ending(server: Postgres) -> None:
    assert server.process
    with psycopg.connect(server.url) as session:
        server.process.send_signal(signal.SIGTERM)  # smart: ends when the last session does
        heir = Postgres(server.home)
        said: list[str] = []
        heir.say = lambda line: (said.append(line), session.close())  # type: ignore[assignment,func-returns-value]
        heir.start()
    assert said == ["waiting for the last server to shut down"]
    assert query(heir, "SELECT 1") == 1
    heir.stop()


@needs_root
def test_root_without_namespaces_runs_it_as_nobody_in_a_folder_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = Path(f"{home}-apart")
    monkeypatch.setattr(postgres, "_can_run", lambda place, home: False)
    monkeypatch.setattr(postgres, "_folder_apart", lambda home: apart)
    server = Postgres(home, durable=False)
    try:
        server.start()
        assert server.process
        owner = Path(f"/proc/{server.process.pid}").stat().st_uid
        assert owner == pwd.getpwnam("nobody").pw_uid
        assert query(server, "SELECT 1") == 1
        assert not (home / "postgres").exists()
        monkeypatch.undo()
        monkeypatch.setattr(postgres, "_folder_apart", lambda home: apart)
        assert Postgres(home).place == server.place  # where data once are, they stay
    finally:
        server.stop()
        shutil.rmtree(apart)


@needs_root
def test_root_in_a_home_that_is_closed_to_it_runs_it_as_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = Path(f"{home}-apart")
    monkeypatch.setattr(postgres, "_folder_apart", lambda home: apart)
    (home / "theirs").mkdir(mode=0o700)
    os.chown(home / "theirs", 54321, 54321)  # in a user namespace root may not enter this
    server = Postgres(home / "theirs" / "state", durable=False)
    try:
        server.start()
        assert server.place.data == apart / "data" / "postgres"
        assert query(server, "SELECT 1") == 1
    finally:
        server.stop()
        shutil.rmtree(apart)


@needs_root
@pytest.mark.parametrize("uid", [pwd.getpwnam("nobody").pw_uid, 54321], ids=["account", "no account"])
def test_an_ordinary_user_runs_it_in_a_private_home(outsider: Callable[[int], Outsider], uid: int) -> None:
    user = outsider(uid)
    script = (
        f"{STARTED}import os, psycopg; p.start()\n"
        "print(os.getuid(), psycopg.connect(p.url).execute('select current_user').fetchone()[0]); p.stop()"
    )
    child = user.start(["-c", script, str(user.home / "state")], {})
    assert child.communicate(timeout=60)[0] == f"{uid} guardops\n"


@needs_root
def test_data_of_another_user_are_refused_with_the_reason(home: Path) -> None:
    server = Postgres(home, durable=False)
    server.prepare()
    os.chown(server.place.data, 54321, 54321)
    with pytest.raises(LocalError, match="belongs to another user"):
        server.prepare()
