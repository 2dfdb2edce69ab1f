"""One `up` at a time in a state folder: the kernel drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guardops.local import state
from guardops.local.errors import LocalError


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the state folder's lock, or say who does."""
    with open(os.open(state.private_folder(home) / "up.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "another process"
            raise LocalError(_refusal(home, holder)) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _refusal(home: Path, holder: str) -> str:
    running = state.running(home)
    where = f"; its dashboard is {running.web_url}" if running else ""
    return f"GuardOps already runs here (process {holder}, state in {home}){where}. Stop that one first."
