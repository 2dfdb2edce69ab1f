"""Start children, show what they say, restart the fallen with growing pauses and stop all in order.

One thread, which forks: a child's parent-death signal is tied to the thread that made it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from guardops.local.errors import LocalError, Stopped
from guardops.local.processes import signal_group, spawn, started_at

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_STEADY_SECONDS = 60.0  # a child that lived this long starts afresh in the count of its falls
_SILENCE_SECONDS = 3.0
_SAME_REQUEST_SECONDS = 1.0
_QUICK_GRACE = 0.5
_TICK = 0.1
_WELL = "exit code 0"


def _always() -> bool:
    return True


def _nothing() -> None:
    return None


@dataclass
class Child:
    """A process to keep running; ``wave`` orders the stop, the highest goes first."""

    name: str
    command: Callable[[], Sequence[str]]
    wave: int
    environment: Mapping[str, str] | None = None
    pass_fds: Sequence[int] = ()
    prepare: Callable[[], None] = _nothing
    is_ready: Callable[[], bool] = _always
    stop_signal: int = signal.SIGTERM
    grace: float = 30.0
    restarted: bool = True
    quiet: bool = False  # its last lines are shown only when it falls
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    born: float = 0.0
    falls: int = 0
    due: float = 0.0
    said: deque[str] = field(default_factory=lambda: deque(maxlen=30), repr=False)

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Keeps children running until it is told to stop."""

    def __init__(self, show: Callable[[str, str], None], changed: Callable[[], None] = _nothing) -> None:
        self.children: list[Child] = []
        self.stopping = False
        self._asked = 0.0
        self._spoke = 0.0
        self._show = show
        self._changed = changed
        self._pipes = selectors.DefaultSelector()
        self._parent = _launcher()

    def start(self, child: Child) -> None:
        """Start a child and keep it from now on."""
        self.children.append(child)
        self._launch(child)

    def wait_ready(self, child: Child, seconds: float) -> None:
        """Wait until a child answers; it must not fall before it does."""
        deadline = time.monotonic() + seconds
        while not child.is_ready():
            self._wait_a_little(child)
            if not child.is_alive:
                self._tell(child)
                raise LocalError(f"{child.name} ended while starting ({_ending(child)}); see above.")
            if time.monotonic() > deadline:
                self._tell(child)
                raise LocalError(f"{child.name} does not answer after {seconds:.0f} s; see above.")

    def run_once(self, child: Child) -> None:
        """Run a child that ends by itself and must succeed."""
        self._launch(child)
        try:
            while child.is_alive:
                self._wait_a_little(child)
        finally:
            self._end([child])
        self._pump(0)
        if child.process and child.process.returncode != 0:
            raise LocalError(f"{child.name} failed ({_ending(child)}); see above.")

    def run(self) -> None:
        """Keep the children running until a signal says stop, or the launcher that started us is gone."""
        while not self.stopping:
            self._pump(_TICK)
            for child in list(self.children):
                self._look_after(child, time.monotonic())
            if self._parent and os.getppid() != self._parent:
                self.stopping = True

    def request_stop(self, signum: int = 0, frame: object = None) -> None:
        """Signal handler: the first asks for an orderly stop, one after it for a quick one.

        One Ctrl-C may reach us twice, from the terminal and from the launcher, hence a second between.
        """
        now = time.monotonic()
        if self.stopping and now - self._asked > _SAME_REQUEST_SECONDS:
            for child in self.children:
                child.grace = _QUICK_GRACE
        elif not self.stopping:
            self.stopping, self._asked = True, now

    def stop(self) -> None:
        """Stop the children wave by wave; what does not follow in its time is killed with all it started."""
        self.stopping = True
        for wave in sorted({child.wave for child in self.children}, reverse=True):
            self._end([child for child in self.children if child.wave == wave])
        self._pump(0)

    def pids(self) -> dict[str, tuple[int, int]]:
        """Return each living child's pid and start, in clock ticks since boot."""
        living = (
            (child.name, child.process.pid) for child in self.children if child.process and child.is_alive
        )
        return {name: (pid, started_at(pid) or 0) for name, pid in living}

    def _launch(self, child: Child) -> None:
        child.prepare()
        child.process = spawn(
            child.command(), output=subprocess.PIPE, environment=child.environment, pass_fds=child.pass_fds
        )
        child.born = time.monotonic()
        output = child.process.stdout
        if output is not None:
            os.set_blocking(output.fileno(), False)
            self._pipes.register(output, selectors.EVENT_READ, _Lines(output, self._hearer(child)))
        self._changed()

    def _hearer(self, child: Child) -> Callable[[str], None]:
        if child.quiet:
            return child.said.append
        return lambda line: self._show(child.name, line)

    def _tell(self, child: Child) -> None:
        """Show what a quiet child last said."""
        self._pump(0)
        while child.said:
            self._show(child.name, child.said.popleft())

    def _look_after(self, child: Child, now: float) -> None:
        if child.process is None:
            if now >= child.due:
                self._launch(child)
            return
        if child.is_alive:
            return
        signal_group(child.process.pid, signal.SIGKILL)  # what it had started must not go on
        self._tell(child)
        ending, child.process = _ending(child), None
        if not child.restarted:
            self.children.remove(child)
            self._show(child.name, "done" if ending == _WELL else f"ended ({ending})")
            return
        child.falls = 0 if now - child.born > _STEADY_SECONDS else child.falls + 1
        pause = min(_FIRST_PAUSE * 2 ** max(child.falls - 1, 0), _LONGEST_PAUSE)
        child.due = now + pause
        self._show(child.name, f"ended ({ending}); starting again in {pause:.1f} s")

    def _end(self, children: Sequence[Child]) -> None:
        asked = time.monotonic()
        for child in children:
            if child.process and child.is_alive:
                child.process.send_signal(child.stop_signal)
        while any(child.is_alive for child in children):
            self._pump(_TICK / 2)
            for child in children:
                if child.process and child.is_alive and time.monotonic() - asked > child.grace:
                    self._show(child.name, "does not stop: killed")
                    signal_group(child.process.pid, signal.SIGKILL)
                    child.process.wait()
        for child in children:
            if child.process:
                signal_group(child.process.pid, signal.SIGKILL)

    def _wait_a_little(self, child: Child) -> None:
        self._pump(_TICK / 2)
        now = time.monotonic()
        if now - max(self._spoke, child.born) > _SILENCE_SECONDS:
            self._spoke = now
            self._show(child.name, "still at it")
        if self.stopping:
            raise Stopped

    def _pump(self, seconds: float) -> None:
        """Show what the children have said, waiting up to ``seconds`` for something."""
        if not self._pipes.get_map():
            time.sleep(seconds)
            return
        for key, _ in self._pipes.select(seconds):
            if not key.data.read():
                self._pipes.unregister(key.fileobj)
                key.data.close()


class _Lines:
    """A child's output, cut into lines."""

    def __init__(self, pipe: IO[bytes], show: Callable[[str], None]) -> None:
        self.pipe = pipe
        self.show = show
        self.rest = b""

    def read(self) -> bool:
        """Show the lines that are there; return False at the end of the output."""
        try:
            block = os.read(self.pipe.fileno(), 65536)
        except BlockingIOError:
            return True
        *lines, self.rest = (self.rest + block).split(b"\n")
        if not block or len(self.rest) > 65536:
            lines, self.rest = [*lines, self.rest], b""
        for line in lines:
            if line.strip():
                self.show(printable(line.decode(errors="replace")))
        return bool(block)

    def close(self) -> None:
        self.pipe.close()


def printable(line: str) -> str:
    """Return a line that cannot steer the terminal, whoever wrote what is in it."""
    shown = line.rstrip("\r").rpartition("\r")[2]  # of a progress bar the last state
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in shown)


def _ending(child: Child) -> str:
    code = child.process.poll() if child.process else None
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _launcher() -> int:
    """Return the pid of the `uv run` we live under, else 0: when it is killed it cannot tell us."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/comm") as file:
            return parent if file.read().strip() == "uv" else 0
    except OSError:
        return 0
