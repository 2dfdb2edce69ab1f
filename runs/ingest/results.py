"""What becomes of the events of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from guardops.guard.replies import EventResult, ResultStatus


class Accepted(Protocol):
    """A row of an event."""

    index: int
    sanitized: bool


@dataclass(slots=True)
class Recorded:
    """What became of a request's rows; ``results`` names those that were not plainly accepted."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    results: list[EventResult] = field(default_factory=list)

    def accept(self, row: Accepted) -> None:
        self.accepted += 1
        if row.sanitized:
            self.results.append(EventResult(index=row.index, status=ResultStatus.SANITIZED, code="sanitized"))

    def repeat(self, index: int) -> None:
        """Note an event that says nothing new."""
        self.duplicates += 1
        self.results.append(EventResult(index=index, status=ResultStatus.DUPLICATE, code="duplicate"))

    def contradict(self, index: int, what: str, field: str) -> None:
        """Note an event that says something else than one with its id before it; ``what`` names the thing."""
        self.results.append(
            EventResult(
                index=index,
                status=ResultStatus.CONFLICT,
                code="different_body",
                field=field,
                message=f"{what} with this id and another body is stored already; it stays.",
            )
        )

    def refuse(self, index: int) -> None:
        """Note an event of which a column refuses a value."""
        self.refused += 1
        self.results.append(
            EventResult(
                index=index,
                status=ResultStatus.REJECTED,
                code="refused",
                message="The database refuses a value of this event.",
            )
        )
