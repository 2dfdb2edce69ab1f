from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from guardops.local import state
from guardops.local.errors import LocalError
from guardops.local.processes import inside, started_at

RUNNING = state.Running(
    pid=os.getpid(),
    started=started_at(os.getpid()) or 0,
    children={"web": (1, 2)},
    database_url="postgresql:///x",
    broker_url="redis+socket:///y",
    web_url="http://127.0.0.1:8000",
    gate_url="http://127.0.0.1:8001",
)


@pytest.mark.parametrize("length", [10, 60, 83, 84, 85, 200])
def test_a_socket_path_stays_under_107_bytes_however_long_the_home(length: int) -> None:
    folder = state.socket_folder(Path("/" + "é" * (length // 2)))
    assert len(os.fsencode(folder / ".s.PGSQL.5432.lock")) < 107


def test_two_long_homes_have_two_socket_folders() -> None:
    assert state.socket_folder(Path("/" + "a" * 120)) != state.socket_folder(Path("/" + "b" * 120))


def test_a_short_home_keeps_its_sockets_inside(tmp_path: Path) -> None:
    assert state.socket_folder(Path("/srv/x")) == Path("/srv/x/run")


def test_a_private_folder_is_ours_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    assert state.private_folder(tmp_path / "open").stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_a_private_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(LocalError, match="GUARDOPS_HOME"):
        state.private_folder(tmp_path / "link")


def test_the_secret_is_made_once_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDOPS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GUARDOPS_SECRET_KEY")
    first, second = state.secret_key(), state.secret_key()
    assert first == second
    assert len(first) >= 50
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["secret_key"]
    assert (tmp_path / "home" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_another_terminal_finds_the_running_addresses(tmp_path: Path) -> None:
    state.write_running(tmp_path, RUNNING)
    assert state.running(tmp_path) == RUNNING


def test_a_dead_or_recycled_process_is_not_running(tmp_path: Path) -> None:
    state.write_running(tmp_path, replace(RUNNING, started=RUNNING.started - 1))
    assert state.running(tmp_path) is None
    assert state.last_running(tmp_path) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_a_torn_file_means_nothing_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text)
    assert state.running(tmp_path) is None


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=tmp_path) as child:
        assert started_at(child.pid) is not None
        assert inside(tmp_path) == [child.pid]
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left as a zombie
        assert started_at(child.pid) is None
        assert inside(tmp_path) == []
