"""Stall: steps in a row that bring nothing, and errors in a row that are alike."""

from __future__ import annotations


class StallCounter:
    """Steps in a row without progress; a parallel batch is one step."""

    __slots__ = ("count", "peak")

    def __init__(self) -> None:
        self.count = 0
        self.peak = 0

    def note(self, *, productive: bool) -> None:
        """Count one step."""
        self.count = 0 if productive else self.count + 1
        self.peak = max(self.peak, self.count)

    def reached(self, limit: int) -> bool:
        """Whether the counter stands at the limit; a limit of 0 allows no unproductive step at all."""
        return self.count > 0 and self.count >= limit


class ErrorStreak:
    """Distinct calls of one tool in a row that ended in one class of error."""

    __slots__ = ("_key", "_seen", "count", "peak")

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._seen: set[str] = set()
        self.count = 0
        self.peak = 0

    def note(self, tool: str, error_class: str, fingerprints: list[str]) -> None:
        """Count one step whose calls failed; another tool or class starts a new streak."""
        if self._key != (tool, error_class):
            self._key = (tool, error_class)
            self._seen.clear()
            self.count = 0
        if not self._seen.issuperset(fingerprints):
            self.count += 1
            self._seen.update(fingerprints)
        self.peak = max(self.peak, self.count)

    def clear(self) -> None:
        """A call succeeded, or the application saw progress."""
        if self._key is not None:
            self._key = None
            self._seen.clear()
            self.count = 0

    def reached(self, limit: int) -> bool:
        """Whether the streak stands at the limit; a limit of 0 allows no such error at all."""
        return self.count > 0 and self.count >= limit
