"""Where the state that outlives one run is kept: what all runs of a root share.

:class:`guardops.guard.memory_store.MemoryStore` keeps it for the life of the process,
:class:`guardops.guard.sqlite.SqliteStore` in a file that outlives it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from threading import RLock
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from guardops.guard.blocklist import Block, Blocklist
from guardops.guard.budgets import Budgets
from guardops.guard.policy import Limits
from guardops.guard.reasons import Reason

if TYPE_CHECKING:
    from guardops.guard.kept_checkpoints import Checkpoints

BY_PEOPLE = frozenset({Reason.CANCELLED.value, Reason.OPERATOR_STOP.value})
"""Halts that people have ordered: no decision on one run of a task lifts them."""


class StoreError(Exception):
    """A store could not read or keep what it was asked to; ``code`` says why, in one word of its own."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Left(Struct):
    """What an earlier process left of a run, packed. ``same_run``: of this very run, not another attempt."""

    memory: bytes
    rows: list[bytes]
    same_run: bool


class Mark(StrEnum):
    """What is remembered of a root, each kind by name: a fingerprint, a source, or nothing."""

    DONE = "done"
    UNCERTAIN = "uncertain"
    IN_FLIGHT = "in_flight"
    APPROVED = "approved"
    QUARANTINED = "quarantined"
    NUDGED = "nudged"
    HALTED = "halted"
    AVOIDED = "avoided"
    """A source that a person has closed to the task: ``domain:…`` or ``tool:…``."""
    GRANTED = "granted"
    """What a decision has added to a kind of budget: ``steps:<its checkpoint>``."""


