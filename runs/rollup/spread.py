"""How a cell of new runs becomes rows of the roll-ups: by cut, by grain, under its tenant and tenant 0."""

from __future__ import annotations

from runs.choices import Cut, Grain

from . import projection
from .projection import COUNTS, every

MINUTES = {Grain.QUARTER: 15, Grain.HOUR: 60, Grain.DAY: 1440}
KEY = ("tenant_id", "cut", "grain", "job_type", "release", "at")
HISTOGRAM_KEY = ("tenant_id", "cut", "grain", "job_type", "release", "step_unit", "at")
REASONS = ("reasons", "reasons_runs")
ARRAYS = ("steps", "steps_tasks", "durations", "durations_tasks")

_CUTS = {
    Cut.ALL: "(0, false, false)",
    Cut.JOB: "(1, true, false)",
    Cut.RELEASE: "(2, false, true)",
    Cut.JOB_RELEASE: "(3, true, true)",
}


def _spread(cells: str, cuts: tuple[Cut, ...]) -> str:
    """Return the FROM clause that repeats each cell for every row it is added to."""
    return f"""\
({cells}) AS c
CROSS JOIN LATERAL (VALUES (c.tenant_id), (0)) AS t(tenant_id)
CROSS JOIN (VALUES {", ".join(_CUTS[cut] for cut in cuts)}) AS k(cut, by_job, by_release)
CROSS JOIN LATERAL (
    SELECT {Grain.QUARTER} AS grain, c.at
    UNION ALL SELECT {Grain.HOUR}, {every(60, "c.at")} WHERE c.at < %(hours_to)s
    UNION ALL SELECT {Grain.DAY}, {every(1440, "c.at")} WHERE c.at < %(days_to)s
) AS g(grain, at)"""


_KEY_SQL = """\
t.tenant_id, k.cut, g.grain, CASE WHEN k.by_job THEN c.job_type ELSE '' END AS job_type,
    CASE WHEN k.by_release THEN c.release ELSE '' END AS release"""


def rollup_rows(where: str) -> str:
    sums = ", ".join(f"sum(c.{name}) AS {name}" for name in COUNTS)
    cells = _spread(projection.counts(where), tuple(Cut))
    return with_reasons(
        f"SELECT {_KEY_SQL}, g.at, c.reason, sum(c.stopped) AS reason_runs, {sums} FROM {cells}"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7"
    )


def with_reasons(by_reason: str) -> str:
    """Return one row a cell from one row a cell and reason."""
    stopped = "FILTER (WHERE reason <> '')"
    return f"""\
SELECT {", ".join(KEY)}, {", ".join(f"sum({name}) AS {name}" for name in COUNTS)},
    coalesce(array_agg(reason ORDER BY reason) {stopped}, '{{}}') AS reasons,
    coalesce(array_agg(reason_runs::int ORDER BY reason) {stopped}, '{{}}') AS reasons_runs
FROM ({by_reason}) AS r GROUP BY 1, 2, 3, 4, 5, 6"""


def histogram_rows(where: str) -> str:
    """Return histogram rows; only job types have them, since steps of different jobs are never pooled."""
    cells = _spread(projection.values(where), (Cut.JOB, Cut.JOB_RELEASE))
    return as_arrays(
        f"SELECT {_KEY_SQL}, c.step_unit, g.at, c.measure, c.value, sum(c.tasks) AS tasks,"
        f" sum(c.near_cap) AS near_cap, max(c.cap) AS cap FROM {cells} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"
    )


def as_arrays(by_value: str) -> str:
    """Return one row a cell from one row a cell, measure and value."""
    return f"""\
SELECT {", ".join(HISTOGRAM_KEY)},
    sum(tasks) FILTER (WHERE measure = 0)::int AS tasks, sum(near_cap)::int AS near_cap, max(cap) AS cap,
    array_agg(value ORDER BY value) FILTER (WHERE measure = 0) AS steps,
    array_agg(tasks::int ORDER BY value) FILTER (WHERE measure = 0) AS steps_tasks,
    array_agg(value ORDER BY value) FILTER (WHERE measure = 1) AS durations,
    array_agg(tasks::int ORDER BY value) FILTER (WHERE measure = 1) AS durations_tasks
FROM ({by_value}) AS v GROUP BY 1, 2, 3, 4, 5, 6, 7"""
