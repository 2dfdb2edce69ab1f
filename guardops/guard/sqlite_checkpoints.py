"""Open checkpoints in the guard's file: they outlive the process, and one process at most carries each out.

A holder is named by its process (see :mod:`guardops.guard.owners`) and a tag of its own, so that what a dead
process had in hand is free again. What the file could not take is kept in memory, for this process alone.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from guardops.guard.kept_checkpoints import KEEP, MemoryCheckpoints, OpenCheckpoint, Taken, decode, encode
from guardops.guard.owners import is_alive
from guardops.guard.sqlite_root import SqliteRoot
from guardops.guard.stores import RootState, StoreError

if TYPE_CHECKING:
    from guardops.guard.sqlite import SqliteStore

_MOST = 10_000

_ADD = "INSERT OR REPLACE INTO checkpoint (checkpoint_id, kept_until, body) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM checkpoint WHERE checkpoint_id = ?"

_log = logging.getLogger("guardops.guard")


class SqliteCheckpoints:
    """The open checkpoints of one file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._memory = MemoryCheckpoints()

    def add(self, one: OpenCheckpoint, root: RootState) -> None:
        """Keep a new one, with what else is changed of its root at the same time."""
        row = (str(one.checkpoint_id), (one.expires_at + KEEP).timestamp(), encode(one))
        connection = root.connection if isinstance(root, SqliteRoot) else None
        try:
            if connection is not None:
                connection.execute(_ADD, row)
            else:
                with self._transaction() as own:
                    own.execute(_ADD, row)
        except (sqlite3.Error, StoreError) as error:
            _log.warning("A checkpoint is kept in memory alone (%s): a restart forgets it.", error)
            self._memory.add(one, root)

    def confirm(self, one: OpenCheckpoint, root: RootState) -> None:
        """Keep a new one in memory where that answer of the root could not be committed."""
        if self.get(one.checkpoint_id) is None:
            _log.warning("A checkpoint is kept in memory alone: a restart forgets it.")
            self._memory.add(one, root)

    def get(self, checkpoint_id: UUID) -> OpenCheckpoint | None:
        """Return one of them."""
        if (found := self._memory.get(checkpoint_id)) is not None:
            return found
        return next((one for _, one in self._read("WHERE checkpoint_id = ?", str(checkpoint_id))), None)

    def waiting(self) -> list[OpenCheckpoint]:
        """Return those that nobody carries out at the moment, oldest first."""
        found = [one for owner, one in self._read(f"LIMIT {_MOST}") if not owner or not is_alive(owner)]
        return sorted([*found, *self._memory.waiting()], key=lambda one: one.opened_at)

    def take(self, checkpoint_id: UUID, tag: str) -> OpenCheckpoint | None:
        """Take one in hand and return it as it is now; None where it is there no more.

        Raises :class:`Taken` and :class:`StoreError`.
        """
        if checkpoint_id in self._memory:
            return self._memory.take(checkpoint_id, tag)
        name, key = self._name(tag), str(checkpoint_id)
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT owner, body FROM checkpoint WHERE checkpoint_id = ?", (key,)
            ).fetchone()
            if found is None:
                return None
            if found[0] not in (None, name) and is_alive(found[0]):
                raise Taken
            connection.execute("UPDATE checkpoint SET owner = ? WHERE checkpoint_id = ?", (name, key))
        return decode(found[1])

    def save(self, one: OpenCheckpoint, tag: str) -> None:
        """Write what has changed of one that is in hand. Raises :class:`StoreError`."""
        if one.checkpoint_id in self._memory:
            return self._memory.save(one, tag)
        with self._transaction() as connection:
            connection.execute(
                "UPDATE checkpoint SET body = ? WHERE checkpoint_id = ? AND owner = ?",
                (encode(one), str(one.checkpoint_id), self._name(tag)),
            )
        return None

    def give_back(self, checkpoint_id: UUID, tag: str) -> None:
        """Let others have one that was in hand; where that fails, it is free when this process ends."""
        self._memory.give_back(checkpoint_id, tag)
        try:
            with self._transaction() as connection:
                connection.execute(
                    "UPDATE checkpoint SET owner = NULL WHERE checkpoint_id = ? AND owner = ?",
                    (str(checkpoint_id), self._name(tag)),
                )
        except StoreError as error:
            _log.warning("A checkpoint could not be given back (%s).", error)

    def remove(self, checkpoint_id: UUID, root: RootState | None = None) -> None:
        """Forget one that is over, with what else is changed of its root."""
        self._memory.remove(checkpoint_id)
        connection = root.connection if isinstance(root, SqliteRoot) else None
        try:
            if connection is not None:
                connection.execute(_REMOVE, (str(checkpoint_id),))
            else:
                with self._transaction() as own:
                    own.execute(_REMOVE, (str(checkpoint_id),))
        except (sqlite3.Error, StoreError) as error:
            _log.warning("A checkpoint that is over could not be forgotten (%s).", error)

    def _read(self, condition: str, *values: str) -> Iterator[tuple[str | None, OpenCheckpoint]]:
        try:
            with self._transaction(sync=False) as connection:
                rows = connection.execute(
                    f"SELECT owner, body FROM checkpoint {condition}", values
                ).fetchall()
        except StoreError as error:
            _log.warning("Open checkpoints can't be read (%s).", error)
            return
        for owner, body in rows:
            try:
                yield owner, decode(body)
            except msgspec.MsgspecError:  # another version's
                _log.warning("An open checkpoint of another version is left alone.")

    @contextmanager
    def _transaction(self, *, sync: bool = True) -> Iterator[sqlite3.Connection]:
        """Write to the file; what is written is on the disk afterwards. Raises :class:`StoreError`."""
        connection = self._store.begin(sync=sync)
        try:
            yield connection
            self._store.commit()
        except BaseException as error:
            self._store.roll_back()
            if isinstance(error, sqlite3.Error):
                raise self._store.failed(error) from error
            raise

    def _name(self, tag: str) -> str:
        return f"{self._store.owner.name}:{tag}"
