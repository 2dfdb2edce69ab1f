"""What keeps live runs bounded: a guard that dies never says that its runs ended, and one may lie."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Count, Min, Q

from runs.models import LiveRun

from .record import lock_tenants

LIVE_DAYS = 7
"""A live run goes when it has given no sign of life for so long; one more makes it live again."""
MAX_LIVE = 100_000
"""Live runs that a tenant keeps: those that gave the last signs."""
PAGE = 5_000
"""Rows that one transaction deletes at most: the tenant's posts wait no longer for it than for each other."""
_LAST_KEPT = """
SELECT last_at FROM live_run WHERE tenant_id = %s ORDER BY last_at DESC OFFSET %s LIMIT 1"""
# By its key in `ExternalRun` goes the id that stood for the run, too.
_DELETE = """
WITH gone AS (
    DELETE FROM live_run WHERE tenant_id = %(tenant)s AND run_id = ANY(ARRAY(
        SELECT run_id FROM live_run WHERE tenant_id = %(tenant)s AND last_at <= %(until)s
        ORDER BY last_at LIMIT %(page)s))
    RETURNING tenant_id, external_id, run_id
), unmapped AS (
    DELETE FROM external_run USING gone WHERE gone.external_id <> ''
        AND external_run.tenant_id = gone.tenant_id AND external_run.run_id = gone.run_id
        AND external_run.external_id = 'external:' || gone.external_id
)
SELECT count(*) FROM gone"""


def sweep_live(now: datetime) -> int:
    """Delete live runs that were silent for too long, and those beyond what a tenant keeps; return how many.

    Safe to run twice at once, and beside ingest: each page of rows is deleted under its tenant's lock. Raises
    OperationalError where a lock takes longer than two seconds; what is done stays done.
    """
    silent = now - timedelta(days=LIVE_DAYS)
    return sum(deleted for tenant_id, until in _due(silent) for deleted in _delete(tenant_id, until))


def _due(silent: datetime) -> list[tuple[int, datetime]]:
    """Return the tenants with something to delete, and up to which last sign of life."""
    due = []
    tenants = (
        LiveRun.objects.values("tenant_id")
        .annotate(runs=Count("run_id"), first=Min("last_at"))
        .filter(Q(first__lte=silent) | Q(runs__gt=MAX_LIVE))
        .order_by("tenant_id")
    )
    with connection.cursor() as cursor:
        for tenant in tenants:
            cursor.execute(_LAST_KEPT, [tenant["tenant_id"], MAX_LIVE])
            beyond = cursor.fetchone()
            due.append((tenant["tenant_id"], max(silent, beyond[0]) if beyond else silent))
    return due


def _delete(tenant_id: int, until: datetime) -> Iterator[int]:
    deleted = PAGE
    while deleted == PAGE:
        with transaction.atomic(), connection.cursor() as cursor:
            lock_tenants(cursor, [tenant_id])
            cursor.execute(_DELETE, {"tenant": tenant_id, "until": until, "page": PAGE})
            deleted = cursor.fetchone()[0]
        yield deleted
