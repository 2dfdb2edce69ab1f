"""The default store of an agent process: a file that survives the process, shared by all processes of a root.

Every answer of the guard is one transaction, committed before the answer is given. A killed process loses
nothing that was committed. A power cut may lose the last moments before the file was last synchronised: a few
steps of a budget, and what reads had brought, which then are just read again. It never loses a write, since
the mark that a write is under way is synchronised before the write may start; if what came of it is lost, it
comes back as uncertain. Use a local disk: the file is shared through memory.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock, get_ident
from typing import Any
from weakref import WeakMethod, WeakValueDictionary

from guardops.guard.budgets import Budgets
from guardops.guard.owners import Owner
from guardops.guard.policy import Limits
from guardops.guard.sqlite_checkpoints import SqliteCheckpoints
from guardops.guard.sqlite_root import SqliteRoot
from guardops.guard.sqlite_schema import create, prune
from guardops.guard.stores import StoreError

BUSY_S = 0.5
RETRY_S = 5.0
"""After a failure the file is left alone for so long, so that a locked one doesn't slow every call down."""

PRUNE_EVERY = 256

_FAILURES = {
    sqlite3.SQLITE_BUSY: "store_locked",
    sqlite3.SQLITE_LOCKED: "store_locked",
    sqlite3.SQLITE_READONLY: "store_readonly",
    sqlite3.SQLITE_CORRUPT: "store_corrupt",
    sqlite3.SQLITE_NOTADB: "store_corrupt",
    sqlite3.SQLITE_FULL: "store_full",
    sqlite3.SQLITE_CANTOPEN: "store_unavailable",
    sqlite3.SQLITE_IOERR: "store_unavailable",
}

_LEFT_BEHIND: list[sqlite3.Connection] = []
"""Connections made before a fork: the child must neither use nor close them."""


class SqliteStore:
    """Keeps ledgers, budgets, calls in flight, approvals, halts, stopped runs and open checkpoints in a file.

    The file is made with mode 0600, a missing folder with 0700. A root that no run joined for ``keep_days``
    is forgotten, and so are the oldest beyond ``most_roots``. A file that can't be used raises nothing: the
    guard goes on from memory and says so (``guard_error``).
    """

    def __init__(
        self,
        path: Path | str,
        *,
        most_roots: int = 10_000,
        keep_days: float = 35.0,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self.now = now
        self._most_roots = most_roots
        self._keep_s = keep_days * 86_400
        self._clock = clock
        self._retry_at = 0.0
        self._failure = ""
        self._until_prune = 0
        self._serial = 0
        self._syncs = False
        self._closed = False
        self._holder = 0
        """The thread that holds the file."""
        self._connection: sqlite3.Connection | None = None
        self._start_afresh()
        self.checkpoints = SqliteCheckpoints(self)
        _after_fork(self._leave_behind)

    def root(self, root_task_id: str, limits: Limits) -> SqliteRoot:
        """Return the state of a root; the file is read when a run joins it."""
        with self._mutex:
            found = self._roots.get(root_task_id)
            if found is None:
                found = self._roots[root_task_id] = SqliteRoot(self, root_task_id, Budgets(limits))
            return found

    def close(self) -> None:
        """Let go of the file. What is still in flight in this process counts as left by a dead one."""
        with self._mutex:
            self._closed = True
            self.owner.close()
            self._disconnect()

    def begin(self, *, sync: bool) -> sqlite3.Connection:
        """Begin to write, keeping other threads and processes out until :meth:`commit` or :meth:`roll_back`.

        With ``sync`` the commit waits for the disk. Raises :class:`StoreError`.
        """
        if self._holder == get_ident():  # a signal came in the middle of another root's answer
            raise StoreError("store_reentered")
        self._mutex.acquire()
        self._holder = get_ident()
        try:
            if self._closed:
                raise StoreError("store_closed")
            if self._clock() < self._retry_at:
                raise StoreError(self._failure)
            connection = self._connection or self._connect()
            if sync is not self._syncs:
                connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
                self._syncs = sync
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError, StoreError) as error:
            failure = self.failed(error)
            self._let_go()
            raise failure from error
        return connection

    def commit(self) -> None:
        """Commit what was begun. Raises :class:`StoreError`, after which :meth:`roll_back` is due."""
        assert self._connection is not None
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self.failed(error) from error
        self._let_go()

    def roll_back(self) -> None:
        """Give up what was begun."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        self._let_go()

    def failed(self, error: Exception) -> StoreError:
        """Return what an error means, and leave the file alone for a while."""
        if isinstance(error, StoreError) and self._clock() < self._retry_at:
            return error
        code = getattr(error, "sqlite_errorcode", None)
        told = error.code if isinstance(error, StoreError) else "store_failed"
        if isinstance(error, OSError):
            told = "store_unavailable"
        self._failure = _FAILURES.get(code & 0xFF, told) if isinstance(code, int) else told
        self._retry_at = self._clock() + RETRY_S
        if self._failure != "store_locked":
            self._disconnect()
        return StoreError(self._failure)

    def prune_now_and_then(self, connection: sqlite3.Connection) -> None:
        """Forget what is old, once in so many runs; call inside a transaction."""
        self._until_prune -= 1
        if self._until_prune < 0:
            self._until_prune = PRUNE_EVERY
            prune(connection, self.now(), self._keep_s, self._most_roots)

    @property
    def serial(self) -> int:
        """Another number for every connection, since what one has seen says nothing to the next."""
        return self._serial

    def _connect(self) -> sqlite3.Connection:
        _make_place(self.path)
        connection = sqlite3.connect(
            self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            create(connection)
        except BaseException:
            connection.close()
            raise
        self._serial += 1
        self._syncs = False
        self._connection = connection
        return connection

    def _let_go(self) -> None:
        self._holder = 0
        self._mutex.release()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _start_afresh(self) -> None:
        self._mutex = Lock()
        self._holder = 0
        self._roots: WeakValueDictionary[str, SqliteRoot] = WeakValueDictionary()
        self._connection = None
        self.owner = Owner()

    def _leave_behind(self) -> None:
        """In a forked child: another owner, another connection, and no lock that a thread left locked."""
        if self._connection is not None:
            _LEFT_BEHIND.append(self._connection)
        self._start_afresh()


def _make_place(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return
    if mode & 0o077:  # not by a descriptor: closing one would drop the locks of every connection to the file
        with contextlib.suppress(PermissionError):
            path.chmod(0o600)


def _after_fork(method: Callable[[], Any]) -> None:
    """Call a bound method in every child that is forked while its object lives."""
    if hasattr(os, "register_at_fork"):
        reference = WeakMethod(method)

        def call() -> None:
            if (found := reference()) is not None:
                found()

        os.register_at_fork(after_in_child=call)
