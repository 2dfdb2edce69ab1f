"""Sources in stopped runs of several tenants, in the last seven UTC days whatever the page's range is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from guardops.tenants.access import Visible
from guardops.tenants.models import Tenant
from runs.sources.counts import Days
from runs.sources.crossing import LEAST_TENANTS
from runs.sources.radar import Row, State, read_radar
from runs.sources.signals import DAYS
from runs.sources.urls import page_of, runs_of

MOST = 5


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source that stands out, with the list of the reader's own stopped runs that used it."""

    row: Row
    page: str
    stopped: str


def sources_panel(seen: Visible, tenant: str, now: datetime) -> Sequence[SourceLine] | None:
    """Return the sources that stand out, those with the highest lift; of one tenant where it is chosen.

    None where the installation has too few tenants for any.
    """
    if Tenant.objects.count() < LEAST_TENANTS:
        return None
    tenants = [seen.by_slug(tenant)] if tenant else seen.tenants
    days = Days.until(now, DAYS)
    rows = [row for row in read_radar(seen, tenants, days, now).rows if _stands_out(row)]
    return [
        SourceLine(row, page_of(row.source), runs_of(row.source, days, stopped=True, tenant=tenant))
        for row in rows[:MOST]
    ]


def _stands_out(row: Row) -> bool:
    return row.crossing is not None and row.crossing.stands_out and row.state != State.ALLOWED
