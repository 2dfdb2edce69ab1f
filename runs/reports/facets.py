"""What the filters offer: the job types and releases that ran in the window, and whether any ever ran."""

from __future__ import annotations

from runs.choices import Cut

from .pieces import FROM_PIECES, parameters
from .reading import Reading

_NAMES = f"""\
SELECT DISTINCT r.name FROM {FROM_PIECES} CROSS JOIN LATERAL (
    SELECT {{column}} AS name FROM rollup WHERE tenant_id = ANY(%(tenant_ids)s) AND cut = %(cut)s
        AND grain = p.grain AND at >= p.start AND at < p.until OFFSET 0
) AS r"""


def read_job_types(reading: Reading) -> tuple[str, ...]:
    return _names(reading, "job_type", Cut.JOB)


def read_releases(reading: Reading) -> tuple[str, ...]:
    return _names(reading, "release", Cut.RELEASE)


def any_runs(reading: Reading) -> bool:
    """Say whether these tenants have ever sent a run."""
    if reading.tail.rows:
        return True
    reading.cursor.execute(
        "SELECT EXISTS (SELECT FROM rollup WHERE tenant_id = ANY(%s) AND cut = %s)",
        [reading.tenant_ids, int(Cut.ALL)],
    )
    return bool(reading.cursor.fetchone()[0])


def _names(reading: Reading, column: str, cut: Cut) -> tuple[str, ...]:
    window = reading.window
    pieces = reading.pieces(window.start, window.end)
    found = {cell[column] for cell in reading.tail.counts if window.start <= cell["at"] < window.end}
    if pieces:
        reading.cursor.execute(
            _NAMES.format(column=column),
            parameters(pieces) | {"tenant_ids": reading.tenant_ids, "cut": int(cut)},
        )
        found.update(name for (name,) in reading.cursor.fetchall())
    return tuple(sorted(found))
