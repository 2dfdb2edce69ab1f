from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from guardops.local.errors import LocalError
from guardops.local.processes import launched, started_at
from guardops.local.supervisor import Child, Supervisor, printable
from tests.local.waiting import until

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"


class Screen:
    """What the person at the terminal sees; the last line of each child tells the test how far things are."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def show(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    def of(self, name: str) -> list[str]:
        return [line for who, line in self.lines if who == name]


def child(name: str, script: str, *arguments: str, wave: int = 1, **options: object) -> Child:
    command = [sys.executable, "-c", script, *arguments]
    return Child(name, lambda: launched(command), wave, **options)  # type: ignore[arg-type]


def run_until(supervisor: Supervisor, done: Callable[[], object]) -> None:
    """Run the supervisor in this thread, which made the children, until ``done``."""
    waiter = threading.Thread(target=lambda: (until(done), supervisor.request_stop()))
    waiter.start()
    supervisor.run()
    waiter.join()
    supervisor.stop()


def test_a_killed_child_is_restarted_and_its_own_children_go() -> None:
    screen = Screen()
    supervisor = Supervisor(screen.show)
    script = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
        "print(p.pid, flush=True); p.wait()"
    )
    supervisor.start(child("web", script))
    killed: list[int] = []

    def second_life() -> bool:
        numbers = [int(line) for line in screen.of("web") if line.isdigit()]
        if len(numbers) == 1 and not killed:
            killed.append(supervisor.pids()["web"][0])
            os.kill(killed[0], signal.SIGKILL)
        return len(numbers) == 2

    run_until(supervisor, second_life)
    first = int(next(line for line in screen.of("web") if line.isdigit()))
    assert started_at(first) is None
    assert any("SIGKILL" in line and "starting again" in line for line in screen.of("web"))


def test_a_child_that_keeps_falling_waits_longer_each_time() -> None:
    screen = Screen()
    supervisor = Supervisor(screen.show)
    supervisor.start(child("fold", "raise SystemExit(3)"))
    run_until(supervisor, lambda: len(screen.of("fold")) == 3)
    assert [line.rpartition("in ")[2] for line in screen.of("fold")[:3]] == ["0.5 s", "1.0 s", "2.0 s"]


def test_children_stop_wave_by_wave_the_highest_first() -> None:
    screen = Screen()
    supervisor = Supervisor(screen.show)
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *a: (time.sleep(0.2), print('bye', flush=True), sys.exit()))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    for name, wave in (("postgres", 1), ("web", 3), ("worker", 2)):
        supervisor.start(child(name, script, wave=wave))
    run_until(supervisor, lambda: len(screen.lines) == 3)
    assert [name for name, line in screen.lines if line == "bye"] == ["web", "worker", "postgres"]


def test_a_child_that_ignores_the_signal_is_killed_after_its_grace() -> None:
    screen = Screen()
    supervisor = Supervisor(screen.show)
    script = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
    stubborn = child("gate", script, grace=0.2)
    supervisor.start(stubborn)
    run_until(supervisor, lambda: screen.of("gate"))
    assert not stubborn.is_alive
    assert "does not stop: killed" in screen.of("gate")


def test_a_child_that_ends_before_it_is_ready_is_reported_with_its_last_words() -> None:
    screen = Screen()
    supervisor = Supervisor(screen.show)
    broken = child("postgres", "raise SystemExit('no disk')", is_ready=lambda: False, quiet=True)
    supervisor.start(broken)
    with pytest.raises(LocalError, match="exit code 1"):
        supervisor.wait_ready(broken, 30)
    assert screen.of("postgres") == ["no disk"]


def test_a_step_that_fails_stops_the_start() -> None:
    supervisor = Supervisor(Screen().show)
    supervisor.run_once(child("setup", "pass"))
    with pytest.raises(LocalError, match="setup failed"):
        supervisor.run_once(child("setup", "raise SystemExit(1)"))


@pytest.mark.parametrize("death", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_a_supervisor_that_was_killed(tmp_path: Path, death: int) -> None:
    script = (
        "import os, sys\n"
        "from guardops.local.processes import launched\n"
        "from guardops.local.supervisor import Child, Supervisor\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"command = launched(command, death_signal={int(death)})\n"
        "supervisor = Supervisor(lambda name, line: None)\n"
        "for name in 'ab': supervisor.start(Child(name, lambda: command, 1))\n"
        "print(*[pid for pid, _ in supervisor.pids().values()], flush=True)\n"
        "supervisor.run()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    until(lambda: all(started_at(pid) is None for pid in pids))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("10 %\r50 %\r100 %\r", "100 %"),
        ("\x1b[2Jcleared", "\\x1b[2Jcleared"),
        ("mirror\u202eed", "mirror\\x202eed"),
    ],
)
def test_a_line_cannot_steer_the_terminal(line: str, shown: str) -> None:
    assert printable(line) == shown
