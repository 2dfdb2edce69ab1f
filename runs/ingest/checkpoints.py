"""Checkpoints: their projection, which is pure, and the one writer of new ones."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from uuid import UUID

import msgspec
from django.db.backends.utils import CursorWrapper

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.ids import uuid7
from guardops.guard.reasons import canonical, family_of
from runs.checkpoints.moving import notify
from runs.checkpoints.packet import Packet
from runs.checkpoints.rules import review_rules
from runs.partitions import unix_ms

from .known import write_mapped
from .results import Recorded
from .rows import Receipt, full_release

LONGEST = timedelta(days=90)
"""A checkpoint that waits for longer expires then: nobody's run waits for a quarter of a year."""

_STORED = """
SELECT checkpoint_id, body_digest FROM checkpoint
WHERE tenant_id = %s AND checkpoint_id = ANY(%s::uuid[])"""
_MAPPED = "SELECT external_id, run_id FROM external_run WHERE tenant_id = %s AND external_id = ANY(%s)"
_INSERT = """
INSERT INTO checkpoint (tenant_id, checkpoint_id, run_id, external_id, root_task_id, parent_run_id, attempt,
    job_type, agent, release, reason, family, question, artifact_digest, steps, cost, sub_agents, uncertain,
    approves, opened_at, received_at, due_at, expires_at, on_timeout, body_digest, detail, clock_suspect,
    sanitized, state, version, last_did, last_at)
SELECT tenant_id, checkpoint_id, run_id, external_id, root_task_id, parent_run_id, attempt,
    job_type, agent, release, reason, family, question, artifact_digest, steps, cost, sub_agents, uncertain,
    approves, opened_at, received_at, due_at, expires_at, on_timeout, decode(body_digest, 'hex'), detail,
    clock_suspect, sanitized, 'open', 1, 'opened', received_at
FROM json_to_recordset(%s) AS opened (tenant_id int, checkpoint_id uuid, run_id uuid, external_id text,
    root_task_id text, parent_run_id uuid, attempt smallint, job_type text, agent text, release text,
    reason text, family text, question text, artifact_digest text, steps int, cost numeric, sub_agents int,
    uncertain boolean, approves boolean, opened_at timestamptz, received_at timestamptz, due_at timestamptz,
    expires_at timestamptz, on_timeout text, body_digest text, detail json, clock_suspect boolean,
    sanitized boolean)
ORDER BY tenant_id, checkpoint_id"""


class Columns(msgspec.Struct, kw_only=True, gc=False):
    """A row of `Checkpoint`, named as its columns."""

    tenant_id: int
    checkpoint_id: UUID
    run_id: UUID | None
    external_id: str
    root_task_id: str
    parent_run_id: UUID | None
    attempt: int
    job_type: str
    agent: str
    release: str
    reason: str
    family: str
    question: str
    artifact_digest: str
    steps: int
    cost: Decimal
    sub_agents: int
    uncertain: bool
    approves: bool
    opened_at: datetime
    received_at: datetime
    due_at: datetime  # known only once the tenant's policy is read
    expires_at: datetime
    on_timeout: str
    body_digest: str  # hex
    detail: Packet
    clock_suspect: bool
    sanitized: bool


class Opened(msgspec.Struct, kw_only=True, gc=False):
    """A checkpoint ready to be stored but for its run's id and its SLA."""

    index: int  # in the request
    tenant_id: int
    digest: bytes
    columns: Columns
    sanitized: bool


_encode = msgspec.json.Encoder(order="deterministic").encode


