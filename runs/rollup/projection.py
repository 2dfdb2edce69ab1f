"""What a run counts for, as SQL, once: fold adds it up, pages add the tail with it, a recount checks by it.

Every function returns a SELECT over the run table narrowed by ``where``, grouped to cells of a tenant, a
quarter-hour, a job type and a release. Values never enter the text: ``where`` names parameters.
"""

from __future__ import annotations

from guardops.guard.reasons import Family
from runs.querysets import COST_PARTS

ORIGIN = "TIMESTAMPTZ '2000-01-01 00:00:00Z'"
EXACT_STEPS = 10_000
"""Steps from here on keep three digits, so that no sender can make a histogram long."""

_ANSWERED_TASK = "completes AND answer <> 'none'"
_NEAR_CAP = "steps >= step_cap - step_cap / 10"
_STEPS = (
    f"CASE WHEN steps < {EXACT_STEPS} THEN steps"
    " ELSE steps / power(10, floor(log(steps)) - 2)::int * power(10, floor(log(steps)) - 2)::int END"
)
# Eighths of a natural logarithm: a bucket is 13 % wide.
_DURATION = "floor(ln(duration_ms + 1) * 8)::int"


def _outcomes(part: str) -> str:
    return ", ".join(f"'{outcome.value}'" for outcome in COST_PARTS[part])


def _number(condition: str) -> str:
    return f"count(*) FILTER (WHERE {condition})::int"


def _money(condition: str) -> str:
    return f"coalesce(sum(cost) FILTER (WHERE {condition}), 0)"


COUNTS: dict[str, str] = {
    "runs": "count(*)::int",
    "completed": _number("completes"),
    "eligible": _number("eligible"),
    "halted": _number(f"outcome IN ({_outcomes('halted')})"),
    "stopped": _number("halt_reason <> ''"),
    "looped": _number("looped"),
    "forced": _number("outcome = 'completed_forced'"),
    "blocked": _number("blocked > 0"),
    "provider_failures": _number("provider_failure"),
    **{f"halts_{family.value}": _number(f"family = '{family.value}'") for family in Family},
    "duplicates": "sum(duplicates)",
    "tool_calls": "sum(tool_calls)",
    "tokens": "sum(tokens_input + tokens_output)",
    "cost": "sum(cost)",
    **{f"cost_{part}": _money(f"outcome IN ({_outcomes(part)})") for part in COST_PARTS},
    "repeated_cost": _money("attempt >= 2"),
    "loop_cost": _money("looped"),
}
"""Columns of a roll-up's row, and how each is counted from runs."""


def every(minutes: int, column: str = "at") -> str:
    """Return the start of the UTC slot of so many minutes that ``column`` lies in."""
    return f"date_bin('{minutes} minutes', {column}, {ORIGIN})"


_CELL = f"tenant_id, {every(15)} AS at, job_type, release"


def counts(where: str) -> str:
    """Return a cell's ``COUNTS`` by ``reason``, which is empty for runs that no guard stopped."""
    sums = ", ".join(f"{expression} AS {name}" for name, expression in COUNTS.items())
    reason = "CASE family WHEN 'other' THEN 'other' ELSE halt_reason END AS reason"
    return f"SELECT {_CELL}, {reason}, {sums} FROM run WHERE {where} GROUP BY 1, 2, 3, 4, 5"


def values(where: str) -> str:
    """Return a cell's completed, answered tasks by ``step_unit``, ``measure`` and ``value``.

    Measure 0 is steps, 1 the bucket of the duration.
    """
    return f"""\
SELECT {_CELL}, step_unit, m.measure, m.value, count(*)::int AS tasks,
    {_number(f"m.measure = 0 AND {_NEAR_CAP}")} AS near_cap, max(step_cap) AS cap
FROM run CROSS JOIN LATERAL (VALUES (0, {_STEPS}), (1, {_DURATION})) AS m(measure, value)
WHERE {_ANSWERED_TASK} AND {where} GROUP BY 1, 2, 3, 4, 5, 6, 7"""


def sources(where: str) -> str:
    """Return what each source of each tenant and UTC ``day`` counts for; a run counts once for a source.

    All of a tenant's runs of a day are counted as well, under no kind and no name: what a source's runs are
    a share of.
    """
    day = f"{every(1440)}::date AS day"
    stopped, completed = _number("halt_reason <> ''"), _number("outcome = 'completed'")
    ended = f"{stopped} AS stopped, {completed} AS completed"
    return f"""\
SELECT tenant_id, {day}, '' COLLATE "C" AS kind, '' COLLATE "C" AS name, {ended},
    sum(tool_calls)::bigint AS calls, sum(cost) AS cost
FROM run WHERE {where} GROUP BY 1, 2
UNION ALL SELECT tenant_id, {day}, kind, name, {ended}, sum(calls)::bigint, sum(cost)
FROM run CROSS JOIN LATERAL (
    SELECT kind COLLATE "C" AS kind, name COLLATE "C" AS name, coalesce(sum(calls), 0) AS calls
    FROM json_to_recordset(detail -> 'sources') AS s(kind text, name text, calls bigint) GROUP BY 1, 2
) AS used
WHERE {where} GROUP BY 1, 2, 3, 4"""
