"""One root in the guard's file: what the runs of all its processes share.

In memory stands what the file said last, and on top what this process has changed since. Every answer begins
with what others have committed and ends with its own changes committed, under the file's write lock. What
could not be committed stays on top and is committed with the next answer that can be.
"""

from __future__ import annotations

import sqlite3
from enum import Enum
from typing import TYPE_CHECKING

from guardops.guard.budgets import KINDS, Budgets
from guardops.guard.owners import is_alive
from guardops.guard.policy import Limits
from guardops.guard.sqlite_runs import KeptRun, RunTable
from guardops.guard.state import RunIdentity
from guardops.guard.stores import Left, Mark, RootState, StoreError

if TYPE_CHECKING:
    from guardops.guard.sqlite import SqliteStore

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


class Recall(Enum):
    """What a run that starts may take up beside what an earlier process of itself has left."""

    ITSELF = "itself"
    """Nothing else."""
    DEAD = "dead"
    """What a dead process left at the same work."""
    STOPPED = "stopped"
    """That, or a run that was stopped at it: the run starts with a resume grant."""


class Kept(Enum):
    """What became of an answer's changes."""

    YES = "yes"
    NO = "no"
    """The file can't be used at the moment."""
    TAKEN_OVER = "taken over"
    """The run was started again elsewhere; whoever asks here is a leftover."""


