"""How far fold has counted, and which cluster its marks belong to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection


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


def read_lag(now: datetime) -> timedelta | None:
    """Return how far counting is behind; nothing where nothing waits, None where it has never begun."""
    with connection.cursor() as cursor:
        state = State.read(cursor)
        cursor.execute(
            "SELECT EXISTS (SELECT FROM ingest_span WHERE mark >= %s)", [state.last if state else 0]
        )
        (waiting,) = cursor.fetchone()
    if state is None or state.folded_at is None:
        return None
    return max(timedelta(0), now - state.folded_at) if waiting else timedelta(0)
