"""The statements that write the roll-ups: one a table and tick, rows ordered by key; and copies by grain."""

from __future__ import annotations

from runs.choices import Grain

from . import projection
from .projection import COUNTS, every
from .spread import (
    ARRAYS,
    HISTOGRAM_KEY,
    KEY,
    MINUTES,
    REASONS,
    as_arrays,
    histogram_rows,
    rollup_rows,
    with_reasons,
)

SOURCES_A_DAY = 200
_HISTOGRAM = ("tasks", "near_cap", "cap", *ARRAYS)


def _merged(table: str, values: str, runs: str) -> str:
    """Return the assignment that adds one pair of arrays to the other, by value."""
    return f"""\
({values}, {runs}) = (
    SELECT coalesce(array_agg(value ORDER BY value), '{{}}'), coalesce(array_agg(runs ORDER BY value), '{{}}')
    FROM (
        SELECT value, sum(runs)::int AS runs
        FROM unnest({table}.{values} || excluded.{values}, {table}.{runs} || excluded.{runs})
            AS u(value, runs)
        GROUP BY value
    ) AS m)"""


def _add_rollups(rows: str) -> str:
    return f"""\
INSERT INTO rollup ({", ".join((*KEY, *COUNTS, *REASONS))})
{rows} ORDER BY {", ".join(KEY)}
ON CONFLICT ({", ".join(KEY)}) DO UPDATE SET
    {", ".join(f"{name} = rollup.{name} + excluded.{name}" for name in COUNTS)},
    {_merged("rollup", *REASONS)}"""


def _add_histograms(rows: str) -> str:
    return f"""\
INSERT INTO histogram ({", ".join((*HISTOGRAM_KEY, *_HISTOGRAM))})
{rows} ORDER BY {", ".join(HISTOGRAM_KEY)}
ON CONFLICT ({", ".join(HISTOGRAM_KEY)}) DO UPDATE SET
    tasks = histogram.tasks + excluded.tasks,
    near_cap = histogram.near_cap + excluded.near_cap,
    cap = greatest(histogram.cap, excluded.cap),
    {_merged("histogram", "steps", "steps_tasks")},
    {_merged("histogram", "durations", "durations_tasks")}"""


def _add_sources(where: str) -> str:
    """Admit new names up to the day's limit, of stopped runs first; count the rest under the empty name.

    A source counts in tenant 0 as it does in its tenant, so that nobody crowds others out. The row of all of
    a day's runs has no kind and takes no name's place.
    """
    return f"""\
WITH fresh AS MATERIALIZED ({projection.sources(where)}),
taken AS (
    SELECT tenant_id, day, count(*) AS names FROM source_day
    WHERE (tenant_id, day) IN (SELECT DISTINCT tenant_id, day FROM fresh) AND name <> '' GROUP BY 1, 2
),
ranked AS (
    SELECT f.*, d.name IS NOT NULL AS known, row_number() OVER (
        PARTITION BY f.tenant_id, f.day, d.name IS NULL, f.kind = ''
        ORDER BY f.stopped DESC, f.calls DESC, f.kind, f.name
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
        _add_rollups(rollup_rows(where)),
        _add_histograms(histogram_rows(where)),
        _add_sources(where),
    ]


def copies(coarse: Grain) -> list[str]:
    """Return the statements that copy the next finer rows of [%(start)s, %(end)s) into ``coarse`` ones."""
    fine = f"grain = {coarse - 1} AND at >= %(start)s AND at < %(end)s"
    rollups = with_reasons(_counts_of_rollups(coarse, f"(SELECT * FROM rollup WHERE {fine}) AS h"))
    histograms = as_arrays(_values_of_histograms(coarse, f"(SELECT * FROM histogram WHERE {fine}) AS h"))
    return [
        f"INSERT INTO rollup ({', '.join((*KEY, *COUNTS, *REASONS))}) {rollups}",
        f"INSERT INTO histogram ({', '.join((*HISTOGRAM_KEY, *_HISTOGRAM))}) {histograms}",
    ]


def _coarser(key: tuple[str, ...], coarse: Grain) -> str:
    changed = {"grain": f"{coarse}::smallint AS grain", "at": f"{every(MINUTES[coarse])} AS at"}
    return ", ".join(changed.get(column, column) for column in key)


def _counts_of_rollups(coarse: Grain, fine: str) -> str:
    key = _coarser(KEY, coarse)
    sums = ", ".join(f"sum({name}) AS {name}" for name in COUNTS)
    return (
        f"SELECT {key}, '' AS reason, 0 AS reason_runs, {sums} FROM {fine} GROUP BY 1, 2, 3, 4, 5, 6"
        f" UNION ALL SELECT {key}, u.reason, sum(u.runs), {', '.join('0' for _ in COUNTS)}"
        f" FROM {fine}, unnest(reasons, reasons_runs) AS u(reason, runs) GROUP BY 1, 2, 3, 4, 5, 6, 7"
    )


def _values_of_histograms(coarse: Grain, fine: str) -> str:
    """Return rows by measure and value; measure 2 carries what a cell has once."""
    key = _coarser(HISTOGRAM_KEY, coarse)
    by_value = "sum(u.tasks) AS tasks, 0 AS near_cap, NULL::int AS cap"
    steps, durations = (
        f"SELECT {key}, {measure} AS measure, u.value, {by_value}"
        f" FROM {fine}, unnest({values}, {values}_tasks) AS u(value, tasks) GROUP BY 1, 2, 3, 4, 5, 6, 7, 9"
        for measure, values in enumerate(("steps", "durations"))
    )
    once = f"SELECT {key}, 2, NULL, 0, sum(near_cap), max(cap) FROM {fine} GROUP BY 1, 2, 3, 4, 5, 6, 7"
    return f"{steps} UNION ALL {durations} UNION ALL {once}"
