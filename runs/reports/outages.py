"""Providers that fail now: what makes runs fail is said by its name, and counts in no loop rate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Sum

from runs.models import LoopMinute
from runs.rollup.minutes import minute_of, moment_of

SPAN = timedelta(minutes=30)
FEWEST = 10
SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Outage:
    """Runs of a job type that a provider's failure ended, among those received since ``since``."""

    tenant_id: int
    job_type: str
    runs: int
    failures: int
    since: datetime
    until: datetime


def read_outages(tenant_ids: Collection[int], now: datetime) -> list[Outage]:
    """Return the job types of which a quarter of the last half-hour's runs failed so, the most first."""
    end = minute_of(now)
    start = end - SPAN // timedelta(minutes=1)
    found = (
        LoopMinute.objects.filter(tenant_id__in=tenant_ids, minute__gte=start, minute__lt=end + 1)
        .values("tenant_id", "job_type")
        .annotate(all_runs=Sum("runs"), failed=Sum("provider"))
        .filter(failed__gte=FEWEST)
        .filter(failed__gte=F("all_runs") * SHARE)
        .order_by("-failed", "tenant_id", "job_type")
    )
    return [
        Outage(
            row["tenant_id"],
            row["job_type"],
            row["all_runs"],
            row["failed"],
            moment_of(start),
            moment_of(end + 1),
        )
        for row in found[:5]
    ]
