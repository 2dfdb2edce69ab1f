"""The statements that write the roll-ups: one a table and tick, rows ordered by key; and copies by grain."""

from __future__ import annotations

from runs.choices import Grain

from . import projection
from .projection import COUNTS, HALTS, every
from .spread import (
    ARRAYS,
    HALT_KEY,
    HISTOGRAM_KEY,
    KEY,
    MINUTES,
    as_arrays,
    halt_rows,
    histogram_rows,
    rollup_rows,
)

SOURCES_A_DAY = 200


def _add(table: str, key: tuple[str, ...], sums: tuple[str, ...], rows: str) -> str:
    return f"""\
INSERT INTO {table} ({", ".join((*key, *sums))})
{rows} ORDER BY {", ".join(key)}
ON CONFLICT ({", ".join(key)}) DO UPDATE SET {", ".join(f"{s} = {table}.{s} + excluded.{s}" for s in sums)}"""


def _merged(values: str, tasks: str) -> str:
    """Return the assignment that adds one pair of arrays to the other, by value."""
    return f"""\
({values}, {tasks}) = (
    SELECT array_agg(value ORDER BY value), array_agg(tasks ORDER BY value) FROM (
        SELECT value, sum(tasks)::int AS tasks
        FROM unnest(histogram.{values} || excluded.{values}, histogram.{tasks} || excluded.{tasks})
            AS u(value, tasks)
        GROUP BY value
    ) AS m)"""


def _add_histograms(rows: str) -> str:
    columns = (*HISTOGRAM_KEY, "tasks", "near_cap", "cap", *ARRAYS)
    return f"""\
INSERT INTO histogram ({", ".join(columns)})
{rows} ORDER BY {", ".join(HISTOGRAM_KEY)}
ON CONFLICT ({", ".join(HISTOGRAM_KEY)}) DO UPDATE SET
    tasks = histogram.tasks + excluded.tasks,
    near_cap = histogram.near_cap + excluded.near_cap,
    cap = greatest(histogram.cap, excluded.cap),
    {_merged("steps", "steps_tasks")},
    {_merged("durations", "durations_tasks")}"""


def _add_sources(where: str) -> str:
    """Admit new names up to the day's limit, of stopped runs first; count the rest under the empty name.

    A source counts in tenant 0 as it does in its tenant, so that nobody crowds others out.
    """
    return f"""\
WITH fresh AS MATERIALIZED ({projection.sources(where)}),
taken AS (
    SELECT tenant_id, day, count(*) AS names FROM source_day
    WHERE (tenant_id, day) IN (SELECT DISTINCT tenant_id, day FROM fresh) AND name <> '' GROUP BY 1, 2
),
ranked AS (
    SELECT f.*, d.name IS NOT NULL AS known, row_number() OVER (
        PARTITION BY f.tenant_id, f.day, d.name IS NULL ORDER BY f.stopped DESC, f.calls DESC, f.kind, f.name
    ) AS place
    FROM fresh AS f LEFT JOIN source_day AS d USING (tenant_id, day, kind, name)
),
named AS (
    SELECT r.tenant_id, r.day, r.kind, r.stopped, r.completed, r.calls, r.cost,
        CASE WHEN known OR place + coalesce(taken.names, 0) <= {SOURCES_A_DAY} THEN r.name ELSE '' END AS name
    FROM ranked AS r LEFT JOIN taken USING (tenant_id, day)
)
INSERT INTO source_day (tenant_id, day, kind, name, stopped, completed, calls, cost, organisations)
SELECT t.tenant_id, n.day, n.kind, n.name, sum(n.stopped), sum(n.completed), sum(n.calls), sum(n.cost),
    CASE WHEN t.tenant_id = 0 THEN coalesce(array_agg(DISTINCT o.organisation_id ORDER BY o.organisation_id)
        FILTER (WHERE n.stopped > 0 AND o.organisation_id IS NOT NULL), '{{}}') END
FROM named AS n LEFT JOIN tenants_tenant AS o ON o.id = n.tenant_id
CROSS JOIN LATERAL (VALUES (n.tenant_id), (0)) AS t(tenant_id)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
ON CONFLICT (tenant_id, day, kind, name) DO UPDATE SET
    stopped = source_day.stopped + excluded.stopped,
    completed = source_day.completed + excluded.completed,
    calls = source_day.calls + excluded.calls,
    cost = source_day.cost + excluded.cost,
    organisations = CASE WHEN source_day.tenant_id = 0 THEN
        ARRAY(SELECT DISTINCT unnest(source_day.organisations || excluded.organisations) ORDER BY 1) END"""


def additions(where: str) -> list[str]:
    """Return the statements that add the runs of ``where``, to copies before ``hours_to`` and ``days_to``."""
    return [
        _add("rollup", KEY, tuple(COUNTS), rollup_rows(where)),
        _add("halt_count", HALT_KEY, tuple(HALTS), halt_rows(where)),
        _add_histograms(histogram_rows(where)),
        _add_sources(where),
    ]


def copies(coarse: Grain) -> list[str]:
    """Return the statements that copy the next finer rows of [%(start)s, %(end)s) into ``coarse`` ones."""
    at = every(MINUTES[coarse])
    fine = f"grain = {coarse - 1} AND at >= %(start)s AND at < %(end)s"
    return [
        _copy("rollup", KEY, tuple(COUNTS), coarse, fine),
        _copy("halt_count", HALT_KEY, tuple(HALTS), coarse, fine),
        f"INSERT INTO histogram ({', '.join((*HISTOGRAM_KEY, 'tasks', 'near_cap', 'cap', *ARRAYS))}) "
        + as_arrays(_values_of_histograms(coarse, at, fine)),
    ]


def _copy(table: str, key: tuple[str, ...], sums: tuple[str, ...], coarse: Grain, fine: str) -> str:
    sources = {"grain": f"{coarse}::smallint", "at": every(MINUTES[coarse])}
    return f"""\
INSERT INTO {table} ({", ".join((*key, *sums))})
SELECT {", ".join(sources.get(column, column) for column in key)}, {", ".join(f"sum({s})" for s in sums)}
FROM {table} WHERE {fine} GROUP BY {", ".join(str(place + 1) for place in range(len(key)))}"""


def _values_of_histograms(coarse: Grain, at: str, fine: str) -> str:
    """Return rows by measure and value; measure 2 carries what a cell has once."""
    key = f"tenant_id, cut, {coarse}::smallint AS grain, job_type, release, step_unit, {at} AS at"
    parts = (
        (0, "u.value", "u.tasks", "0", "NULL::int", ", unnest(steps, steps_tasks) AS u(value, tasks)"),
        (
            1,
            "u.value",
            "u.tasks",
            "0",
            "NULL::int",
            ", unnest(durations, durations_tasks) AS u(value, tasks)",
        ),
        (2, "NULL::int", "0", "near_cap", "cap", ""),
    )
    return " UNION ALL ".join(
        f"SELECT {key}, {measure} AS measure, {value} AS value, sum({tasks}) AS tasks,"
        f" sum({near_cap}) AS near_cap, max({cap}) AS cap"
        f" FROM (SELECT * FROM histogram WHERE {fine}) AS h{unnest}"
        f" GROUP BY 1, 2, 3, 4, 5, 6, 7{', 9' if unnest else ''}"
        for measure, value, tasks, near_cap, cap, unnest in parts
    )
