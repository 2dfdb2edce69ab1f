"""Counts what a change of caps makes of the runs of one stretch of time: `runs.advisor.replay`, as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from guardops.guard.events import Outcome
from runs.partitions import run_id_bounds

from .caps import Amount
from .replay import PRICED, CapChange, Fate, Tally


@dataclass(frozen=True, slots=True)
class Stratum:
    """Runs for which the same caps change: of these tenants, and of these job types or of all but them."""

    tenant_ids: tuple[int, ...]
    job_types: tuple[str, ...]
    changes: tuple[CapChange, ...]
    all_but: bool = False

    def holds(self, tenant_id: int, job_type: str) -> bool:
        return tenant_id in self.tenant_ids and (job_type in self.job_types) is not self.all_but


class Listed(NamedTuple):
    """A run whose fate is listed; in the order of the list, the newest last."""

    fate: int
    tenant_id: int
    run_id: UUID


_COMPLETED = f"outcome = '{Outcome.COMPLETED.value}'"
_FAILED = f"outcome IN ('{Outcome.FAILED.value}', '{Outcome.CANCELLED.value}')"
_WAS_STOPPED = f"(halt_reason <> '' AND NOT {_COMPLETED})"
_STEPS = "coalesce(nullif(steps, 0), nullif(turns, 0), 1)::numeric"
_PART = "{done} * ({done} + 1) / ({steps} * ({steps} + 1))"

# Literal tenants and job types prune and estimate; the fences of OFFSET 0 find each flag only once.
_FLAGGED = """\
SELECT outcome, cost, tenant_id, run_id, at, {flags}, {kept}, {was_stopped} AS was_stopped
FROM run WHERE tenant_id = ANY(%(tenant_ids)s) AND at >= %(start)s AND at < %(end)s
    AND run_id >= %(low)s AND run_id < %(high)s AND {jobs} OFFSET 0"""
_JUDGED = """\
SELECT *, NOT was_stopped AND ({newly}) AS stopped, was_stopped AND ({sooner}) AS sooner,
    was_stopped AND ({spared}) AND NOT ({sooner}) AS no_longer,
    cost * (least({kept_before}) - least({kept_after})) AS saved
