"""From a checked event of any type to the row that stands for it. Pure."""

from __future__ import annotations

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import RunEnded, RunHeartbeat, RunStarted
from guardops.guard.wire import Event

from .checkpoints import Opened, project_checkpoint
from .refusals import Refusal, project_refusal
from .rows import Receipt, Row, project
from .signs import Sign, project_heartbeat, project_started


def project_event(
    event: Event, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool
) -> Row | Sign | Refusal | Opened:
    """Return the row of a checked event, which is used up."""
    if isinstance(event, RunEnded):
        return project(event, receipt, index=index, tenant_id=tenant_id, sanitized=sanitized)
    if isinstance(event, RunStarted):
        return project_started(event, receipt, index=index, tenant_id=tenant_id, sanitized=sanitized)
    if isinstance(event, RunHeartbeat):
        return project_heartbeat(event, receipt, index=index, tenant_id=tenant_id, sanitized=sanitized)
    if isinstance(event, CheckpointOpened):
        return project_checkpoint(event, receipt, index=index, tenant_id=tenant_id, sanitized=sanitized)
    return project_refusal(event, receipt, index=index, tenant_id=tenant_id, sanitized=sanitized)
