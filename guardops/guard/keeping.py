"""Keeps one run in a durable root: a transaction round every answer, and what an earlier process knew.

Where the file can't be used the run goes on from memory, and what it failed to write is written with the next
answer that can be kept.
"""

from __future__ import annotations

import secrets
from types import TracebackType

import msgspec

from guardops.guard.ladder import Ladder
from guardops.guard.ledger import Row
from guardops.guard.run_memory import (
    Recollection,
    held_by,
    packed,
    packed_row,
    take_up_evidence,
    take_up_spending,
    take_up_standing,
    unpacked,
)
from guardops.guard.sqlite_root import Kept, Recall, SqliteRoot
from guardops.guard.sqlite_runs import KeptRun
from guardops.guard.state import RunIdentity, RunState
from guardops.guard.summary import Counts


class Keeper:
    """One run's part in its durable root. Everything but the transactions is called within one."""

    def __init__(self, root: SqliteRoot, who: RunIdentity, counts: Counts) -> None:
        self._root = root
        self._who = who
        self._counts = counts
        self._run: RunState | None = None
        self._ladder: Ladder | None = None
        self._tag = secrets.token_hex(4)
        """Tells this start of the run from any other."""
        self._enlisted = False
        self._failing = False
        self._answers: list[Kept | None] = []
        """What became of the answers under way: one, or several where a signal came in the middle of it."""
        self._unsaved: dict[str, Row] = {}
        self.answer = Transaction(self, sync=False)
        self.answer_to_write = Transaction(self, sync=True)

    def begin(self, *, sync: bool) -> None:
        """Begin an answer; with ``sync`` its commit waits for the disk."""
        self._root.lock.acquire()
        try:
            self._root.begin(sync=sync)
        except BaseException:
            self._root.lock.release()
            raise
        self._answers.append(None)

    def commit(self) -> Kept:
        """Commit an answer. Where it fails, the changes wait for a later one."""
        kept = self._root.commit(self._packed() if self._root.is_open else None)
        if kept is Kept.YES:
            self._unsaved.clear()
            self._failing = False
        elif self._root.fault is not None and not self._failing:
            self._failing = True
            self._counts.note_fault(self._root.fault)
        self._answers[-1] = kept
        return kept

    def finish(self) -> None:
        """Commit what has not been, and let go of the root."""
        try:
            if self._answers[-1] is None:
                self.commit()
        finally:
            self._answers.pop()
            self._root.lock.release()

    def touch(self, *rows: Row) -> None:
        """Note ledger rows that are to be written with the answer."""
        for row in rows:
            self._unsaved[row.fingerprint] = row

    def take_up(self, run: RunState, ladder: Ladder, recall: Recall, *, stopped: bool) -> bool:
        """Enter a run that starts, give it what was left, and say whether an earlier process of it left that.

        One that had been ``stopped`` begins its counts anew, like any attempt after a resume grant.
        """
        self._run, self._ladder = run, ladder
        found = self._enlist(recall) if self._root.is_open else None
        if found is None:
            return False
        take_up_evidence(run, found, self._who.started_at)
        if found.same_run and not stopped:
            take_up_spending(run, self._counts, found, self._who.started_at)
            take_up_standing(ladder, found)
        return found.same_run

    def end(self, *, stopped: bool) -> None:
        """Note that the run has ended; a late result is still kept for its root."""
        if self._enlisted:
            self._root.dismiss(str(self._who.run_id), self._tag, stopped=stopped)
        self._run = None

    def _enlist(self, recall: Recall) -> Recollection | None:
        left = self._root.enlist(self._who, self._tag, recall)
        self._enlisted = self._root.is_open
        try:
            return unpacked(left) if left is not None else None
        except msgspec.MsgspecError as fault:  # another version's: the root's budgets and marks still hold
            self._counts.note_fault(fault)
            return None

    def _packed(self) -> KeptRun | None:
        """Return the run as it is to be written; None before it is known and after it has ended."""
        run, ladder = self._run, self._ladder
        if run is None or ladder is None:
            return None
        if not self._enlisted:
            self._enlist(Recall.DEAD)
        try:
            held = held_by(run)
            memory = packed(run, self._counts, ladder, self._who.started_at, held)
            rows = [(fingerprint, packed_row(row)) for fingerprint, row in self._unsaved.items()]
        except Exception as fault:  # nothing that the guard keeps may break the agent's loop
            self._root.abandon(fault)
            return None
        return KeptRun(self._who, self._tag, held, memory, rows)


class Transaction:
    """One answer, from taking the root's lock to its commit."""

    __slots__ = ("_keeper", "_sync")

    def __init__(self, keeper: Keeper, *, sync: bool) -> None:
        self._keeper = keeper
        self._sync = sync

    def __enter__(self) -> None:
        self._keeper.begin(sync=self._sync)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.finish()
