"""The tables of the guard's file: made where they are missing, kept within bounds.

``budget`` has one row a root and kind; ``mark`` holds what is remembered of a root by name; ``run`` one row a
run that has not ended (or was stopped and may be resumed), with its owner and what it holds; ``ledger`` its
rows; ``stopped_run`` the ids that start again only with a grant, kept longer than their roots; ``checkpoint``
the runs that wait for a person, or whose next attempt is at work, with who carries out what was decided.
"""

from __future__ import annotations

import sqlite3

from guardops.guard.stores import StoreError

VERSION = 2
MOST_STOPPED = 100_000
KEEP_STOPPED_S = 400 * 86_400
PRUNE_AT_ONCE = 500

_TABLES = (
    """CREATE TABLE root (
        root_task_id TEXT PRIMARY KEY, first_run TEXT, joined_at REAL NOT NULL
    ) WITHOUT ROWID""",
    # pruning takes the oldest
    "CREATE INDEX root_by_age ON root (joined_at)",
    """CREATE TABLE budget (
        root_task_id TEXT NOT NULL, kind TEXT NOT NULL, most INTEGER NOT NULL,
        settled INTEGER NOT NULL DEFAULT 0, reserved INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (root_task_id, kind)
    ) WITHOUT ROWID""",
    """CREATE TABLE mark (
        root_task_id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value NOT NULL,
        PRIMARY KEY (root_task_id, kind, name)
    ) WITHOUT ROWID""",
    """CREATE TABLE run (
        run_id TEXT PRIMARY KEY, root_task_id TEXT NOT NULL, job_type TEXT NOT NULL, agent TEXT NOT NULL,
        is_sub INTEGER NOT NULL, owner TEXT, ended INTEGER NOT NULL DEFAULT 0, touched_at REAL NOT NULL,
        steps INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0,
        tokens INTEGER NOT NULL DEFAULT 0, cost INTEGER NOT NULL DEFAULT 0,
        children INTEGER NOT NULL DEFAULT 0, memory BLOB
    )""",
    # who else is at work on a root, and what the dead have left
    "CREATE INDEX run_of_root ON run (root_task_id)",
    """CREATE TABLE ledger (
        run_id TEXT NOT NULL, fingerprint TEXT NOT NULL, line BLOB NOT NULL,
        PRIMARY KEY (run_id, fingerprint)
    ) WITHOUT ROWID""",
    "CREATE TABLE stopped_run (run_id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID",
    # pruning takes the oldest
    "CREATE INDEX stopped_run_by_age ON stopped_run (at)",
)
_TABLES_OF_2 = (
    """CREATE TABLE checkpoint (
        checkpoint_id TEXT PRIMARY KEY, owner TEXT, kept_until REAL NOT NULL, body BLOB NOT NULL
    ) WITHOUT ROWID""",
)
_STEPS = (_TABLES, _TABLES_OF_2)
"""What brings a file from each version to the next."""


def create(connection: sqlite3.Connection) -> None:
    """Make a connection ready, and the tables that the file lacks.

    Raises :class:`StoreError` for a file that a newer guard or another program has made.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    # Seldom, since moving the log into the file waits for the disk, in the middle of some answer.
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.execute("PRAGMA journal_size_limit=16777216")
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection)
        if found == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError("store_foreign")
        if not 0 <= found <= VERSION:
            raise StoreError("store_newer")
        for statements in _STEPS[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def prune(connection: sqlite3.Connection, now: float, keep_s: float, most_roots: int) -> None:
    """Forget roots that no run joined for ``keep_s`` seconds and the oldest beyond ``most_roots``.

    At most 500 at a time, so that no call waits long. Ids of stopped runs are kept for 400 days.
    """
    old = connection.execute(
        "SELECT root_task_id FROM root WHERE joined_at < ? UNION SELECT root_task_id FROM "
        "(SELECT root_task_id FROM root ORDER BY joined_at DESC LIMIT -1 OFFSET ?) LIMIT ?",
        (now - keep_s, most_roots, PRUNE_AT_ONCE),
    ).fetchall()
    connection.executemany(
        "DELETE FROM ledger WHERE run_id IN (SELECT run_id FROM run WHERE root_task_id = ?)", old
    )
    for table in ("run", "mark", "budget", "root"):
        connection.executemany(f"DELETE FROM {table} WHERE root_task_id = ?", old)
    connection.execute("DELETE FROM checkpoint WHERE kept_until < ?", (now,))
    connection.execute(
        "DELETE FROM stopped_run WHERE run_id IN (SELECT run_id FROM stopped_run WHERE at < ? UNION "
        "SELECT run_id FROM (SELECT run_id FROM stopped_run ORDER BY at DESC LIMIT -1 OFFSET ?) LIMIT ?)",
        (now - KEEP_STOPPED_S, MOST_STOPPED, PRUNE_AT_ONCE),
    )


def _version(connection: sqlite3.Connection) -> int:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    return int(found)
