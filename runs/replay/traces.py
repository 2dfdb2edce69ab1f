"""Reads recorded agent runs: one JSON object a line, plain or gzip, a run with its tool calls in order."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

GZIP_MAGIC = b"\x1f\x8b"
NO_MODEL = "unnamed"


class TraceError(ValueError):
    """A trace or tool file that cannot be read; the text names the file, the line and what is wrong."""


class Recorded(StrEnum):
    """How the recording says the run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


Seconds = Annotated[float, Meta(ge=0, le=31 * 86_400)]
Number = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class Call(Struct, kw_only=True):
    """One recorded tool call; ``args_sha`` is its identity, ``result_identity`` its result's."""

    tool: Annotated[str, Meta(min_length=1, max_length=128)]
    args_sha: Annotated[str, Meta(min_length=1, max_length=80)]
    args: dict[str, Any] = {}
    result_sha: str | None = None
    result_len: Number = 0
    error: bool = False
    error_text: str = ""
    result_excerpt: str = ""
    domain: str | None = None

    @property
    def result_identity(self) -> str:
        """What two results must share to be the same: an error's text, since its result is often empty."""
        return f"error:{self.error_text}" if self.error else f"result:{self.result_sha or ''}"

    @property
    def result(self) -> str:
        """The result where it was recorded as a whole, else a stand-in that is not empty."""
        whole = len(self.result_excerpt) == self.result_len
        return self.result_excerpt if whole else self.result_identity


class RecordedTokens(Struct, kw_only=True):
    """Tokens of a whole run."""

    input: Number = msgspec.field(name="in", default=0)
    output: Number = msgspec.field(name="out", default=0)


class RecordedCost(Struct, kw_only=True):
    """What the provider charged, USD. Other parties' costs (a user simulator's) are no cost of the agent."""

    usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None


class Trace(Struct, kw_only=True):
    """One recorded run: ``turns`` counts the model's calls, ``ended`` how it closed where that is known."""

    run_id: Annotated[str, Meta(min_length=1, max_length=1_000)]
    source: Annotated[str, Meta(min_length=1, max_length=128)]
    job_type: Annotated[str, Meta(min_length=1, max_length=128)]
    outcome: Recorded
    calls: list[Call]
    model: str | None = None
    started_at: str | None = None
    turns: Number | None = None
    duration_s: Seconds | None = None
    tokens: RecordedTokens | None = None
    cost: RecordedCost | None = None
    ended: str | None = None

    @property
    def release(self) -> str:
        """The model or pipeline that ran: what changes between releases here."""
        return (self.model or NO_MODEL)[:128]


_decoder = msgspec.json.Decoder(Trace)


def read_traces(path: Path) -> Iterator[Trace]:
    """Yield the runs of ``path`` in order; raise ``TraceError`` naming the first line that is no run."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == GZIP_MAGIC
        with gzip.open(path, "rb") if zipped else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _decode(path, number, line)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in ``path``; raise ``TraceError`` where there is none."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    return found


def _decode(path: Path, number: int, line: bytes) -> Trace:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}, line {number}: {error}") from error