def project_checkpoint(
    event: CheckpointOpened, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool
) -> Opened:
    """Return the row of a checked event.

    Where the guard's clock is suspect it was opened now, and waits for as long as the guard said.
    """
    event.tenant = None  # where it goes is no part of what it says
    digest = hashlib.sha256(_encode(event)).digest()[:16]
    at, suspect = receipt.place(event.opened_at)
    reason = canonical(event.reason)
    columns = Columns(
        tenant_id=tenant_id,
        checkpoint_id=event.checkpoint_id,
        run_id=event.run_id,
        external_id=event.external_id or "",
        root_task_id=_task(event),
        parent_run_id=event.parent_run_id,
        attempt=event.attempt,
        job_type=event.job_type,
        agent=event.agent,
        release=full_release(event.release, event.prompt_version),
        reason=reason,
        family=family_of(reason),
        question=event.question,
        artifact_digest=event.artifact.digest,
        steps=event.spent.steps or 0,
        cost=event.spent.cost or Decimal(0),
        sub_agents=event.sub_agents,
        uncertain=any(call.uncertain for call in event.pending),
        approves=event.refused is not None,
        opened_at=at,
        received_at=receipt.at,
        due_at=at,
        expires_at=at + min(event.expires_at - event.opened_at, LONGEST),
        on_timeout=event.on_timeout,
        body_digest=digest.hex(),
        detail=_packet(event, reason),
        clock_suspect=suspect,
        sanitized=sanitized,
    )
    return Opened(index=index, tenant_id=tenant_id, digest=digest, columns=columns, sanitized=sanitized)


def sift_checkpoints(
    cursor: CursorWrapper, tenant_id: int, rows: Sequence[Opened], recorded: Recorded
) -> list[Opened]:
    """Return the checkpoints of one tenant that are new; the others are named in ``recorded``."""
    cursor.execute(_STORED, [tenant_id, [row.columns.checkpoint_id for row in rows]])
    stored = {checkpoint_id: bytes(digest) for checkpoint_id, digest in cursor.fetchall()}
    new = []
    for row in rows:
        digest = stored.get(row.columns.checkpoint_id)
        if digest is None:
            stored[row.columns.checkpoint_id] = row.digest
            new.append(row)
        elif digest == row.digest:
            recorded.repeat(row.index)
        else:
            recorded.contradict(row.index, "A checkpoint", "checkpoint_id")
    return new


def write_checkpoints(cursor: CursorWrapper, rows: Sequence[Opened]) -> None:
    """Insert checkpoints that are not stored, in the order of their keys, and wake who waits for them."""
    sla = cache(lambda tenant_id, job_type, at: review_rules(tenant_id, job_type, at).sla_s)
    for row in rows:
        columns = row.columns
        seconds = sla(columns.tenant_id, columns.job_type, columns.received_at)
        columns.due_at = columns.opened_at + timedelta(seconds=seconds)
    _find_runs(cursor, rows)
    cursor.execute(_INSERT, [_encode([row.columns for row in rows]).decode()])
    notify((row.tenant_id, row.columns.checkpoint_id) for row in rows)


def _find_runs(cursor: CursorWrapper, rows: Iterable[Opened]) -> None:
    """Give checkpoints with a sender's own id the run that is, or will be, stored for it."""
    foreign: dict[int, dict[str, list[Columns]]] = {}
    for row in rows:
        if row.columns.run_id is None:
            keys = foreign.setdefault(row.tenant_id, {})
            keys.setdefault(f"external:{row.columns.external_id}", []).append(row.columns)
    for tenant_id, keys in foreign.items():
        cursor.execute(_MAPPED, [tenant_id, list(keys)])
        mapped = dict(cursor.fetchall())
        new = {
            key: uuid7(unix_ms(found[0].opened_at), secrets.randbits(74))
            for key, found in keys.items()
            if key not in mapped
        }
        write_mapped(cursor, [(tenant_id, key, run_id.bytes) for key, run_id in new.items()])
        for key, found in keys.items():
            for columns in found:
                columns.run_id = mapped.get(key) or new[key]


def _task(event: CheckpointOpened) -> str:
    """Return the root task's id, empty where that is the run's own."""
    root = event.root_task_id or ""
    if not root:
        return str(event.parent_run_id) if event.parent_run_id else event.external_id or ""
    own = event.run_id is not None and root.replace("-", "").lower() == event.run_id.hex
    return "" if own else root


def _packet(event: CheckpointOpened, reason: str) -> Packet:
    return Packet(
        artifact=event.artifact,
        unresolved=event.unresolved,
        refused=event.refused,
        last_steps=event.last_steps,
        interventions=event.interventions,
        ledger=event.ledger,
        sources=event.sources,
        calls=event.calls,
        pending=event.pending,
        spent=event.spent,
        remaining=event.remaining,
        limits=event.limits,
        policy=event.policy,
        guard=event.guard,
        truncated=event.truncated,
        prompt_version=event.prompt_version,
        reason=event.reason if event.reason != reason else None,
    )
