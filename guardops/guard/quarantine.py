"""Sources that a stopped run has quarantined, for all runs of its tenant in this process, for a while.

It is a guess of the machine's, not a person's order: a call to such a source is refused and the run goes on.
Whether the tenant is rid of it for good is decided by people, to whom the run's event proposes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

QUARANTINE_SECONDS = 600.0
MOST_SOURCES = 10_000


class Quarantine:
    """The quarantined registrable domains of one tenant; those quarantined longest ago go first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, names: Iterable[str]) -> None:
        """Refuse these domains from here on, for ten minutes."""
        now = self._clock()
        for name in names:
            self._until.pop(name, None)
            self._until[name] = now + QUARANTINE_SECONDS
        # Single steps on a copy, and no lock: one that is held at a fork would never open in the child.
        held = list(self._until.items())
        over = [name for name, until in held if until <= now]
        for name in over or [name for name, _ in held[:-MOST_SOURCES]]:
            self._until.pop(name, None)

    def found(self, names: Iterable[str]) -> str | None:
        """Return one of ``names`` that is quarantined, or None."""
        if not self._until:
            return None
        now = self._clock()
        return next((name for name in names if self._until.get(name, 0.0) > now), None)
