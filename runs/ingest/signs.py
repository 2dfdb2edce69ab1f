"""The projection of a live run's signs of life: that it started, and how far it has come. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from guardops.guard import events
from guardops.guard.events import RunHeartbeat, RunStarted

from .copy import microseconds
from .rows import Receipt, foreign_id, full_release

_encode = msgspec.json.Encoder(order="deterministic").encode
_NO_ENVELOPE = events.Envelope(root_task_id="")


class LiveDetail(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The ``detail`` column of a live run, in the form of the wire."""

    envelope: events.Envelope | None = None
    limits: dict[str, Any] = {}
    policy: events.PolicyInForce | None = None
    guard: events.GuardInfo | None = None
    prompt_version: str = ""


class StartedColumns(msgspec.Struct, kw_only=True, gc=False):
    """What ``run.started`` writes to `LiveRun`, named as its columns."""

    external_id: str
    root_task_id: str
    parent_run_id: UUID | None
    resumed_from: UUID | None
    attempt: int
    job_type: str
    agent: str
    release: str
    started_at: datetime
    started_digest: str  # hex
    received_at: datetime
    detail: LiveDetail
    clock_suspect: bool
    sanitized: bool


class HeartbeatColumns(msgspec.Struct, kw_only=True, gc=False):
    """What ``run.heartbeat`` writes to `LiveRun`, named as its columns."""

    external_id: str
    started_at: datetime  # where run.started has not arrived
    received_at: datetime
    seq: int
    steps: int
    turns: int
    cost: str
    pressure: int
    pressure_limit: str
    pressures: dict[str, float]
    sources: list[events.Source]
    clock_suspect: bool
    sanitized: bool


class Sign(msgspec.Struct, kw_only=True, gc=False):
    """A sign of life ready to be stored but for its run's id, which is known only under the tenant's lock."""

    index: int  # in the request
    tenant_id: int
    run_id: bytes | None  # as sent
    foreign_id: (
        str | None
    )  # as in `Row`: its key in `ExternalRun` where a run of this id is stored under another
    at: datetime  # where a run that is known by no run_id begins
    columns: bytes  # JSON
    sanitized: bool


class Started(Sign, kw_only=True, gc=False):
    digest: bytes


class Heartbeat(Sign, kw_only=True, gc=False):
    seq: int


def project_started(
    event: RunStarted, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool
) -> Started:
    """Return the row of a checked event."""
    at, suspect = receipt.place(event.started_at)
    event.tenant = None  # where a run goes is no part of what it says
    digest = hashlib.sha256(_encode(event)).digest()[:16]
    envelope = event.envelope or _NO_ENVELOPE
    parent_run_id = event.parent_run_id or envelope.parent_run_id
    columns = StartedColumns(
        external_id=event.external_id or "",
        root_task_id=_task(event, event.root_task_id or envelope.root_task_id, parent_run_id),
        parent_run_id=parent_run_id,
        resumed_from=event.resumed_from,
        attempt=event.attempt,
        job_type=event.job_type,
        agent=event.agent,
        release=full_release(event.release, event.prompt_version),
        started_at=at,
        started_digest=digest.hex(),
        received_at=receipt.at,
        detail=LiveDetail(
            envelope=event.envelope,
            limits=event.limits,
            policy=event.policy,
            guard=event.guard,
            prompt_version=event.prompt_version,
        ),
        clock_suspect=suspect,
        sanitized=sanitized,
    )
    return Started(
        index=index,
        tenant_id=tenant_id,
        run_id=event.run_id.bytes if event.run_id else None,
        foreign_id=foreign_id(event.run_id, event.external_id, microseconds(at)),
        at=at,
        columns=_encode(columns),
        sanitized=sanitized,
        digest=digest,
    )


def project_heartbeat(
    event: RunHeartbeat, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool
) -> Heartbeat:
    """Return the row of a checked event."""
    at, suspect = receipt.place(event.at or receipt.at)
    limit = max(event.pressure, key=event.pressure.__getitem__, default="")
    columns = HeartbeatColumns(
        external_id=event.external_id or "",
        started_at=at,
        received_at=receipt.at,
        seq=event.seq,
        steps=event.steps,
        turns=event.turns,
        cost=str(event.cost),
        pressure=int(event.pressure.get(limit, 0.0) * 100 + 1e-9),
        pressure_limit=limit,
        pressures=event.pressure,
        sources=event.sources,
        clock_suspect=suspect,
        sanitized=sanitized,
    )
    return Heartbeat(
        index=index,
        tenant_id=tenant_id,
        run_id=event.run_id.bytes if event.run_id else None,
        foreign_id=foreign_id(event.run_id, event.external_id, microseconds(at)),
        at=at,
        columns=_encode(columns),
        sanitized=sanitized,
        seq=event.seq,
    )


def _task(event: RunStarted, root: str, parent_run_id: UUID | None) -> str:
    """Return the root task's id, empty where that is the run's own."""
    if not root:
        before = parent_run_id or event.resumed_from
        return str(before) if before else event.external_id or ""
    own = event.run_id is not None and root.replace("-", "").lower() == event.run_id.hex
    return "" if own else root
