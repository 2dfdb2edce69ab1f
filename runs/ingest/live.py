"""The writer of live runs: what signs of life change, under the tenant's lock, and what an end takes away.

A request's signs are judged as if all of them had come before its ended runs, wherever they stand in it, so
that a request sent again finds each of them old. One statement a kind of sign writes what remains.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.backends.utils import CursorWrapper

from guardops.guard.ids import uuid7
from runs.partitions import unix_ms

from .known import Known, Live, array
from .results import Recorded
from .signs import Heartbeat, Sign, Started

# What one kind of sign does not know is empty until the other comes.
_START = """
INSERT INTO live_run AS live (tenant_id, run_id, external_id, root_task_id, parent_run_id, resumed_from,
    attempt, job_type, agent, release, started_at, started_digest, received_at, last_at,
    detail, clock_suspect, sanitized, seq, steps, turns, cost, pressure, pressure_limit, pressures, sources)
SELECT tenant_id, run_id, external_id, root_task_id, parent_run_id, resumed_from,
    attempt, job_type, agent, release, started_at, decode(started_digest, 'hex'), received_at, received_at,
    detail, clock_suspect, sanitized, -1, 0, 0, 0, 0, '', '{}', '[]'
FROM json_to_recordset(%s) AS sign (tenant_id int, run_id uuid, external_id text, root_task_id text,
    parent_run_id uuid, resumed_from uuid, attempt smallint, job_type text, agent text, release text,
    started_at timestamptz, started_digest text, received_at timestamptz, detail json,
    clock_suspect boolean, sanitized boolean)
ORDER BY tenant_id, run_id
ON CONFLICT (tenant_id, run_id) DO UPDATE SET
    root_task_id = excluded.root_task_id, parent_run_id = excluded.parent_run_id,
    resumed_from = excluded.resumed_from, attempt = excluded.attempt, job_type = excluded.job_type,
    agent = excluded.agent, release = excluded.release, started_at = excluded.started_at,
    started_digest = excluded.started_digest, detail = excluded.detail,
    last_at = greatest(live.last_at, excluded.last_at),
    clock_suspect = live.clock_suspect OR excluded.clock_suspect,
    sanitized = live.sanitized OR excluded.sanitized"""
_BEAT = """
INSERT INTO live_run AS live (tenant_id, run_id, external_id, started_at, received_at, last_at,
    seq, steps, turns, cost, pressure, pressure_limit, pressures, sources, clock_suspect, sanitized,
    root_task_id, attempt, job_type, agent, release, detail)
SELECT tenant_id, run_id, external_id, started_at, received_at, received_at,
    seq, steps, turns, cost, pressure, pressure_limit, pressures, sources, clock_suspect, sanitized,
    external_id, 1, '', '', '', '{}'
FROM json_to_recordset(%s) AS sign (tenant_id int, run_id uuid, external_id text, started_at timestamptz,
    received_at timestamptz, seq int, steps int, turns int, cost numeric, pressure smallint,
    pressure_limit text, pressures json, sources json, clock_suspect boolean, sanitized boolean)
ORDER BY tenant_id, run_id
ON CONFLICT (tenant_id, run_id) DO UPDATE SET
    seq = excluded.seq, steps = excluded.steps, turns = excluded.turns, cost = excluded.cost,
    pressure = excluded.pressure, pressure_limit = excluded.pressure_limit,
    pressures = excluded.pressures, sources = excluded.sources,
    last_at = greatest(live.last_at, excluded.last_at),
    clock_suspect = live.clock_suspect OR excluded.clock_suspect,
    sanitized = live.sanitized OR excluded.sanitized"""
_DELETE = "DELETE FROM live_run WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])"


@dataclass(slots=True, eq=False)
class Taken:
    """A sign that says something new, and the id that its run lives under."""

    row: Sign
    run_id: bytes
    new_id: bool = False  # it was made for the sign's ``external_id``

    @property
    def key(self) -> tuple[int, bytes]:
        return self.row.tenant_id, self.run_id

    @property
    def mapping(self) -> tuple[int, str, bytes] | None:
        """What is to be mapped before the run is found again by its ``external_id``."""
        return (self.row.tenant_id, str(self.row.foreign_id), self.run_id) if self.new_id else None


def take_signs(rows: Sequence[Sign], known: Known, recorded: Recorded) -> list[Taken]:
    """Return the signs of one tenant that change its live runs; the others are noted in ``recorded``.

    A run that has ended lives no longer: its start is taken note of once, its heartbeats are old.
    """
    taken: list[Taken] = []
    for row in rows:
        found = known.find(row)
        if found is not None:
            if isinstance(row, Heartbeat) or known.stored[found].announced:
                recorded.repeat(row.index)
            else:
                recorded.accept(row)
            continue
        run_id = known.live_id(row)
        if run_id is None:
            run_id = uuid7(unix_ms(row.at), secrets.randbits(74)).bytes
            known.mapped[str(row.foreign_id)] = run_id
        live = known.live.get(run_id)
        if live is None:
            live = known.live[run_id] = Live(new=True)
        if _is_news(row, live, recorded):
            taken.append(Taken(row, run_id, new_id=live.new and row.run_id is None))
    return taken


def _is_news(row: Sign, live: Live, recorded: Recorded) -> bool:
    if isinstance(row, Heartbeat):
        if row.seq <= live.seq:
            recorded.repeat(row.index)
            return False
        live.seq = row.seq
        return True
    assert isinstance(row, Started)
    if live.started is None:
        live.started = row.digest
        return True
    if live.started == row.digest:
        recorded.repeat(row.index)
    else:
        recorded.contradict(row.index, "A start", "run_id" if row.run_id else "external_id")
    return False


def write_starts(cursor: CursorWrapper, taken: Sequence[Taken]) -> None:
    """Write what started, in the order of keys; there is one a run."""
    cursor.execute(_START, [_rows(taken)])


def write_beats(cursor: CursorWrapper, taken: Sequence[Taken]) -> None:
    """Write the heartbeats that count, in the order of keys; there is one a run."""
    cursor.execute(_BEAT, [_rows(taken)])


def delete_live(cursor: CursorWrapper, tenant_id: int, run_ids: Iterable[bytes]) -> None:
    """Delete the rows of runs that ended, in the order of keys."""
    cursor.execute(_DELETE, [tenant_id, array(sorted(run_ids))])


def _rows(taken: Sequence[Taken]) -> str:
    """Return the signs' columns with their places as a JSON array."""
    rows = [
        b'{"tenant_id":%d,"run_id":"%s",%s'
        % (one.row.tenant_id, one.run_id.hex().encode(), one.row.columns[1:])
        for one in taken
    ]
    return (b"[" + b",".join(rows) + b"]").decode()
