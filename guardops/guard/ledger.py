"""The run's memory of what was called and how it ended, outside the prompt: one row a fingerprint.

Rows hold digests and codes, never arguments, results or secrets. A snapshot of at most 1 KB is offered to
the caller before every model call, so that summarising a conversation loses no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from guardops.guard.errors import PROVIDER_FAILURES, ErrorClass, Failure
from guardops.guard.events import LedgerRow
from guardops.guard.policy import SideEffect

SNAPSHOT_ROWS = 10
SNAPSHOT_BYTES = 1_024


class Last(Enum):
    """How the last execution of a fingerprint ended, as far as the next one depends on it."""

    NEVER = "never"
    OK = "ok"
    EMPTY = "empty"
    PERMANENT = "permanent"
    """A failure that the same call would meet again, an unknown one included."""
    RETRYABLE = "retryable"
    PRECONDITION = "precondition"
    AUTH = "auth"
    QUOTA = "quota"


_REFRESHED = frozenset({Last.OK, Last.EMPTY, Last.PERMANENT, Last.PRECONDITION})
"""Outcomes that a new state version makes void; back-off, auth and quota outlive it."""


class Row(Struct, omit_defaults=True):
    """One fingerprint's history. Times are seconds since the run's start."""

    fingerprint: str
    tool: str
    args_hash: str
    side_effect: SideEffect
    count: int = 0
    failed: int = 0
    refused: int = 0
    last: Last = Last.NEVER
    first_error: str = ""
    last_error: str = ""
    error_class: ErrorClass | None = None
    result_digest: str = ""
    streak: int = 0
    """Successes in a row with the same result, in the same state version."""
    empties: int = 0
    failures: int = 0
    """Retryable failures in a row."""
    exhausted: bool = False
    not_before: float = 0.0
    version: int = 0
    successes_seen: int = 0
    """The run's count of successes when the precondition failed."""
    in_flight: int = 0
    """The ticket that holds the call, 0 for none."""
    uncertain: bool = False
    done: bool = False
    blocked: bool = False
    last_at: float = 0.0
    polls: int = 0
    first_poll_at: float = 0.0
    terminal: bool = False

    def enter_version(self, version: int) -> None:
        """Forget what a new state version makes void."""
        self.version = version
        self.streak = self.empties = 0
        if self.last in _REFRESHED:
            self.last = Last.NEVER
        if self.terminal:  # that wait is over; what is asked for now is another one
            self.terminal, self.polls = False, 0

    def record_success(self, digest: str, *, empty: bool) -> None:
        """Note a result; a changed one starts a new streak."""
        self.streak = self.streak + 1 if digest == self.result_digest else 1
        self.empties = self.empties + 1 if empty else 0
        self.last = Last.EMPTY if empty else Last.OK
        self.result_digest = digest
        self.last_error = ""
        self.failures = 0
        self.exhausted = False
        self.done = True

    def record_failure(self, failure: Failure, last: Last) -> None:
        """Note a failure of any class."""
        self.last = last
        self.failed += 1
        self.error_class = failure.error_class
        self.last_error = failure.code or failure.error_class.value
        self.first_error = self.first_error or self.last_error
        self.empties = 0
        self.failures = self.failures + 1 if last is Last.RETRYABLE else 0

    def reconcile(self, *, happened: bool) -> None:
        """Note what became of an uncertain write."""
        self.uncertain = False
        self.done = self.done or happened
        self.last = Last.OK if happened else Last.NEVER

    def try_again(self) -> None:
        """Forget a failure that a person knows of; what has been done stays done."""
        if self.last in (Last.AUTH, Last.QUOTA, Last.RETRYABLE):
            self.last = Last.NEVER
        self.failures, self.exhausted, self.not_before = 0, False, 0.0
        self.polls, self.terminal = 0, False

    @property
    def failed_by_provider(self) -> bool:
        """Whether the last execution failed for a reason that is the provider's."""
        failed = self.last in (Last.RETRYABLE, Last.PERMANENT)
        return failed and self.error_class in PROVIDER_FAILURES


class Ledger:
    """Rows by fingerprint, in the order in which they were first proposed."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def get(self, fingerprint: str) -> Row | None:
        """Return the row of a fingerprint, if it was ever proposed."""
        return self._rows.get(fingerprint)

    def add(self, row: Row) -> Row:
        """Add a new row."""
        self._rows[row.fingerprint] = row
        return row

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def newest(self, most: int) -> list[Row]:
        """Return the rows used last, newest first."""
        return sorted(self._rows.values(), key=lambda row: row.last_at, reverse=True)[:most]

    def duplicates(self) -> int:
        """Return how many executions repeated an earlier fingerprint."""
        return sum(row.count - 1 for row in self._rows.values() if row.count > 1)

    def snapshot(self) -> bytes:
        """Return at most 1 KB of JSON with at most the 10 newest rows, newest first."""
        lines = [_snapshot_line(row) for row in self.newest(SNAPSHOT_ROWS)]
        while len(text := msgspec.json.encode({"ledger": lines})) > SNAPSHOT_BYTES:
            lines.pop()
        return text

    def event_rows(self, most: int, started_at: datetime) -> list[LedgerRow]:
        """Return the newest rows as the wire carries them."""
        return [_event_row(row, started_at) for row in self.newest(most)]


def _snapshot_line(row: Row) -> dict[str, Any]:
    line: dict[str, Any] = {
        "tool": row.tool[:48],
        "args": row.args_hash[:8],
        "n": row.count,
        "last": row.last.value,
    }
    if row.last_error:
        line["error"] = row.last_error[:24]
    if row.streak > 1:
        line["same"] = row.streak
    for flag in ("blocked", "done", "uncertain"):
        if getattr(row, flag) and not (flag == "done" and row.side_effect is not SideEffect.SIDE_EFFECT):
            line[flag] = True
    return line


def _event_row(row: Row, started_at: datetime) -> LedgerRow:
    return LedgerRow(
        fingerprint=row.fingerprint,
        tool=row.tool[:128],
        args_hash=row.args_hash,
        side_effect=row.side_effect.value,
        count=row.count,
        first_error=row.first_error,
        last_error=row.last_error,
        error_class=row.error_class.value if row.error_class else "",
        retryable=row.last is Last.RETRYABLE,
        blocked=row.blocked,
        result_digest=row.result_digest,
        streak=row.streak,
        state_version=row.version,
        in_flight=bool(row.in_flight),
        uncertain=row.uncertain,
        last_at=started_at + timedelta(seconds=row.last_at),
    )
