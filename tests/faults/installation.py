"""A real `manage.py up` for tests, and what a person in another terminal can do beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from guardops.local import state
from guardops.local.processes import started_at
from tests.local.waiting import until

CHECKOUT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def clean_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment without what the test session itself was given."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "GUARDOPS_HOME": str(home), **(more or {})}


class Up:
    """`manage.py up` on free ports, with what it prints."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.home = home
        self.lines: list[str] = []
        self._environment = clean_environment(home, environment)
        self._launcher = launcher
        self._arguments = arguments or ("--web-port", "0", "--gate-port", "0")
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Up:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process and self.process.poll() is None:
            self.end(signal.SIGTERM)

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.launch()
        until(lambda: self.said("ready;") or self.ended, START_SECONDS)
        assert not self.ended, "\n".join(self.lines)

    def launch(self) -> None:
        """Start it."""
        self.lines.clear()
        self.follow(
            subprocess.Popen(
                [*self._launcher, sys.executable, str(CHECKOUT / "manage.py"), "up", *self._arguments],
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )

    def follow(self, process: subprocess.Popen[str]) -> None:
        """Collect what a process prints, so that it never waits for us."""
        self.process = process
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.lines.extend(line.rstrip("\n") for line in process.stdout)

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def said(self, words: str) -> str:
        """Return the first line that holds ``words``, empty if there is none yet."""
        return next((line for line in list(self.lines) if words in line), "")

    def end(self, signum: int) -> int:
        assert self.process
        self.process.send_signal(signum)
        return self.process.wait(90)

    @property
    def running(self) -> state.Running:
        running = state.running(self.home)
        assert running is not None
        return running

    def pid(self, child: str) -> int:
        """Return a child's pid, once it has one."""
        return until(lambda: self.running.children.get(child), 60)[0]

    def alive(self) -> list[str]:
        """Return the children of the last `up` that still live."""
        last = state.last_running(self.home)
        assert last is not None
        return [name for name, (pid, started) in last.children.items() if started_at(pid) == started]

    def command(self, *arguments: str) -> str:
        """Run another command of this installation, as from another terminal."""
        done = subprocess.run(
            [sys.executable, str(CHECKOUT / "manage.py"), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, python: str) -> str:
        return self.command("shell", "--no-imports", "--command", python)

    @property
    def password(self) -> str:
        found = re.search(r"password +(\S+)$", self.said("  password "))
        return found.group(1) if found else ""


def status(url: str, *, data: bytes | None = None, key: str = "", timeout: float = 5.0) -> int:
    """Return the status of an answer, 0 where there is none in time."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        with _DIRECTLY.open(request, timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
