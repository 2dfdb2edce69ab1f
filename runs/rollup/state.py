"""How far fold has counted, and which cluster its marks belong to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class State:
    """The row of ``fold_state``: `runs.models.FoldState`."""

    last: int
    system_identifier: int
    hours_to: datetime
    days_to: datetime
    folded_at: datetime | None
    watched_mark: int
    watched_at: datetime

    @classmethod
    def read(cls, cursor: Any) -> State | None:
        """Return the state that the cursor's snapshot sees; None where fold has never run."""
        cursor.execute(
            "SELECT last, system_identifier, hours_to, days_to, folded_at, watched_mark, watched_at"
            " FROM fold_state"
        )
        row = cursor.fetchone()
        return cls(*row) if row else None
