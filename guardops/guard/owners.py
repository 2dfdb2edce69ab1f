"""Which process holds something, and whether it still lives.

A process is told by its machine's boot, its id and its start: an id that was given to another process, and
one that nobody has waited for yet (a zombie), are dead. Without ``/proc`` only the id is looked at. Processes
that don't see each other's ids (containers) must not share a file.
"""

from __future__ import annotations

import os
import secrets
import weakref
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")
_DEAD_STATES = frozenset({"Z", "X", "x"})
_START_FIELD = 19
"""Place of the start time among the fields after the process's name; the state comes first."""


class Owner:
    """One holder in this process, alive until it is closed, collected, or its process is gone."""

    _living: weakref.WeakValueDictionary[str, Owner] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.name = f"{_boot()}:{self.pid}:{_start_of(self.pid)}:{secrets.token_hex(6)}"
        self._living[self.name] = self

    def close(self) -> None:
        """Say that this holder holds nothing any more."""
        self._living.pop(self.name, None)


def is_alive(name: str) -> bool:
    """Say whether the holder that a name begins with is alive; one that can't be read is not."""
    boot, pid, start, token = (*name.split(":"), "", "", "")[:4]
    if boot != _boot() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid() and start == _start_of(int(pid)):
        return f"{boot}:{pid}:{start}:{token}" in Owner._living
    return _exists(int(pid)) if not start else start == _start_of(int(pid))


def _exists(pid: int) -> bool:
    if os.name == "nt":  # there, signal 0 is no question but an order
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _start_of(pid: int) -> str:
    """Return when a living process started, in ticks since the boot; empty if it is dead or /proc missing."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name in brackets is the process's own choice and may hold anything, brackets included.
    found = text.rpartition(")")[2].split()
    return found[_START_FIELD] if found and found[0] not in _DEAD_STATES else ""


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "boot"
