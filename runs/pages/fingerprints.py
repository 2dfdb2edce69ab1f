"""The calls behind a stop, as the ledger knows them: how often each was made, and how it failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardops.guard.events import LedgerRow
from runs.pages.story import Line, StepLine


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One call of the cause. ``place`` is its row in the ledger (1-based), 0 where it has none there."""

    letter: str
    tool: str
    args_hash: str
    count: int = 0
    first_error: str = ""
    last_error: str = ""
    place: int = 0


def fingerprints_of(lines: Sequence[Line], ledger: Sequence[LedgerRow]) -> list[Fingerprint]:
    """Return the calls of the loop by their letters; without one the last call that was made or refused."""
    steps = [line for line in lines if isinstance(line, StepLine)]
    loop = {line.letter: line for line in steps if line.letter}
    chosen = list(loop.values()) or steps[-1:]
    rows = {(row.tool, row.args_hash): (place, row) for place, row in enumerate(ledger, start=1)}
    return [_fingerprint(line, rows.get((line.tool, line.args_hash))) for line in chosen]


def _fingerprint(line: StepLine, found: tuple[int, LedgerRow] | None) -> Fingerprint:
    if found is None:
        return Fingerprint(line.letter, line.tool, line.args_hash)
    place, row = found
    return Fingerprint(
        line.letter, line.tool, line.args_hash, row.count, row.first_error, row.last_error, place
    )
