"""The runs list as a file: exactly the rows that its filters match, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.addresses import first_page, tidy
from guardops.export import Cell, file_response, range_name
from guardops.tenants.access import visible
from guardops.viewer import current_zone
from runs.filters import RunFilter
from runs.keyset import Sort, in_order
from runs.models import Run
from runs.reports.asked import tenant_ids_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runs.querysets import RunQuerySet
    from runs.reports.metrics import Window

COLUMNS = {
    "at": "at",
    "tenant": "tenant_id",
    "run_id": "run_id",
    "job_type": "job_type",
    "agent": "agent",
    "release": "release",
    "root_task_id": "root_task_id",
    "parent_run_id": "parent_run_id",
    "attempt": "attempt",
    "outcome": "outcome",
    "answer": "answer",
    "halt_reason": "halt_reason",
    "family": "family",
    "mode": "mode",
    "would_halt": "would_halt",
    "started_at": "started_at",
    "ended_at": "ended_at",
    "received_at": "received_at",
    "steps": "steps",
    "step_unit": "step_unit",
    "step_cap": "step_cap",
    "turns": "turns",
    "tool_calls": "tool_calls",
    "duration_ms": "duration_ms",
    "cost_usd": "cost",
    "cost_basis": "cost_basis",
    "tokens_input": "tokens_input",
    "tokens_output": "tokens_output",
    "tokens_cached": "tokens_cached",
    "looped": "looped",
    "provider_failure": "provider_failure",
    "completes_task": "completes",
    "blocked": "blocked",
    "duplicates": "duplicates",
    "guard_version": "guard_version",
}
"""The file's columns, by the names of the wire format where it has one, and what of a run each holds."""

_ROWS_AT_ONCE = 2_000
_STRETCH = timedelta(days=1)


@require_GET
def run_export(request: HttpRequest, form: str = "csv") -> HttpResponseBase:
    params, seen = first_page(tidy(request.GET)), visible(request.user)
    tenants = tenant_ids_of(params.get("tenant", ""), seen)
    runs = Run.objects.for_tenants(tenants)
    chosen = RunFilter(params, runs, now=timezone.now(), zone=current_zone())
    window = chosen.form.window
    if chosen.form.errors or window is None:
        context = {"form": chosen.form, "query": params.urlencode()}
        return render(request, "runs/export_invalid.html", context, status=400)
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    rows = read_rows(chosen.qs, chosen.form.order, window, slugs)
    return file_response(form, range_name("runs", window.start, window.end), list(COLUMNS), rows)


def read_rows(
    runs: RunQuerySet, sort: Sort, window: Window, tenants: Mapping[int, str]
) -> Iterator[Sequence[Cell]]:
    """Yield the file's rows of ``runs``, all as they were at one moment.

    It must be the outermost transaction. Each statement reads on for some rows, so that none takes long,
    however many there are in all.
    """
    nested = connection.in_atomic_block  # in a test's transaction only: anywhere else ``durable`` refuses
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if not nested:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL jit = off")
        for start, end in _stretches(window, sort):
            found = in_order(runs.between(start, end), sort).values_list(*COLUMNS.values())
            for row in found.iterator(chunk_size=_ROWS_AT_ONCE):
                yield _row(row, tenants)


def _row(values: Sequence[Cell], tenants: Mapping[int, str]) -> Sequence[Cell]:
    row = dict(zip(COLUMNS, values, strict=True))
    row["tenant"] = tenants.get(cast(int, row["tenant"]), "")  # none for one made since the request began
    row["root_task_id"] = row["root_task_id"] or row["run_id"]
    return list(row.values())


def _stretches(window: Window, sort: Sort) -> list[tuple[datetime, datetime]]:
    """Return the window's days in the order of the list; all as one where that is not the order of time.

    A database sorts what it is asked for before it gives the first row: a day is soon sorted.
    """
    if sort.key != "at":
        return [(window.start, window.end)]
    count = -(-(window.end - window.start) // _STRETCH)
    starts = [window.start + number * _STRETCH for number in range(count)]
    days = [(start, min(start + _STRETCH, window.end)) for start in starts]
    return days[::-1] if sort.descending else days
