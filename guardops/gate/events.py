"""`POST /api/v1/events`: what guards say of their runs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple

import msgspec
from litestar import Response, post
from litestar.di import NamedDependency

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.redaction import redact_events
from guardops.guard.replies import EventResult, EventsReply
from guardops.tenants.choices import Scope
from guardops.tenants.errors import Forbidden, GuardOpsError
from guardops.tenants.keys import KeyHolder, authenticate
from guardops.tenants.models import Tenant
from runs.ingest.checks import check
from runs.ingest.decode import Arrival, Decoded, Rejected, decode
from runs.ingest.project import project_event
from runs.ingest.record import AnyRow, record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import MAX_BACK, MAX_BACKFILL, Receipt

from .bodies import AnyRequest, discard
from .counts import count_events
from .problems import Refusal
from .services import Services

_AT_ONCE = 32
"""Events that are decoded and looked through for secrets together: enough to save, and few to hold."""


class Prepared(NamedTuple):
    """A request's events, as far as they go without the database."""

    total: int
    rows: list[AnyRow]
    rejected: list[EventResult]
    unknown_fields: int


@post("/api/v1/events", status_code=HTTPStatus.OK)
async def post_events(request: AnyRequest, services: NamedDependency[Services]) -> Response[bytes]:
    try:
        reply = await _receive(request, services)
    except GuardOpsError:
        await discard(request)
        raise
    return Response(msgspec.json.encode(reply), media_type="application/json")


async def _receive(request: AnyRequest, services: Services) -> EventsReply:
    now = datetime.now(UTC)
    holder = await services.executor.keys(authenticate, request.headers.get("authorization"), now)
    _require_any(holder)
    receipt = Receipt(now, _max_back(request, holder))
    # Held until its events are stored: requests that wait for their turn count against the cap as well.
    async with services.bodies.read(request) as body:
        prepared = await services.executor.compute(prepare, body, holder, receipt)
        return await _store(prepared, holder, services)


async def _store(prepared: Prepared, holder: KeyHolder, services: Services) -> EventsReply:
    if wait := services.rates.take(holder.key_id, prepared.total, time.monotonic()):
        raise Refusal("rate_limited", "This key sends too many events.", retry_after=math.ceil(wait))
    if prepared.total and len(prepared.rejected) == prepared.total:
        count_events(0, 0, prepared.total)
        raise _all_rejected(prepared.rejected, prepared.unknown_fields)
    async with services.turns.take({row.tenant_id for row in prepared.rows}):
        recorded, revisions = await services.executor.db(_record, prepared.rows, holder)
    taken = recorded.accepted + recorded.duplicates
    count_events(recorded.accepted, recorded.duplicates, prepared.total - taken)
    results = sorted([*prepared.rejected, *recorded.results], key=lambda result: result.index)
    if prepared.total and recorded.refused + len(prepared.rejected) == prepared.total:
        raise _all_rejected(results, prepared.unknown_fields)
    one = len(holder.tenants) == 1
    return EventsReply(
        accepted=recorded.accepted,
        duplicates=recorded.duplicates,
        results=results,
        bundle_revision=next(iter(revisions.values())) if one else None,
        bundle_revisions=None if one else revisions,
        unknown_fields=prepared.unknown_fields,
    )


def prepare(body: bytes, holder: KeyHolder, receipt: Receipt) -> Prepared:
    """Decode a body, check its events and make their rows; raises BadBody."""
    decoded = Decoded()
    rows: list[AnyRow] = []
    arrivals = decode(body, decoded)
    while some := list(islice(arrivals, _AT_ONCE)):
        taken = [arrival for arrival in some if _is_taken(arrival, holder, decoded.rejected)]
        cleaned = redact_events([arrival.event for arrival in taken])
        rows += (
            project_event(
                arrival.event,
                receipt,
                index=arrival.index,
                tenant_id=holder.tenant_id(arrival.event.tenant),
                sanitized=hidden or arrival.sanitized,
            )
            for arrival, hidden in zip(taken, cleaned, strict=True)
        )
    rejected = sorted(decoded.rejected, key=lambda result: result.index)
    return Prepared(decoded.total, rows, rejected, decoded.unknown_fields)


def _require_any(holder: KeyHolder) -> None:
    """Let pass who may send something; of a key for checkpoints alone only those are taken."""
    if Scope.CHECKPOINTS not in holder.scopes:
        holder.require(Scope.EVENTS_WRITE)


def _is_taken(arrival: Arrival, holder: KeyHolder, rejected: list[EventResult]) -> bool:
    """Say whether the key covers an event that can be stored; else adds to ``rejected`` why not."""
    try:
        if not isinstance(arrival.event, CheckpointOpened):
            holder.require(Scope.EVENTS_WRITE)
        holder.tenant_id(arrival.event.tenant)
        check(arrival.event)
    except Forbidden as error:
        field = "tenant" if error.code == "unknown_tenant" else "type"
        unknown = Rejected(error.message, code=error.code, field=field)
        rejected.append(unknown.result(arrival.index))
        return False
    except Rejected as error:
        rejected.append(error.result(arrival.index))
        return False
    return True


def _record(rows: Sequence[AnyRow], holder: KeyHolder) -> tuple[Recorded, dict[str, int]]:
    recorded = record_runs(rows)
    covered = Tenant.objects.filter(pk__in=holder.tenants.values()).order_by("slug")
    return recorded, dict(covered.values_list("slug", "bundle_revision"))


def _max_back(request: AnyRequest, holder: KeyHolder) -> timedelta:
    if request.headers.get("guardops-backfill") != "1":
        return MAX_BACK
    holder.require(Scope.EVENTS_BACKFILL)
    return MAX_BACKFILL


def _all_rejected(results: list[EventResult], unknown_fields: int) -> Refusal:
    return Refusal(
        "every_event_rejected", "Nothing was stored.", results=results, unknown_fields=unknown_fields
    )
