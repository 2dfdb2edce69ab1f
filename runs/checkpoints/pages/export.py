"""The review queue as a file: exactly the rows that its filters match, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.addresses import first_page, tidy
from guardops.export import Cell, file_name, file_response
from guardops.tenants.access import visible
from runs.checkpoints.filters import QueueForm
from runs.checkpoints.queue import Row, in_rows
from runs.models import Checkpoint
from runs.reports.asked import tenant_ids_of
from runs.reports.pages import PageRequest

if TYPE_CHECKING:
    from guardops.tenants.models import User
    from runs.checkpoints.querysets import CheckpointQuerySet

_OF_CHECKPOINT = (
    *("checkpoint_id", "run_id", "external_id", "root_task_id", "attempt", "job_type", "agent", "release"),
    *("reason", "family", "question", "steps", "cost", "uncertain", "approves"),
    *("opened_at", "received_at", "due_at", "expires_at", "on_timeout", "state"),
)
_OF_DECISION = ("at", "deliver_at", "delivered_at", "consumed_at", "attempt_id")
COLUMNS = (
    "tenant",
    *("cost_usd" if name == "cost" else name for name in _OF_CHECKPOINT),
    *("claimed_by", "claimed_until", "decision", "decided_by", "decision_reason"),
    *("decided_at", "deliver_at", "delivered_at", "consumed_at", "next_run_id"),
)
_ROWS_AT_ONCE = 1_000


@require_GET
def review_export(request: PageRequest, form: str = "csv") -> HttpResponseBase:
    params, seen, now = first_page(tidy(request.GET)), visible(request.user), timezone.now()
    tenants = tenant_ids_of(params.get("tenant", ""), seen)
    asked = QueueForm(params)
    if not asked.is_valid():
        context = {"form": asked, "query": params.urlencode()}
        return render(request, "runs/checkpoints/export_invalid.html", context, status=400)
    found = asked.narrow(Checkpoint.objects.for_tenants(tenants), request.user, now)
    rows = _cells(asked.in_order(found), request.user, now)
    return file_response(form, file_name("review", now), COLUMNS, rows)


def _cells(found: CheckpointQuerySet, reader: User, now: datetime) -> Iterator[Sequence[Cell]]:
    """Yield the file's rows, all as they were at one moment; it must be the outermost transaction."""
    nested = connection.in_atomic_block  # in a test's transaction only: anywhere else ``durable`` refuses
    with transaction.atomic(durable=True):
        if not nested:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for checkpoint in in_rows(found).iterator(chunk_size=_ROWS_AT_ONCE):
            yield _row(Row(checkpoint, reader, False, now))


def _row(row: Row) -> Sequence[Cell]:
    checkpoint, made = row.checkpoint, row.decision
    return [
        row.tenant.slug,
        *(getattr(checkpoint, name) for name in _OF_CHECKPOINT),
        row.claimant if row.claimed else "",
        checkpoint.lease_until if row.claimed else None,
        made.action if made else "",
        "GuardOps" if made and made.by_system else row.decider,
        made.reason if made else "",
        *(getattr(made, name) if made else None for name in _OF_DECISION),
    ]
