"""Where the state that outlives one run is kept: what all runs of a root share.

:class:`MemoryStore` keeps it for the life of the process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Protocol

from guardops.guard.budgets import Budgets
from guardops.guard.policy import Limits


@dataclass(slots=True, eq=False)
class RootState:
    """What the runs of one root task share. Hold ``lock`` while reading or writing it."""

    root_task_id: str
    budgets: Budgets
    lock: RLock = field(default_factory=RLock)
    joined: bool = False
    """Whether a run has taken these budgets as its own; later runs spend within them."""
    nudged: bool = False
    halted: str | None = None
    """The reason of the halt after which every call of this root is refused."""
    stopped_runs: set[str] = field(default_factory=set)
    """Ids of runs that were halted or escalated: they start again only with a resume grant."""
    done: set[str] = field(default_factory=set)
    """Fingerprints of side effects that have happened."""
    uncertain: set[str] = field(default_factory=set)
    """Fingerprints of writes of which nobody knows whether they happened."""
    approvals: dict[str, int] = field(default_factory=dict)
    """Uses left of approvals, by fingerprint."""

    def approve(self, fingerprint: str) -> None:
        """Add one use of an approval."""
        self.approvals[fingerprint] = self.approvals.get(fingerprint, 0) + 1

    def reconcile(self, fingerprint: str, *, happened: bool) -> None:
        """Note what became of an uncertain write."""
        self.uncertain.discard(fingerprint)
        if happened:
            self.done.add(fingerprint)


class Store(Protocol):
    """What a session needs of a store."""

    def root(self, root_task_id: str, limits: Limits) -> RootState:
        """Return the state of a root, made with these limits where it is new."""
        ...


class MemoryStore:
    """A store for the life of one process; the roots used longest ago are forgotten beyond ``most_roots``."""

    def __init__(self, most_roots: int = 10_000) -> None:
        self._most_roots = most_roots
        self._roots: OrderedDict[str, RootState] = OrderedDict()
        self._lock = Lock()

    def root(self, root_task_id: str, limits: Limits) -> RootState:
        """Return the state of a root, made with these limits where it is new."""
        with self._lock:
            state = self._roots.get(root_task_id)
            if state is None:
                state = self._roots[root_task_id] = RootState(root_task_id, Budgets(limits))
                while len(self._roots) > self._most_roots:
                    self._roots.popitem(last=False)
            else:
                self._roots.move_to_end(root_task_id)
            return state


def join_root(store: Store, root_task_id: str, limits: Limits) -> tuple[RootState, Budgets]:
    """Return a root and a run's budgets: the root's own for its first run, within them for every other."""
    root = store.root(root_task_id, limits)
    with root.lock:
        if root.joined:
            return root, Budgets(limits, root.budgets)
        root.joined = True
        return root, root.budgets
