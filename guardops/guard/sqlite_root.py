"""One root in the guard's file: what the runs of all its processes share.

In memory stands what the file said last, and on top what this process has changed since. Every answer begins
with what others have committed and ends with its own changes committed, under the file's write lock. What
could not be committed stays on top and is committed with the next answer that can be.
"""

from __future__ import annotations

import sqlite3
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from guardops.guard.budgets import KINDS, Budgets
from guardops.guard.owners import is_alive
from guardops.guard.policy import Limits
from guardops.guard.run_memory import Held
from guardops.guard.state import RunIdentity
from guardops.guard.stores import Left, Mark, RootState, StoreError

if TYPE_CHECKING:
    from guardops.guard.sqlite import SqliteStore

_CHARGED = ("steps", "turns", "tokens", "cost")
"""What a dead owner had reserved of these counts as spent; places for children become free again."""

_MARK = "INSERT OR REPLACE INTO mark (root_task_id, kind, name, value) VALUES (?, ?, ?, ?)"
_UNMARK = "DELETE FROM mark WHERE root_task_id = ? AND kind = ? AND name = ?"
# A reservation is this one update: granted where it changes a row.
_RESERVE = (
    "UPDATE budget SET settled = settled + ?1, reserved = reserved + ?2 "
    "WHERE root_task_id = ?3 AND kind = ?4 AND settled + reserved + ?1 + ?2 <= most"
)
_SETTLE = (
    "UPDATE budget SET settled = settled + ?1, reserved = reserved + ?2 WHERE root_task_id = ?3 AND kind = ?4"
)
_KEEP_RUN = (
    "UPDATE run SET touched_at = ?, steps = ?, turns = ?, tokens = ?, cost = ?, children = ?, memory = ? "
    "WHERE run_id = ? AND owner = ?"
)


_KEEP_ROW = "INSERT OR REPLACE INTO ledger (run_id, fingerprint, line) VALUES (?, ?, ?)"


class Kept(Enum):
    """What became of an answer's changes."""

    YES = "yes"
    NO = "no"
    """The file can't be used at the moment."""
    TAKEN_OVER = "taken over"
    """The run was started again elsewhere; whoever asks here is a leftover."""


class KeptRun(Struct):
    """A run as it is written: what it holds, what it knows, and the ledger rows that changed, packed."""

    who: RunIdentity
    tag: str
    held: Held
    memory: bytes
    rows: list[tuple[str, bytes]]