FROM ({flagged}) AS flagged OFFSET 0"""


class Query:
    """The SQL of a stratum; every value in it is a parameter."""

    def __init__(self, stratum: Stratum, start: datetime, end: datetime) -> None:
        low, high = run_id_bounds(start, end)
        self.stratum = stratum
        self.given: dict[str, Any] = {
            "tenant_ids": list(stratum.tenant_ids),
            "job_types": list(stratum.job_types),
            "start": start,
            "end": end,
            "low": low,
            "high": high,
        }
        self._changes = list(enumerate(stratum.changes))

    @property
    def counts(self) -> str:
        sums = [
            "count(*)",
            f"count(*) FILTER (WHERE {_COMPLETED})",
            "count(*) FILTER (WHERE stopped)",
            f"count(*) FILTER (WHERE stopped AND {_COMPLETED})",
            f"count(*) FILTER (WHERE stopped AND {_FAILED})",
            "count(*) FILTER (WHERE sooner)",
            "count(*) FILTER (WHERE no_longer)",
            "coalesce(sum(saved) FILTER (WHERE stopped OR sooner), 0)",
            f"coalesce(sum(saved) FILTER (WHERE stopped AND {_COMPLETED}), 0)",
        ]
        for place, change in self._changes:
            hit = f"(stopped AND newly{place} OR sooner AND sooner{place})"
            saved = f"cost * (before{place} - after{place})" if _priced(change) else "0"
            sums += [
                f"count(*) FILTER (WHERE stopped AND newly{place})",
                f"count(*) FILTER (WHERE stopped AND newly{place} AND {_COMPLETED})",
                f"count(*) FILTER (WHERE sooner AND sooner{place})",
                f"count(*) FILTER (WHERE no_longer AND spared{place})",
                f"coalesce(sum({saved}) FILTER (WHERE {hit}), 0)",
            ]
        return f"SELECT {', '.join(sums)} FROM ({self._judged}) AS judged"

    @property
    def listed(self) -> str:
        """The runs to list, by fate and then the newest first."""
        fate = (
            f"CASE WHEN stopped AND {_COMPLETED} THEN {Fate.FALSE_STOP:d}"
            f" WHEN stopped THEN {Fate.STOPPED:d} ELSE {Fate.NO_LONGER:d} END"
        )
        return (
            f"SELECT {fate}, tenant_id, run_id FROM ({self._judged}) AS judged"
            " WHERE stopped OR no_longer ORDER BY 1, at DESC, run_id DESC LIMIT %(most)s"
        )

    @property
    def _judged(self) -> str:
        places = [place for place, change in self._changes if change.tightens]
        priced = [place for place, change in self._changes if _priced(change)]
        return _JUDGED.format(
            newly=_any("newly", places),
            sooner=_any("sooner", places),
            spared=_any("spared", [place for place, _ in self._changes]),
            kept_before=", ".join(["1", *(f"before{place}" for place in priced)]),
            kept_after=", ".join(["1", *(f"after{place}" for place in priced)]),
            flagged=self._flagged,
        )

    @property
    def _flagged(self) -> str:
        job = "NOT job_type = ANY(%(job_types)s)" if self.stratum.all_but else "job_type = ANY(%(job_types)s)"
        return _FLAGGED.format(
            flags=", ".join(flag for place, change in self._changes for flag in self._flags(place, change)),
            kept=", ".join(
                f"{self._kept(change, value)} AS {when}{place}"
                for place, change in self._changes
                for when, value in (("before", change.before), ("after", change.after))
            ),
            was_stopped=_WAS_STOPPED,
            jobs=job,
        )

    def _flags(self, place: int, change: CapChange) -> Iterator[str]:
        cap, before, after = change.cap, change.before, change.after
        meets = f"{cap.column} >= {self._value(cap.meets_from(after))}" if after is not None else "false"
        met = f"{cap.column} >= {self._value(cap.meets_from(before))}" if before is not None else "false"
        tightens = "true" if change.tightens else "false"
        yield f"{tightens} AND {meets} AND NOT ({met}) AS newly{place}"
        sooner = f"{cap.column} > {self._value(after)}" if cap.total and after is not None else meets
        yield f"{tightens} AND {sooner} AS sooner{place}"
        if before is None or change.tightens:
            yield f"false AS spared{place}"
        else:
            stood = f"{cap.column} >= {self._value(cap.stopped_from(before))}"
            reason = self._value(cap.reason.value)
            yield f"halt_reason = {reason} AND {stood} AND NOT ({meets}) AS spared{place}"

    def _kept(self, change: CapChange, value: Amount | None) -> str:
        """`replay.kept_share`."""
        cap = change.cap
        if value is None or not _priced(change):
            return "1::numeric"
        at = f"{self._value(value)}::numeric"
        match cap.name:
            case "max_cost":
                kept = f"{at} / cost"
            case "max_seconds":
                kept = _PART.format(done=f"ceil({_STEPS} * {at} / duration_ms)", steps=_STEPS)
            case "max_turns":
                kept = _PART.format(done=at, steps="turns::numeric")
            case _:
                kept = _PART.format(done=at, steps="steps::numeric")
        return f"CASE WHEN {cap.column} > {at} THEN {kept} ELSE 1 END"

    def _value(self, value: Amount | str) -> str:
        name = f"v{len(self.given)}"
        self.given[name] = value
        return f"%({name})s"


def _priced(change: CapChange) -> bool:
    return change.tightens and change.cap.name in PRICED


def _any(flag: str, places: Sequence[int]) -> str:
    return " OR ".join(f"{flag}{place}" for place in places) or "false"


def count_fates(stratum: Stratum, start: datetime, end: datetime) -> Tally:
    """Count the runs of a stratum placed in [start, end) by what its changes make of them."""
    query = Query(stratum, start, end)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL jit = off")  # compiling takes longer than reading a day
        cursor.execute(query.counts, query.given)
        row = cursor.fetchone()
    caps = {
        change.cap.name: row[9 + 5 * place : 14 + 5 * place] for place, change in enumerate(stratum.changes)
    }
    return Tally.read(row[:9], caps)


def list_fates(stratum: Stratum, start: datetime, end: datetime, most: int) -> list[Listed]:
    """Return at most so many runs that would newly be stopped, the completed ones first, or no longer."""
    query = Query(stratum, start, end)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL jit = off")
        cursor.execute(query.listed, query.given | {"most": most})
        return [Listed(*row) for row in cursor.fetchall()]
