"""Start direct children that die with us, and tell living processes from dead, zombie and recycled ones."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LAUNCH = Path(__file__).with_name("launch.py")
_START_TICKS = 19  # index of starttime in /proc/<pid>/stat, counted after the command's closing bracket


@dataclass(frozen=True)
class Identity:
    """As whom a child runs: ourselves, ourselves under another number, or another user."""

    flag: str = ""
    uid: int = 0
    gid: int = 0

    def options(self) -> list[str]:
        return [self.flag, f"{self.uid}:{self.gid}"] if self.flag else []


OURSELVES = Identity()


def launched(
    command: Sequence[str],
    *,
    identity: Identity = OURSELVES,
    death_signal: int = signal.SIGTERM,
    needs: Path | None = None,
) -> list[str]:
    """Return the arguments that start ``command`` as our child, which gets ``death_signal`` if we die."""
    options = [*identity.options(), "--parent", str(os.getpid()), "--death-signal", str(int(death_signal))]
    if needs is not None:
        options += ["--needs", str(needs)]
    return [sys.executable, "-I", "-S", str(_LAUNCH), *options, "--", *command]


def spawn(
    arguments: Sequence[str],
    *,
    output: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a process group of its own, so that Ctrl-C reaches only us and we stop it in order."""
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env=environment,
        pass_fds=pass_fds,
        cwd=folder,
        process_group=0,
    )


def started_at(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it is gone or a zombie.

    A pid together with this number names one process for good, where the pid alone may be given out again.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[_START_TICKS])


def inside(folder: Path) -> list[int]:
    """Return the living processes whose working folder is ``folder``."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # gone meanwhile, a zombie, or none of ours
            if link.readlink() == folder:
                found.append(int(link.parent.name))
    return found


def wait_until_gone(pid: int, started: int, seconds: float) -> bool:
    """Wait for a process that need not be our child; return whether it has gone."""
    deadline = time.monotonic() + seconds
    while started_at(pid) == started:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def signal_group(pid: int, signum: int) -> None:
    """Send a signal to a child and to whatever it started; nothing happens if all are gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)