class SqliteRoot(RootState):
    """A root that outlives the process. Hold ``lock``; between begin and the end, other processes wait."""

    durable: ClassVar[bool] = True

    def __init__(self, store: SqliteStore, root_task_id: str, budgets: Budgets) -> None:
        super().__init__(root_task_id, budgets)
        self._store = store
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None
        self._filed: dict[str, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))
        """What the file says is settled and reserved."""
        self._marks: dict[tuple[Mark, str], str | int | None] = {}
        self._stops: dict[str, bool] = {}
        self._others: list[tuple[str, str]] = []
        """Runs of other owners that have not ended, with their owner."""
        self._behind = False
        """Whether changes of earlier answers wait for the file."""
        self.fault: StoreError | None = None
        """Why the file could not be used last, None where it could."""

    @property
    def is_open(self) -> bool:
        """Whether the file is held, between :meth:`begin` and the end of an answer."""
        return self._connection is not None

    # -- the frame of every answer -----------------------------------------------------------------------

    def begin(self, *, sync: bool) -> None:
        """Take the file's write lock and read what others have changed; see ``fault`` where that fails."""
        try:
            self._connection = self._store.begin(sync=sync)
        except StoreError as fault:
            self.fault = fault
            return
        try:
            self._read_news()
        except (sqlite3.Error, StoreError) as error:
            self._abandon(error)

    def commit(self, run: KeptRun | None) -> Kept:
        """Commit a run and what this process has changed of its root; what fails is kept for later."""
        if self._connection is None:
            self._behind = True
            return Kept.NO
        try:
            if run is not None and not self._write_run(run):
                self.roll_back()
                return Kept.TAKEN_OVER
            filed = self._write_budgets()
            self._write_marks()
            self._store.commit()
        except (sqlite3.Error, StoreError) as error:
            self._behind = True
            self._abandon(error)
            return Kept.NO
        self._connection = None
        self._filed = filed
        self._marks.clear()
        self._stops.clear()
        self._behind = False
        self.fault = None
        return Kept.YES

    def roll_back(self) -> None:
        """Let go of the file without a commit."""
        self._connection = None
        self._seen = None
        self._store.roll_back()

    def _abandon(self, error: Exception) -> None:
        """Go on from memory, after an error that :attr:`fault` tells of."""
        self.fault = self._store.failed(error)
        self.roll_back()

    # -- runs --------------------------------------------------------------------------------------------

    def join(self, run_id: str, limits: Limits) -> Budgets:
        """Return a run's budgets; see the base class. The first run, started again, brings its own limits."""
        budgets = super().join(run_id, limits)
        if budgets is self.budgets:
            for kind, budget in Budgets(limits).by_kind.items():
                budgets.by_kind[kind].limit = budget.limit
        if self._connection is not None:
            try:
                self._write_joined(self._connection)
            except sqlite3.Error as error:
                self._abandon(error)
        return budgets

    def enlist(self, who: RunIdentity, tag: str, *, resumed: bool) -> Left | None:
        """Enter a run that starts, and return what an earlier process left of it.

        That is the run of the same id, whatever became of its process; else a run that a dead process left
        behind at the same work, or, with a resume grant, one that was stopped at it.
        """
        try:
            return self._enlist(who, tag, resumed=resumed)
        except sqlite3.Error as error:
            self._abandon(error)
            return None

    def _enlist(self, who: RunIdentity, tag: str, *, resumed: bool) -> Left | None:
        assert self._connection is not None
        run_id = str(who.run_id)
        found = self._recall(run_id) or self._recall_other(who, resumed=resumed)
        self._enter(self._connection, who, tag)
        return found

    def _enter(self, connection: sqlite3.Connection, who: RunIdentity, tag: str) -> None:
        owner, sub = f"{self._store.owner.name}:{tag}", who.parent_run_id is not None
        connection.execute(
            "INSERT OR REPLACE INTO run (run_id, root_task_id, job_type, agent, is_sub, owner, touched_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (str(who.run_id), self.root_task_id, who.job_type, who.agent, sub, owner, self._store.now()),
        )

    def dismiss(self, run_id: str, tag: str, *, stopped: bool) -> None:
        """Note that a run has ended; what it knew is kept where it was stopped and may be resumed."""
        if (connection := self._connection) is None:
            return
        mine = (run_id, f"{self._store.owner.name}:{tag}")
        try:
            if stopped:
                connection.execute(
                    "UPDATE run SET owner = NULL, ended = 1 WHERE run_id = ? AND owner = ?", mine
                )
            elif connection.execute("DELETE FROM run WHERE run_id = ? AND owner = ?", mine).rowcount:
                connection.execute("DELETE FROM ledger WHERE run_id = ?", (run_id,))
        except sqlite3.Error as error:
            self._abandon(error)

    def stop_run(self, run_id: str) -> None:
        """Note that a run was stopped, so that its id is not started again without a grant."""
        super().stop_run(run_id)
        self._stops[run_id] = True

    def was_stopped(self, run_id: str) -> bool:
        """Say whether a run of this id was stopped, in any process and under any root."""
        if run_id not in self._stops and self._connection is not None:
            try:
                found = self._connection.execute("SELECT 1 FROM stopped_run WHERE run_id = ?", (run_id,))
                return found.fetchone() is not None
            except sqlite3.Error as error:
                self._abandon(error)
        return super().was_stopped(run_id)

    def resume(self, run_id: str) -> None:
        """Use a resume grant: the root may go on, and so may this run."""
        super().resume(run_id)
        self._stops[run_id] = False

    def _changed(self, kind: Mark, name: str, value: str | int | None) -> None:
        self._marks[kind, name] = value

    # -- reading -----------------------------------------------------------------------------------------

    def _read_news(self) -> None:
        connection = self._connection
        assert connection is not None
        # Counts the commits of all other connections: one cheap look says whether there is anything to read.
        version = (self._store.serial, connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._seen:
            self._read_all(connection)
            self._seen = version
        dead = [run_id for run_id, owner in self._others if not is_alive(owner)]
        if dead:
            for run_id in dead:
                self._take_back(run_id)
            self._read_all(connection)

    def _read_all(self, connection: sqlite3.Connection) -> None:
        here = (self.root_task_id,)
        found = connection.execute("SELECT first_run FROM root WHERE root_task_id = ?", here).fetchone()
        if found is None:
            self._make(connection)
        elif found[0] is not None:
            self.first_run = found[0]
        for kind, most, settled, reserved in connection.execute(
            "SELECT kind, most, settled, reserved FROM budget WHERE root_task_id = ?", here
        ):
            budget, filed = self.budgets.by_kind[kind], self._filed[kind]
            budget.limit = most
            budget.settled += settled - filed[0]
            budget.reserved += reserved - filed[1]
            self._filed[kind] = (settled, reserved)
        self._read_marks(connection)
        mine = f"{self._store.owner.name}:"
        self._others = [
            (run_id, owner)
            for run_id, owner in connection.execute(
                "SELECT run_id, owner FROM run WHERE root_task_id = ? AND owner IS NOT NULL", here
            )
            if not owner.startswith(mine)
        ]

    def _make(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO root (root_task_id, first_run, joined_at) VALUES (?, ?, ?)",
            (self.root_task_id, self.first_run, self._store.now()),
        )
        connection.executemany(
            "INSERT INTO budget (root_task_id, kind, most) VALUES (?, ?, ?)",
            [(self.root_task_id, kind, budget.limit) for kind, budget in self.budgets.by_kind.items()],
        )
        self._filed = dict.fromkeys(KINDS, (0, 0))

    def _read_marks(self, connection: sqlite3.Connection) -> None:
        marks: dict[tuple[Mark, str], str | int | None] = {
            (Mark(kind), name): value
            for kind, name, value in connection.execute(
                "SELECT kind, name, value FROM mark WHERE root_task_id = ?", (self.root_task_id,)
            )
        }
        marks |= self._marks
        by_kind: dict[Mark, dict[str, str | int]] = {kind: {} for kind in Mark}
        for (kind, name), value in marks.items():
            if value is not None:
                by_kind[kind][name] = value
        self.done = set(by_kind[Mark.DONE])
        self.uncertain = set(by_kind[Mark.UNCERTAIN])
        self.quarantined = set(by_kind[Mark.QUARANTINED])
        self.in_flight = {name: str(run_id) for name, run_id in by_kind[Mark.IN_FLIGHT].items()}
        self.approvals = {name: int(uses) for name, uses in by_kind[Mark.APPROVED].items()}
        self.nudged = bool(by_kind[Mark.NUDGED])
        halted = by_kind[Mark.HALTED].get("")
        self.halted = None if halted is None else str(halted)

    def _recall(self, run_id: str) -> Left | None:
        """Return what is known of this very run; an earlier start of it loses what it still holds."""
        assert self._connection is not None
        found = self._connection.execute("SELECT ended FROM run WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            return None
        self._take_back(run_id)
        self._read_all(self._connection)
        return self._load(run_id, same_run=not found[0])

    def _recall_other(self, who: RunIdentity, *, resumed: bool) -> Left | None:
        assert self._connection is not None
        found = self._connection.execute(
            "SELECT run_id FROM run WHERE root_task_id = ? AND job_type = ? AND agent = ? AND is_sub = ? "
            "AND owner IS NULL AND (ended = 0 OR ?) ORDER BY touched_at DESC LIMIT 1",
            (self.root_task_id, who.job_type, who.agent, who.parent_run_id is not None, resumed),
        ).fetchone()
        if found is None:
            return None
        left = self._load(found[0], same_run=False)
        self._connection.execute("UPDATE ledger SET run_id = ? WHERE run_id = ?", (str(who.run_id), found[0]))
        self._connection.execute("DELETE FROM run WHERE run_id = ?", found)
        return left

    def _load(self, run_id: str, *, same_run: bool) -> Left | None:
        assert self._connection is not None
        memory = self._connection.execute("SELECT memory FROM run WHERE run_id = ?", (run_id,)).fetchone()[0]
        lines = self._connection.execute("SELECT line FROM ledger WHERE run_id = ?", (run_id,)).fetchall()
        return None if memory is None else Left(memory, [line for (line,) in lines], same_run)

    # -- writing -----------------------------------------------------------------------------------------

    def _write_joined(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE root SET first_run = ?, joined_at = ? WHERE root_task_id = ?",
            (self.first_run, self._store.now(), self.root_task_id),
        )
        connection.executemany(
            "UPDATE budget SET most = ? WHERE root_task_id = ? AND kind = ?",
            [(budget.limit, self.root_task_id, kind) for kind, budget in self.budgets.by_kind.items()],
        )
        self._store.prune_now_and_then(connection)

    def _write_run(self, run: KeptRun) -> bool:
        """Write a run and the ledger rows that changed; False where another start has taken it over."""
        connection, held, run_id = self._connection, run.held, str(run.who.run_id)
        assert connection is not None
        amounts = (held.steps, held.turns, held.tokens, held.cost, held.children)
        owner = f"{self._store.owner.name}:{run.tag}"
        values = (self._store.now(), *amounts, run.memory, run_id, owner)
        if connection.execute(_KEEP_RUN, values).rowcount != 1:
            if connection.execute("SELECT 1 FROM run WHERE run_id = ?", (run_id,)).fetchone():
                return False
            self._enter(connection, run.who, run.tag)  # the file is another than it was
            connection.execute(_KEEP_RUN, values)
        for fingerprint, line in run.rows:
            connection.execute(_KEEP_ROW, (run_id, fingerprint, line))
        return True

    def _take_back(self, run_id: str) -> None:
        """Charge what a run held whose process is gone; the writes it had under way have become uncertain."""
        connection = self._connection
        assert connection is not None
        held = connection.execute(
            "SELECT steps, turns, tokens, cost, children FROM run WHERE run_id = ?", (run_id,)
        ).fetchone()
        for kind, amount in zip((*_CHARGED, "children"), held, strict=True):
            if amount:
                charged = amount if kind in _CHARGED else 0
                connection.execute(_SETTLE, (charged, -amount, self.root_task_id, kind))
        connection.execute(
            "UPDATE OR REPLACE mark SET kind = ?, value = 1 "
            "WHERE root_task_id = ? AND kind = ? AND value = ?",
            (Mark.UNCERTAIN.value, self.root_task_id, Mark.IN_FLIGHT.value, run_id),
        )
        connection.execute(
            "UPDATE run SET owner = NULL, steps = 0, turns = 0, tokens = 0, cost = 0, children = 0 "
            "WHERE run_id = ?",
            (run_id,),
        )

    def _write_budgets(self) -> dict[str, tuple[int, int]]:
        """Write what was spent and reserved, and return what the file says then."""
        connection = self._connection
        assert connection is not None
        filed = dict(self._filed)
        for kind, budget in self.budgets.by_kind.items():
            settled, reserved = budget.settled - filed[kind][0], budget.reserved - filed[kind][1]
            if settled or reserved:
                # What was spent without the file is a fact, and what is settled was reserved before.
                statement = _RESERVE if reserved > 0 and not self._behind else _SETTLE
                done = connection.execute(statement, (settled, reserved, self.root_task_id, kind))
                if done.rowcount != 1:
                    raise StoreError("store_overdrawn")
                filed[kind] = (budget.settled, budget.reserved)
        return filed

    def _write_marks(self) -> None:
        connection = self._connection
        assert connection is not None
        for (kind, name), value in self._marks.items():
            if value is None:
                connection.execute(_UNMARK, (self.root_task_id, kind.value, name))
            else:
                connection.execute(_MARK, (self.root_task_id, kind.value, name, value))
        for run_id, stopped in self._stops.items():
            if stopped:
                connection.execute(
                    "INSERT OR REPLACE INTO stopped_run VALUES (?, ?)", (run_id, self._store.now())
                )
            else:
                connection.execute("DELETE FROM stopped_run WHERE run_id = ?", (run_id,))
