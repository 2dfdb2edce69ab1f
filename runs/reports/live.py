"""What runs right now: how many, how many are near a limit and which, how many have gone silent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Case, CharField, Count, F, Q, Value, When

from runs.models import LiveRun
from runs.querysets import NEAR_LIMIT_PERCENT, SILENT_AFTER, LiveRunQuerySet

from .metrics import LiveCounts, Scope


def live_runs(tenant_ids: Sequence[int], job_type: str | None, release: str | None) -> LiveRunQuerySet:
    """Return the live runs of these tenants, narrowed as the overview is."""
    runs: LiveRunQuerySet = LiveRun.objects.for_tenants(tenant_ids)
    if job_type:
        runs = runs.of_job(job_type)
    return runs.of_release(release) if release else runs


def read_live(scope: Scope, now: datetime) -> LiveCounts:
    """Count the live runs of a scope, in one query that returns a row a limit."""
    near = Q(pressure__gte=NEAR_LIMIT_PERCENT)
    rows = (
        live_runs(scope.tenant_ids, scope.job_type, scope.release)
        .values(
            near=Case(When(near, then=F("pressure_limit")), default=Value(None), output_field=CharField())
        )
        .annotate(runs=Count("run_id"), silent=Count("run_id", filter=Q(last_at__lt=now - SILENT_AFTER)))
        .order_by()
    )
    counted = [(row["near"], row["runs"], row["silent"]) for row in rows]
    limits = sorted(((name, runs) for name, runs, _ in counted if name is not None), key=_most)
    return LiveCounts(
        runs=sum(runs for _, runs, _ in counted),
        pressed=sum(runs for _, runs in limits),
        silent=sum(silent for _, _, silent in counted),
        limits=tuple(limits),
    )


def _most(limit: tuple[str, int]) -> tuple[int, str]:
    return -limit[1], limit[0]
