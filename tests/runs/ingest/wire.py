"""Events as they come over the wire, in plain data."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from guardops.guard.events import RunEnded
from guardops.guard.wire import Event
from runs.ingest.checks import check
from runs.ingest.decode import Arrival, Decoded, Rejected, decode
from runs.ingest.project import project_event
from runs.ingest.record import AnyRow
from runs.ingest.rows import MAX_BACK, Receipt, Row, project
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
    return _plain(event)


def make_started(**overrides: Any) -> dict[str, Any]:
    """Return a run that started at ``started_at``; None removes a field."""
    started = overrides.get("started_at", NOW)
    return _plain(
        {"type": "run.started", "job_type": "research", "agent": "researcher", "release": "2026.3"},
        {"run_id": str(make_run_id(started if isinstance(started, datetime) else NOW))},
        {"started_at": started},
        overrides,
    )


def make_heartbeat(**overrides: Any) -> dict[str, Any]:
    """Return a heartbeat of ``at``; None removes a field."""
    at = overrides.get("at", NOW)
    return _plain(
        {"type": "run.heartbeat", "seq": 1, "steps": 3, "turns": 4, "cost": "0.012"},
        {"run_id": str(make_run_id(at if isinstance(at, datetime) else NOW)), "at": at},
        {"pressure": {"max_steps": 0.075, "max_seconds": 0.5}},
        overrides,
    )


def make_refused(**overrides: Any) -> dict[str, Any]:
    """Return work that was refused at ``at``; None removes a field."""
    at = overrides.get("at", NOW)
    return _plain(
        {"type": "work.refused", "refusal_id": str(make_run_id(NOW)), "reason": "hop_budget"},
        {"at": at, "job_type": "research", "agent": "planner"},
        {"envelope": {"root_task_id": "ticket-7", "hops_remaining": 0, "chain": [{"agent": "planner"}]}},
        overrides,
    )


def make_opened(**overrides: Any) -> dict[str, Any]:
    """Return a checkpoint that was opened at ``opened_at``; None removes a field."""
    opened = overrides.get("opened_at", NOW)
    at = opened if isinstance(opened, datetime) else NOW
    return _plain(
        {"type": "checkpoint.opened", "checkpoint_id": str(make_run_id(NOW)), "run_id": str(make_run_id(at))},
        {"opened_at": opened, "expires_at": at + timedelta(hours=4), "job_type": "research"},
        {"reason": "no_progress", "artifact": {"digest": "sha256:5a", "text": "page 14 of 999"}},
        overrides,
    )


def _plain(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of all parts in plain data, the later over the earlier."""
    return {
        key: text(value) if isinstance(value, datetime) else value
        for key, value in {key: value for part in parts for key, value in part.items()}.items()
        if value is not None
    }


MAKERS = {
    "run.started": make_started,
    "run.heartbeat": make_heartbeat,
    "run.ended": make_event,
    "work.refused": make_refused,
    "checkpoint.opened": make_opened,
}
"""Makes a good event of each type."""


def make_rows(
    *events: dict[str, Any],
    tenant_id: int,
    received_at: datetime = NOW,
    max_back: timedelta = MAX_BACK,
    sanitized: bool = False,
) -> list[AnyRow]:
    """Return the rows of events that are all good."""
    arrivals, decoded = decode_all(encode(*events))
    assert not decoded.rejected, decoded.rejected
    for arrival in arrivals:
        check(arrival.event)
    return [
        project_event(
            arrival.event,
            Receipt(received_at, max_back),
            index=arrival.index,
            tenant_id=tenant_id,
            sanitized=sanitized,
        )
        for arrival in arrivals
    ]


def encode(*events: Any) -> bytes:
    return json.dumps(list(events)).encode()


def decode_all(body: bytes) -> tuple[list[Arrival], Decoded]:
    decoded = Decoded()
    return list(decode(body, decoded)), decoded


def decode_one(event: dict[str, Any]) -> Event:
    """Return one event as decoded; raises Rejected."""
    arrivals, decoded = decode_all(encode(event))
    for result in decoded.rejected:
        raise Rejected(result.message, code=result.code, field=result.field)
    return arrivals[0].event


def typed(**overrides: Any) -> RunEnded:
    """Return a run that ended as decoded; raises Rejected."""
    event = decode_one(make_event(**overrides))
    assert isinstance(event, RunEnded)
    return event


def checked(**overrides: Any) -> RunEnded:
    event = typed(**overrides)
    check(event)
    return event


def make_ingest_row(*, received_at: datetime = NOW, tenant_id: int = 1, **overrides: Any) -> Row:
    return project(checked(**overrides), Receipt(received_at), index=0, tenant_id=tenant_id, sanitized=False)
