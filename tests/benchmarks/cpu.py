"""CPU seconds of processes, from /proc; ended children count where their parent has waited for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")


class _Stat(NamedTuple):
    parent: int
    own: float
    children: float  # ended and waited for


def cpu_seconds(*pids: int) -> float:
    """Return what these processes have used."""
    return sum(stat.own for pid in pids if (stat := _stat(pid)))


def tree_seconds(root: int) -> float:
    """Return what a process and its children, alive or ended, have used."""
    found = {int(path.name): _stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    total = 0.0
    for pid, stat in found.items():
        if stat and pid == root:
            total += stat.own + stat.children
        elif stat and stat.parent == root:
            total += stat.own
    return total


def parent_of(pid: int) -> int:
    stat = _stat(pid)
    return stat.parent if stat else 0


def _stat(pid: int) -> _Stat | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    utime, stime, cutime, cstime = (int(value) / _TICK for value in fields[11:15])
    return _Stat(int(fields[1]), utime + stime, cutime + cstime)
