"""Stall: steps in a row that bring nothing, and errors in a row that are alike."""

from __future__ import annotations

from msgspec import Struct


class StallCounter(Struct):
    """Steps in a row without progress; a parallel batch is one step."""

    count: int = 0
    peak: int = 0

    def note(self, *, productive: bool) -> None:
        """Count one step."""
        self.count = 0 if productive else self.count + 1
        self.peak = max(self.peak, self.count)

    def reached(self, limit: int) -> bool:
        """Whether the counter stands at the limit; a limit of 0 allows no unproductive step at all."""
        return self.count > 0 and self.count >= limit


class ErrorStreak(Struct):
    """Distinct calls of one tool in a row that ended in one class of error."""

    count: int = 0
    peak: int = 0
    key: tuple[str, str] | None = None
    """The tool and the class."""
    seen: set[str] = set()

    def note(self, tool: str, error_class: str, fingerprints: list[str]) -> None:
        """Count one step whose calls failed; another tool or class starts a new streak."""
        if self.key != (tool, error_class):
            self.key = (tool, error_class)
            self.seen.clear()
            self.count = 0
        if not self.seen.issuperset(fingerprints):
            self.count += 1
            self.seen.update(fingerprints)
        self.peak = max(self.peak, self.count)

    def clear(self) -> None:
        """A call succeeded, or the application saw progress."""
        if self.key is not None:
            self.key = None
            self.seen.clear()
            self.count = 0

    def reached(self, limit: int) -> bool:
        """Whether the streak stands at the limit; a limit of 0 allows no such error at all."""
        return self.count > 0 and self.count >= limit
