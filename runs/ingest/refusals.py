"""Refused work: its projection, which is pure, and the one writer of `RefusedWork`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db.backends.utils import CursorWrapper

from guardops.guard import events
from guardops.guard.events import WorkRefused
from guardops.guard.reasons import canonical

from .results import Recorded
from .rows import Receipt

_STORED = """
SELECT refusal_id, body_digest FROM refused_work WHERE tenant_id = %s AND refusal_id = ANY(%s::uuid[])"""
_INSERT = """
INSERT INTO refused_work (tenant_id, refusal_id, body_digest, reason, job_type, agent, root_task_id,
    parent_run_id, envelope, detail, at, received_at, clock_suspect, sanitized)
SELECT tenant_id, refusal_id, decode(body_digest, 'hex'), reason, job_type, agent, root_task_id,
    parent_run_id, envelope, detail, at, received_at, clock_suspect, sanitized
FROM json_to_recordset(%s) AS refused (tenant_id int, refusal_id uuid, body_digest text, reason text,
    job_type text, agent text, root_task_id text, parent_run_id uuid, envelope json, detail json,
    at timestamptz, received_at timestamptz, clock_suspect boolean, sanitized boolean)
ORDER BY tenant_id, refusal_id"""


class Detail(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The ``detail`` column, in the form of the wire."""

    detail: dict[str, Any] | None = None
    guard: events.GuardInfo | None = None
    reason: str | None = None  # as sent, where that is an alias


class Columns(msgspec.Struct, kw_only=True, gc=False):
    """A row of `RefusedWork`, named as its columns."""

    tenant_id: int
    refusal_id: UUID
    body_digest: str  # hex
    reason: str
    job_type: str
    agent: str
    root_task_id: str
    parent_run_id: UUID | None
    envelope: events.Envelope | None
    detail: Detail
    at: datetime
    received_at: datetime
    clock_suspect: bool
    sanitized: bool


class Refusal(msgspec.Struct, kw_only=True, gc=False):
    """Refused work ready to be stored."""

    index: int  # in the request
    tenant_id: int
    refusal_id: UUID
    digest: bytes
    columns: bytes  # JSON
    sanitized: bool


_encode = msgspec.json.Encoder(order="deterministic").encode
_NO_ENVELOPE = events.Envelope(root_task_id="")


def project_refusal(
    event: WorkRefused, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool
) -> Refusal:
    """Return the row of a checked event."""
    event.tenant = None  # where it goes is no part of what it says
    digest = hashlib.sha256(_encode(event)).digest()[:16]
    refusal_id = event.refusal_id or UUID(bytes=digest)
    at, suspect = receipt.place(event.at or receipt.at)
    reason = canonical(event.reason)
    envelope = event.envelope or _NO_ENVELOPE
    columns = Columns(
        tenant_id=tenant_id,
        refusal_id=refusal_id,
        body_digest=digest.hex(),
        reason=reason,
        job_type=event.job_type,
        agent=event.agent,
        root_task_id=envelope.root_task_id,
        parent_run_id=envelope.parent_run_id,
        envelope=event.envelope,
        detail=Detail(
            detail=event.detail,
            guard=event.guard,
            reason=event.reason if event.reason != reason else None,
        ),
        at=at,
        received_at=receipt.at,
        clock_suspect=suspect,
        sanitized=sanitized,
    )
    return Refusal(
        index=index,
        tenant_id=tenant_id,
        refusal_id=refusal_id,
        digest=digest,
        columns=_encode(columns),
        sanitized=sanitized,
    )


def sift_refusals(
    cursor: CursorWrapper, tenant_id: int, rows: Sequence[Refusal], recorded: Recorded
) -> list[Refusal]:
    """Return the refusals of one tenant that are new; the others are named in ``recorded``."""
    cursor.execute(_STORED, [tenant_id, [row.refusal_id for row in rows]])
    stored = {refusal_id: bytes(digest) for refusal_id, digest in cursor.fetchall()}
    new = []
    for row in rows:
        digest = stored.get(row.refusal_id)
        if digest is None:
            stored[row.refusal_id] = row.digest
            new.append(row)
        elif digest == row.digest:
            recorded.repeat(row.index)
        else:
            recorded.contradict(row.index, "Refused work", "refusal_id")
    return new


def write_refusals(cursor: CursorWrapper, rows: Iterable[Refusal]) -> None:
    """Insert refusals that are not stored, in the order of their keys."""
    cursor.execute(_INSERT, [(b"[" + b",".join([row.columns for row in rows]) + b"]").decode()])