class SqliteRoot(RootState):
    """A root that outlives the process. Hold ``lock``; between begin and the end, other processes wait."""

    def __init__(self, store: SqliteStore, root_task_id: str, budgets: Budgets) -> None:
        super().__init__(root_task_id, budgets)
        self._store = store
        self._connection: sqlite3.Connection | None = None
        self._runs: RunTable | None = None
        self._seen: tuple[int, int] | None = None
        self._filed: dict[str, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))
        """What the file says is settled and reserved."""
        self._marks: dict[tuple[Mark, str], str | int | None] = {}
        self._stops: dict[str, bool] = {}
        self._others: list[tuple[str, str]] = []
        """Runs of other owners that have not ended, with their owner."""
        self._behind = False
        """Whether changes of earlier answers wait for the file."""
        self._inner = 0
        """Answers inside the answer that holds the file."""
        self._lowered: Limits | None = None
        """Lower limits that the file does not know of."""
        self._raised: dict[str, int] = {}
        """Grants that the file does not know of, by kind of budget."""
        self.fault: StoreError | None = None
        """Why the file could not be used last, None where it could."""

    @property
    def is_open(self) -> bool:
        """Whether the file is held, between :meth:`begin` and the end of an answer."""
        return self._connection is not None

    @property
    def connection(self) -> sqlite3.Connection | None:
        """What an answer under way writes with; None where the file is not held."""
        return self._connection

    # -- the frame of every answer -----------------------------------------------------------------------

    def begin(self, *, sync: bool) -> None:
        """Take the file's write lock and read what others have changed; see ``fault`` where that fails.

        Called again inside an answer, by a signal's handler, it joins that answer.
        """
        if self._connection is not None:
            self._inner += 1
            return
        try:
            connection = self._connection = self._store.begin(sync=sync)
        except StoreError as fault:
            self.fault = fault
            return
        try:
            runs = RunTable(connection, self.root_task_id, self._store.owner.name, self._store.now)
            self._runs = runs
            self._read_news(connection, runs)
        except Exception as error:
            self.abandon(error)

    def commit(self, run: KeptRun | None) -> Kept:
        """Commit a run and what this process has changed of its root; what fails is kept for later."""
        if self._connection is None or self._runs is None:
            self._behind = True
            return Kept.NO
        try:
            if self._inner:
                self._inner -= 1
                return Kept.YES if run is None or self._runs.write(run) else Kept.TAKEN_OVER
            if run is not None and not self._runs.write(run):
                self.roll_back()
                return Kept.TAKEN_OVER
            if self._lowered is not None or self._raised:
                self._write_limits(self._connection)
            filed = self._write_budgets(self._connection)
            self._write_marks(self._connection)
            self._store.commit()
        except Exception as error:
            self._behind = True
            self.abandon(error)
            return Kept.NO
        self._connection = self._runs = None
        self._filed = filed
        self._marks.clear()
        self._stops.clear()
        self._lowered = None
        self._raised.clear()
        self._behind = False
        self.fault = None
        return Kept.YES

    def roll_back(self) -> None:
        """Let go of the file without a commit."""
        self._connection = self._runs = self._seen = None
        self._inner = 0
        self._store.roll_back()

    def abandon(self, error: Exception) -> None:
        """Go on from memory, after an error that :attr:`fault` tells of."""
        self.fault = self._store.failed(error)
        self.roll_back()

    # -- runs --------------------------------------------------------------------------------------------

    def join(self, run_id: str, limits: Limits) -> Budgets:
        """Return a run's budgets: the root's own for its first run, within them for every other."""
        budgets = super().join(run_id, limits)
        if self._connection is not None:
            try:
                self._write_joined(self._connection)
            except Exception as error:
                self.abandon(error)
        return budgets

    def lower_to(self, limits: Limits) -> None:
        """Lower the budgets of the whole root, for every process of it."""
        super().lower_to(limits)
        self._lowered = limits

    def grant(self, kind: str, amount: int, by: str) -> None:
        """Add to a budget of the root, for every process of it."""
        before = self.budgets.by_kind[kind].granted
        super().grant(kind, amount, by)
        if added := self.budgets.by_kind[kind].granted - before:
            self._raised[kind] = self._raised.get(kind, 0) + added

    def enlist(self, who: RunIdentity, tag: str, recall: Recall) -> Left | None:
        """Enter a run that starts, and return what an earlier process left of it.

        That is the run of the same id, whatever became of its process; else what ``recall`` says: a run that
        a dead process left behind at the same work, or one that was stopped at it.
        """
        if (runs := self._runs) is None or self._connection is None:
            return None
        try:
            left = runs.recall(str(who.run_id))
            if left is None and recall is not Recall.ITSELF:
                left = runs.recall_other(who, resumed=recall is Recall.STOPPED)
            runs.enter(who, tag)
            self._read_all(self._connection, runs)
        except Exception as error:
            self.abandon(error)
            return None
        return left

    def dismiss(self, run_id: str, tag: str, *, stopped: bool) -> None:
        """Note that a run has ended; what it knew is kept where it was stopped and may be resumed."""
        if self._runs is not None:
            try:
                self._runs.dismiss(run_id, tag, stopped=stopped)
            except Exception as error:
                self.abandon(error)

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
            except Exception as error:
                self.abandon(error)
        return super().was_stopped(run_id)

    def resume(self, run_id: str) -> None:
        """Use a resume grant: the root may go on, and so may this run."""
        super().resume(run_id)
        self._stops[run_id] = False

    def _changed(self, kind: Mark, name: str, value: str | int | None) -> None:
        self._marks[kind, name] = value

    # -- reading -----------------------------------------------------------------------------------------

    def _read_news(self, connection: sqlite3.Connection, runs: RunTable) -> None:
        # Counts the commits of all other connections: one cheap look says whether there is anything to read.
        version = (self._store.serial, connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._seen:
            self._read_all(connection, runs)
            self._seen = version
        if not self._others:
            return
        gone = {owner for owner in {owner for _, owner in self._others} if not is_alive(owner)}
        dead = [run_id for run_id, owner in self._others if owner in gone]
        if dead:
            for run_id in dead:
                runs.take_back(run_id)
            self._read_all(connection, runs)

    def _read_all(self, connection: sqlite3.Connection, runs: RunTable) -> None:
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
            budget.limit = most + self._raised.get(kind, 0)
            budget.settled += settled - filed[0]
            budget.reserved += reserved - filed[1]
            self._filed[kind] = (settled, reserved)
        self._read_marks(connection)
        if self._lowered is not None:
            self.budgets.lower_to(self._lowered)
        self._others = runs.of_others()

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
        self._marks = self._all_marks()

    def _all_marks(self) -> dict[tuple[Mark, str], str | int | None]:
        """Return what is remembered in memory, for a file that knows nothing of the root."""
        found: dict[tuple[Mark, str], str | int | None] = {
            **{(Mark.DONE, name): 1 for name in self.done},
            **{(Mark.UNCERTAIN, name): 1 for name in self.uncertain},
            **{(Mark.QUARANTINED, name): 1 for name in self.quarantined},
            **{(Mark.IN_FLIGHT, name): run_id for name, run_id in self.in_flight.items()},
            **{(Mark.APPROVED, name): uses for name, uses in self.approvals.items() if uses},
            **{(Mark.AVOIDED, f"{block.kind}:{block.name}"): 1 for block in self.avoided or ()},
            **{(Mark.GRANTED, name): amount for name, amount in self.grants.items()},
        }
        if self.nudged:
            found[Mark.NUDGED, ""] = 1
        if self.halted is not None:
            found[Mark.HALTED, ""] = self.halted
        return found

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
        self._avoid_only(by_kind[Mark.AVOIDED])
        self.grants = {name: int(amount) for name, amount in by_kind[Mark.GRANTED].items()}
        for amount_of, budget in self.budgets.by_kind.items():
            budget.granted = sum(n for name, n in self.grants.items() if name.startswith(f"{amount_of}:"))

    # -- writing -----------------------------------------------------------------------------------------

    def _write_joined(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE root SET first_run = ?, joined_at = ? WHERE root_task_id = ?",
            (self.first_run, self._store.now(), self.root_task_id),
        )
        self._write_limits(connection)
        self._store.prune_now_and_then(connection)

    def _write_limits(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "UPDATE budget SET most = ? WHERE root_task_id = ? AND kind = ?",
            [(budget.limit, self.root_task_id, kind) for kind, budget in self.budgets.by_kind.items()],
        )

    def _write_budgets(self, connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
        """Write what was spent and reserved, and return what the file says then."""
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

    def _write_marks(self, connection: sqlite3.Connection) -> None:
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
