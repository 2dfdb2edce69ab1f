"""The runs of one root in the guard's file: who is at work, what each holds and knows, what the dead left."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from msgspec import Struct

from guardops.guard.run_memory import Held
from guardops.guard.state import RunIdentity
from guardops.guard.stores import Left, Mark

_CHARGED = ("steps", "turns", "tokens", "cost")
"""What a dead owner had reserved of these counts as spent; places for children become free again."""

_GIVE_BACK = (
    "UPDATE budget SET settled = settled + ?, reserved = reserved - ? WHERE root_task_id = ? AND kind = ?"
)
_KEEP_RUN = (
    "UPDATE run SET touched_at = ?, steps = ?, turns = ?, tokens = ?, cost = ?, children = ?, memory = ? "
    "WHERE run_id = ? AND owner = ?"
)
_KEEP_ROW = "INSERT OR REPLACE INTO ledger (run_id, fingerprint, line) VALUES (?, ?, ?)"


class KeptRun(Struct):
    """A run as it is written: what it holds, what it knows, and the ledger rows that changed, packed.

    ``tag`` tells this start of the run from any other.
    """

    who: RunIdentity
    tag: str
    held: Held
    memory: bytes
    rows: list[tuple[str, bytes]]


class RunTable:
    """The runs of one root, within one transaction. Raises :class:`sqlite3.Error`."""

    __slots__ = ("_connection", "_now", "_owner", "_root_task_id")

    def __init__(
        self, connection: sqlite3.Connection, root_task_id: str, owner: str, now: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._root_task_id = root_task_id
        self._owner = owner
        self._now = now

    def of_others(self) -> list[tuple[str, str]]:
        """Return the runs that have not ended and belong to other owners, with the owner's name."""
        rows = self._connection.execute(
            "SELECT run_id, owner FROM run WHERE root_task_id = ? AND owner IS NOT NULL",
            (self._root_task_id,),
        )
        owners = ((run_id, owner.rpartition(":")[0]) for run_id, owner in rows)  # without the tag
        return [(run_id, owner) for run_id, owner in owners if owner != self._owner]

    def enter(self, who: RunIdentity, tag: str) -> None:
        """Enter a run that starts, in place of any earlier start of it."""
        self._connection.execute(
            "INSERT OR REPLACE INTO run (run_id, root_task_id, job_type, agent, is_sub, owner, touched_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                str(who.run_id),
                self._root_task_id,
                who.job_type,
                who.agent,
                who.parent_run_id is not None,
                self._owned(tag),
                self._now(),
            ),
        )

    def recall(self, run_id: str) -> Left | None:
        """Return what is known of this very run; an earlier start of it loses what it still holds."""
        found = self._connection.execute(
            "SELECT ended FROM run WHERE run_id = ? AND root_task_id = ?", (run_id, self._root_task_id)
        ).fetchone()
        if found is None:
            return None
        self.take_back(run_id)
        return self._load(run_id, same_run=not found[0])

    def recall_other(self, who: RunIdentity, *, resumed: bool) -> Left | None:
        """Return what a run left that a dead process had at the same work, and give it to this one.

        With a resume grant, a run that was stopped at this work will do, too.
        """
        found = self._connection.execute(
            "SELECT run_id FROM run WHERE root_task_id = ? AND job_type = ? AND agent = ? AND is_sub = ? "
            "AND owner IS NULL AND (ended = 0 OR ?) ORDER BY touched_at DESC LIMIT 1",
            (self._root_task_id, who.job_type, who.agent, who.parent_run_id is not None, resumed),
        ).fetchone()
        if found is None:
            return None
        left = self._load(found[0], same_run=False)
        self._connection.execute("UPDATE ledger SET run_id = ? WHERE run_id = ?", (str(who.run_id), found[0]))
        self._connection.execute("DELETE FROM run WHERE run_id = ?", found)
        return left

    def write(self, run: KeptRun) -> bool:
        """Write a run and the ledger rows that changed; False where another start has taken it over."""
        held, run_id = run.held, str(run.who.run_id)
        amounts = (held.steps, held.turns, held.tokens, held.cost, held.children)
        values = (self._now(), *amounts, run.memory, run_id, self._owned(run.tag))
        if self._connection.execute(_KEEP_RUN, values).rowcount != 1:
            if self._connection.execute("SELECT 1 FROM run WHERE run_id = ?", (run_id,)).fetchone():
                return False
            self.enter(run.who, run.tag)  # the file is another than it was
            self._connection.execute(_KEEP_RUN, values)
        for fingerprint, line in run.rows:
            self._connection.execute(_KEEP_ROW, (run_id, fingerprint, line))
        return True

    def dismiss(self, run_id: str, tag: str, *, stopped: bool) -> None:
        """Note that a run has ended; what it knew is kept where it was stopped and may be resumed."""
        mine = (run_id, self._owned(tag))
        if stopped:
            self._connection.execute(
                "UPDATE run SET owner = NULL, ended = 1 WHERE run_id = ? AND owner = ?", mine
            )
        elif self._connection.execute("DELETE FROM run WHERE run_id = ? AND owner = ?", mine).rowcount:
            self._connection.execute("DELETE FROM ledger WHERE run_id = ?", (run_id,))

    def take_back(self, run_id: str) -> None:
        """Charge what a run held whose process is gone; the writes it had under way have become uncertain."""
        held = self._connection.execute(
            "SELECT steps, turns, tokens, cost, children FROM run WHERE run_id = ?", (run_id,)
        ).fetchone()
        for kind, amount in zip((*_CHARGED, "children"), held, strict=True):
            if amount:
                charged = amount if kind in _CHARGED else 0
                self._connection.execute(_GIVE_BACK, (charged, amount, self._root_task_id, kind))
        self._connection.execute(
            "UPDATE OR REPLACE mark SET kind = ?, value = 1 "
            "WHERE root_task_id = ? AND kind = ? AND value = ?",
            (Mark.UNCERTAIN.value, self._root_task_id, Mark.IN_FLIGHT.value, run_id),
        )
        self._connection.execute(
            "UPDATE run SET owner = NULL, steps = 0, turns = 0, tokens = 0, cost = 0, children = 0 "
            "WHERE run_id = ?",
            (run_id,),
        )

    def _load(self, run_id: str, *, same_run: bool) -> Left | None:
        memory = self._connection.execute("SELECT memory FROM run WHERE run_id = ?", (run_id,)).fetchone()[0]
        lines = self._connection.execute("SELECT line FROM ledger WHERE run_id = ?", (run_id,)).fetchall()
        return None if memory is None else Left(memory, [line for (line,) in lines], same_run)

    def _owned(self, tag: str) -> str:
        return f"{self._owner}:{tag}"
