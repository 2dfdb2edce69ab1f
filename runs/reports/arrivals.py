"""When releases came: the first quarter-hour of each in a job type that had run without it before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from runs.choices import Cut, Grain
from runs.rollup.state import State

KNOWN_FOR = timedelta(days=30)
"""A release that ran so long before is no new one."""
MOST = 400

# Days as far as they are copied, then hours, then quarter-hours: some forty rows a release. Only those that
# are new by them are looked at by the quarter-hour.
_FIRST_SEEN = """\
WITH seen AS (
    SELECT tenant_id, job_type, release, min(at) AS first FROM rollup
    WHERE tenant_id = ANY(%(tenants)s) AND cut = %(cut)s AND runs > 0 AND (
        (grain = %(day)s AND at >= %(known)s AND at < least(%(days_to)s, %(end)s))
        OR (grain = %(hour)s AND at >= %(days_to)s AND at < least(%(hours_to)s, %(end)s))
        OR (grain = %(quarter)s AND at >= %(hours_to)s AND at < %(end)s)
    ) GROUP BY 1, 2, 3
), begun AS (
    SELECT tenant_id, job_type, min(first) AS first FROM seen GROUP BY 1, 2
)
SELECT s.tenant_id, s.job_type, s.release, q.at
FROM seen AS s JOIN begun AS b USING (tenant_id, job_type)
CROSS JOIN LATERAL (
    SELECT min(at) AS at FROM rollup AS r WHERE r.tenant_id = s.tenant_id AND r.cut = %(cut)s
        AND r.grain = %(quarter)s AND r.job_type = s.job_type AND r.release = s.release
        AND r.runs > 0 AND r.at >= s.first AND r.at < s.first + interval '1 day'
) AS q
CROSS JOIN LATERAL (
    SELECT min(at) AS at FROM rollup AS r WHERE r.tenant_id = s.tenant_id AND r.cut = %(job_cut)s
        AND r.grain = %(quarter)s AND r.job_type = s.job_type AND r.release = ''
        AND r.runs > 0 AND r.at >= b.first AND r.at < b.first + interval '1 day'
) AS o
WHERE s.release <> '' AND s.first >= %(start)s - interval '1 day' AND q.at >= %(start)s AND q.at > o.at
ORDER BY q.at DESC, s.tenant_id, s.job_type, s.release LIMIT %(most)s"""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A release, prompt version included, of one tenant's job type; ``at`` is a quarter-hour's start."""

    tenant_id: int
    job_type: str
    release: str
    at: datetime


def read_arrivals(tenant_ids: Collection[int], start: datetime, end: datetime) -> list[Arrival]:
    """Return the releases that came in [start, end), the newest first, ``MOST`` at most.

    The one with which a job type began is none: nothing ran before it.
    """
    with connection.cursor() as cursor:
        state = State.read(cursor)
        if state is None or not tenant_ids:
            return []
        cursor.execute(
            _FIRST_SEEN,
            {
                "tenants": sorted(tenant_ids),
                "cut": int(Cut.JOB_RELEASE),
                "job_cut": int(Cut.JOB),
                "day": int(Grain.DAY),
                "hour": int(Grain.HOUR),
                "quarter": int(Grain.QUARTER),
                "days_to": state.days_to,
                "hours_to": state.hours_to,
                "known": start - KNOWN_FOR,
                "start": start,
                "end": end,
                "most": MOST,
            },
        )
        return [Arrival(*row) for row in cursor.fetchall()]
