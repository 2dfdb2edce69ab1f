"""What runs did with a source: how many completed with it, and which ones guards propose to block.

Everything is read by tenant: the caller names those whose runs may be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Sum

from runs.models import SourceDay
from runs.partitions import run_id_bounds

from .metrics import AsOf, Scope, Window
from .reading import Reading, open_reading

DAYS = 30
PROPOSED_DAYS = 7
MOST_TENANTS = 20
MOST_RUNS = 2_000
"""The newest stopped runs that are read for proposals: of one tenant, or of several together."""
MOST_PROPOSED = 200
_OTHER = ""  # the name under which a day counts what came after its first 200 names


@dataclass(frozen=True, slots=True)
class Use:
    """Runs of one tenant that used a source in the last 30 UTC days."""

    tenant_id: int
    completed: int = 0
    stopped: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Used:
    """``at_least`` says that a day of a tenant had more names than are kept, so there may have been more."""

    uses: Sequence[Use]
    at_least: bool
    as_of: AsOf

    @property
    def completed(self) -> int:
        return sum(use.completed for use in self.uses)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A source that guards named when they stopped runs of a tenant."""

    tenant_id: int
    kind: str
    name: str
    runs: int
    quarantined: bool
    last_at: datetime
    last_run: UUID


def read_used(tenant_ids: Sequence[int], kind: str, name: str, now: datetime) -> Used:
    """Count the runs of these tenants that used a source, the unfolded ones too; it opens the snapshot."""
    [used] = read_uses(tenant_ids, [(kind, name)], now).values()
    return used


def read_uses(
    tenant_ids: Sequence[int], sources: Sequence[tuple[str, str]], now: datetime
) -> dict[tuple[str, str], Used]:
    """The same of several sources, in as many statements as of one."""
    today = now.astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in range(DAYS)]
    start = datetime.combine(days[-1], time(), UTC)
    window = Window(start, datetime.combine(today + timedelta(days=2), time(), UTC), timedelta(days=1))
    with open_reading(Scope(tuple(tenant_ids)), window, now) as reading:
        rows = _folded(reading, sources, [*days, today + timedelta(days=1)])
        rows += [cell for cell in reading.tail.sources if cell["day"] >= days[-1]]
        as_of = reading.as_of
    return {source: _used(source, rows, as_of) for source in sources}


def _folded(reading: Reading, sources: Sequence[tuple[str, str]], days: Sequence[Any]) -> list[Any]:
    counted = SourceDay.objects.filter(
        tenant_id__in=reading.tenant_ids,
        # Each day by itself: the key begins with tenant and day.
        day__in=days,
        kind__in={kind for kind, _ in sources},
        name__in={name for _, name in sources} | {_OTHER},
    )
    sums = {name: Sum(name) for name in ("completed", "stopped", "calls")}
    return list(counted.values("tenant_id", "kind", "name").annotate(**sums))


def _used(source: tuple[str, str], rows: Sequence[Any], as_of: AsOf) -> Used:
    uses: dict[int, Use] = {}
    for row in rows:
        if (row["kind"], row["name"]) == source:
            tenant_id = row["tenant_id"]
            use = uses.get(tenant_id, Use(tenant_id))
            uses[tenant_id] = Use(
                tenant_id,
                use.completed + row["completed"],
                use.stopped + row["stopped"],
                use.calls + int(row["calls"]),
            )
    at_least = any(row["kind"] == source[0] and row["name"] == _OTHER and row["completed"] for row in rows)
    in_order = sorted(uses.values(), key=lambda use: (-use.completed, -use.stopped, use.tenant_id))
    return Used(in_order, at_least, as_of)


# Tenant by tenant, so that each reads the end of its index on time.
_PROPOSED = """\
SELECT tenant_id, kind, name, count(*)::int, bool_or(quarantined), max(at),
    (array_agg(run_id ORDER BY at DESC, run_id DESC))[1]
FROM unnest(%(tenant_ids)s::int[]) AS asked(id)
CROSS JOIN LATERAL (
    SELECT tenant_id, run_id, at, detail -> 'sources' AS sources FROM run
    WHERE tenant_id = asked.id AND halt_reason <> '' AND at >= %(start)s AND at < %(end)s
        AND run_id >= %(low)s AND run_id < %(high)s
    ORDER BY at DESC, run_id DESC LIMIT %(most)s
) AS stopped
CROSS JOIN LATERAL (
    SELECT kind, name, bool_or(coalesce(quarantined, false)) AS quarantined
    FROM json_to_recordset(sources) AS s(kind text, name text, quarantined bool, proposed bool)
    WHERE proposed OR quarantined GROUP BY 1, 2
) AS named
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 6 DESC, 1, 2, 3 LIMIT %(rows)s"""


def read_proposed(tenant_ids: Sequence[int], now: datetime) -> list[Proposal]:
    """Return what guards of these tenants, at most 20 of them, named in their newest stopped runs."""
    ids = list(tenant_ids)[:MOST_TENANTS]
    start, end = now - timedelta(days=PROPOSED_DAYS), now + timedelta(minutes=5)
    low, high = run_id_bounds(start, end)
    parameters: dict[str, Any] = {
        "tenant_ids": ids,
        "start": start,
        "end": end,
        "low": low,
        "high": high,
        "most": runs_read(len(ids)),
        "rows": MOST_PROPOSED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PROPOSED, parameters)
        return [Proposal(*row) for row in cursor.fetchall()]


def runs_read(tenants: int) -> int:
    """Return how many stopped runs of each of so many tenants are read."""
    return MOST_RUNS // max(1, min(tenants, MOST_TENANTS))
