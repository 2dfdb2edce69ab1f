"""The binary form in which PostgreSQL's COPY takes a run: lengths and values in network order. Pure.

Values of fixed length are packed in one call. Texts of few kinds (outcomes, job types, releases) come from a
cache of packed ones.
"""

from __future__ import annotations

import functools
import struct
from datetime import UTC, datetime, timedelta
from uuid import UUID

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# What is known only under the lock: where the run goes, when it was written, whether it completes its
# task, and whether its start was told.
PLACE_COLUMNS = ("tenant_id", "run_id", "ingest_mark", "completes", "announced")
TIME_COLUMNS = ("at", "started_at", "ended_at", "received_at")
BIGINT_COLUMNS = (
    "duration_ms",
    "tokens_input",
    "tokens_output",
    "tokens_cached",
    "policy_revision",
    "policy_version",
)
INTEGER_COLUMNS = (
    "steps",
    "turns",
    "tool_calls",
    "refusals",
    "retries",
    "blocked",
    "blocked_by_provider",
    "duplicates",
)
SMALLINT_COLUMNS = (
    "attempt",
    "peak_repeats",
    "peak_stall",
    "peak_error_streak",
    "peak_domain_calls",
    "peak_listing_pages",
    "peak_refusals",
)
BOOLEAN_COLUMNS = ("eligible", "looped", "provider_failure", "clock_suspect", "sanitized")
NULLABLE_COLUMNS = ("step_cap", "parent_run_id", "resumed_from")
KIND_COLUMNS = (
    "outcome",
    "answer",
    "halt_reason",
    "family",
    "mode",
    "would_halt",
    "step_unit",
    "cost_basis",
    "job_type",
    "agent",
    "release",
    "guard_version",
)
COLUMNS = (
    *PLACE_COLUMNS,
    *TIME_COLUMNS,
    *BIGINT_COLUMNS,
    *INTEGER_COLUMNS,
    *SMALLINT_COLUMNS,
    *BOOLEAN_COLUMNS,
    "cost",
    *NULLABLE_COLUMNS,
    *KIND_COLUMNS,
    "root_task_id",
    "body_digest",
    "detail",
)

# Field count, then length and value by turns.
_PLACE = struct.Struct("!h i i i 16s i q i ? i ?")
FIXED = struct.Struct(
    "!"
    + "iq" * (len(TIME_COLUMNS) + len(BIGINT_COLUMNS))
    + "ii" * len(INTEGER_COLUMNS)
    + "ih" * len(SMALLINT_COLUMNS)
    + "i?" * len(BOOLEAN_COLUMNS)
    + "i8H"  # cost: four header words, then four digits to the base of 10,000
)
_INTEGER = struct.Struct("!ii")
_LENGTH = struct.Struct("!i")
_COLUMN_COUNT = len(COLUMNS)


def place(tenant_id: int, run_id: bytes, ingest_mark: int, completes: bool, announced: bool) -> bytes:
    """Return the beginning of a row."""
    return _PLACE.pack(_COLUMN_COUNT, 4, tenant_id, 16, run_id, 8, ingest_mark, 1, completes, 1, announced)


def microseconds(time: datetime) -> int:
    """Return a timestamptz: microseconds since 2000."""
    return (time - _POSTGRES_EPOCH) // _MICROSECOND


def integer(value: int | None) -> bytes:
    return NULL if value is None else _INTEGER.pack(4, value)


def uuid(value: UUID | None) -> bytes:
    return NULL if value is None else b"\0\0\0\x10" + value.bytes


def length(value: bytes) -> bytes:
    """Return what comes before text in UTF-8, json or bytea."""
    return _LENGTH.pack(len(value))


@functools.lru_cache(maxsize=4096)
def texts(*values: str) -> bytes:
    return b"".join([length(value) + value for value in map(str.encode, values)])
