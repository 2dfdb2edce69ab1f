"""A store for the life of one process."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from guardops.guard.budgets import Budgets
from guardops.guard.kept_checkpoints import MemoryCheckpoints
from guardops.guard.policy import Limits
from guardops.guard.stores import RootState


class MemoryStore:
    """Keeps all in memory; the roots used longest ago are forgotten beyond ``most_roots``."""

    def __init__(self, most_roots: int = 10_000) -> None:
        self._most_roots = most_roots
        self._roots: OrderedDict[str, RootState] = OrderedDict()
        self._lock = Lock()
        self.checkpoints = MemoryCheckpoints()

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