@dataclass(slots=True, eq=False)
class RootState:
    """What the runs of one root task share. Hold ``lock`` while reading or writing it."""

    root_task_id: str
    budgets: Budgets
    lock: RLock = field(default_factory=RLock)
    first_run: str | None = None
    """The run that has taken these budgets as its own; other runs spend within them."""
    nudged: bool = False
    halted: str | None = None
    """The reason of the halt after which every call of this root is refused."""
    stopped_runs: set[str] = field(default_factory=set)
    """Ids of runs that were halted or escalated: they start again only with a resume grant."""
    done: set[str] = field(default_factory=set)
    """Fingerprints of side effects that have happened."""
    uncertain: set[str] = field(default_factory=set)
    """Fingerprints of writes of which nobody knows whether they happened."""
    in_flight: dict[str, str] = field(default_factory=dict)
    """Fingerprints of writes that are under way, with the run that makes each."""
    approvals: dict[str, int] = field(default_factory=dict)
    """Uses left of approvals, by fingerprint."""
    quarantined: set[str] = field(default_factory=set)
    """Registrable domains that led to a halt."""
    avoided: Blocklist | None = None
    """Sources that a person has closed to the task; None for none."""
    grants: dict[str, int] = field(default_factory=dict)
    """What decisions have added to budgets, by kind and checkpoint."""

    def join(self, run_id: str, limits: Limits) -> Budgets:
        """Return a run's budgets: the root's own for its first run, within them for every other.

        The first run brings its limits with it whenever it starts.
        """
        if self.first_run is None:
            self.first_run = run_id
        if self.first_run != run_id:
            return Budgets(limits, self.budgets)
        self.budgets.hold_to(limits)
        return self.budgets

    def lower_to(self, limits: Limits) -> None:
        """Lower the budgets of the whole root; none is raised."""
        self.budgets.lower_to(limits)

    def nudge(self) -> None:
        """Use up the root's one nudge."""
        self.nudged = True
        self._changed(Mark.NUDGED, "", 1)

    def halt(self, reason: str) -> None:
        """Halt the root; the first reason stays, unless this is a person's order and that was none."""
        if self.halted is None or (reason in BY_PEOPLE and self.halted not in BY_PEOPLE):
            self.halted = reason
            self._changed(Mark.HALTED, "", reason)

    def stop_run(self, run_id: str) -> None:
        """Note that a run was stopped, so that its id is not started again without a grant."""
        self.stopped_runs.add(run_id)

    def was_stopped(self, run_id: str) -> bool:
        """Say whether a run of this id was stopped."""
        return run_id in self.stopped_runs

    def resume(self, run_id: str) -> None:
        """Use a resume grant: the root may go on, and so may this run."""
        self.stopped_runs.discard(run_id)
        if self.halted is not None:
            self.halted = None
            self._changed(Mark.HALTED, "", None)

    def avoid(self, kind: str, name: str) -> None:
        """Refuse a source to every run of the root from here on."""
        self._changed(Mark.AVOIDED, f"{kind}:{name}", 1)
        self._avoid_only((*(f"{block.kind}:{block.name}" for block in self.avoided or ()), f"{kind}:{name}"))

    def _avoid_only(self, names: Iterable[str]) -> None:
        pairs = [name.partition(":") for name in names]
        self.avoided = Blocklist(Block(kind, name) for kind, _, name in pairs) if pairs else None

    def grant(self, kind: str, amount: int, by: str) -> None:
        """Add to a budget of the root what the decision on a checkpoint (``by``) grants, once."""
        name = f"{kind}:{by}"
        if amount > 0 and name not in self.grants:
            self.grants[name] = amount
            self.budgets.by_kind[kind].grant(amount)
            self._changed(Mark.GRANTED, name, amount)

    def begin_write(self, fingerprint: str, run_id: str) -> None:
        """Note that a write is under way."""
        self.in_flight[fingerprint] = run_id
        self._changed(Mark.IN_FLIGHT, fingerprint, run_id)

    def end_write(self, fingerprint: str) -> None:
        """Note that a write is no longer under way."""
        if self.in_flight.pop(fingerprint, None) is not None:
            self._changed(Mark.IN_FLIGHT, fingerprint, None)

    def mark_done(self, fingerprint: str) -> None:
        """Note a side effect that has happened."""
        self.done.add(fingerprint)
        self._changed(Mark.DONE, fingerprint, 1)

    def mark_uncertain(self, fingerprint: str) -> None:
        """Note a write of which nobody knows whether it happened."""
        self.uncertain.add(fingerprint)
        self._changed(Mark.UNCERTAIN, fingerprint, 1)

    def reconcile(self, fingerprint: str, *, happened: bool) -> None:
        """Note what became of an uncertain write."""
        self.uncertain.discard(fingerprint)
        self._changed(Mark.UNCERTAIN, fingerprint, None)
        if happened:
            self.mark_done(fingerprint)

    def approve(self, fingerprint: str) -> None:
        """Add one use of an approval."""
        self._approvals_left(fingerprint, self.approvals.get(fingerprint, 0) + 1)

    def use_approval(self, fingerprint: str) -> None:
        """Take one use of an approval away, where there is one."""
        if uses := self.approvals.get(fingerprint):
            self._approvals_left(fingerprint, uses - 1)

    def quarantine(self, domains: Iterable[str]) -> None:
        """Refuse these registrable domains to every run of the root."""
        for domain in domains:
            self.quarantined.add(domain)
            self._changed(Mark.QUARANTINED, domain, 1)

    def _approvals_left(self, fingerprint: str, uses: int) -> None:
        self.approvals[fingerprint] = uses
        self._changed(Mark.APPROVED, fingerprint, uses or None)

    def _changed(self, kind: Mark, name: str, value: str | int | None) -> None:
        """Take note of a change that must outlive the process; None takes the mark away."""


class Store(Protocol):
    """What a session needs of a store."""

    def root(self, root_task_id: str, limits: Limits) -> RootState:
        """Return the state of a root, made with these limits where it is new."""
        ...

    @property
    def checkpoints(self) -> Checkpoints:
        """The runs that wait for a person."""
        ...
