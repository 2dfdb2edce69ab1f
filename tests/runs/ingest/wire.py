"""Events as they come over the wire, in plain data."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from guardops.guard.events import RunEnded
from runs.ingest.checks import check
from runs.ingest.decode import Arrival, Decoded, Rejected, decode
from runs.ingest.rows import Receipt, Row, project
from tests.factories import make_run_id

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def make_event(**overrides: Any) -> dict[str, Any]:
    """Return a run that ended at ``ended_at`` (a time, or text); None removes a field."""
    ended_at = overrides.get("ended_at", NOW)
    ended = ended_at if isinstance(ended_at, datetime) else NOW
    started = overrides.get("started_at", ended - timedelta(seconds=40))
    event = {
        "type": "run.ended",
        "run_id": str(make_run_id(started if isinstance(started, datetime) else ended)),
        "job_type": "research",
        "outcome": "completed",
        "started_at": started,
        "ended_at": ended,
        "cost": "0.042",
    } | overrides
    return {
        key: text(value) if isinstance(value, datetime) else value
        for key, value in event.items()
        if value is not None
    }


def encode(*events: Any) -> bytes:
    return json.dumps(list(events)).encode()


def decode_all(body: bytes) -> tuple[list[Arrival], Decoded]:
    decoded = Decoded()
    return list(decode(body, decoded)), decoded


def typed(**overrides: Any) -> RunEnded:
    """Return one event as decoded; raises Rejected."""
    arrivals, decoded = decode_all(encode(make_event(**overrides)))
    for result in decoded.rejected:
        raise Rejected(result.message, code=result.code, field=result.field)
    return arrivals[0].event


def checked(**overrides: Any) -> RunEnded:
    event = typed(**overrides)
    check(event)
    return event


def make_ingest_row(*, received_at: datetime = NOW, tenant_id: int = 1, **overrides: Any) -> Row:
    return project(checked(**overrides), Receipt(received_at), index=0, tenant_id=tenant_id, sanitized=False)
