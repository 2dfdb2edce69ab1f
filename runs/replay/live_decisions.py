"""Lets the live demo's agents do what people decide: each asks for its decision, consumes it and goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

from guardops.guard.decisions import CheckpointState, Consume
from guardops.tenants.models import Tenant
from runs.checkpoints.deliver import consume, read_reply
from runs.checkpoints.errors import UnknownCheckpoint

from .live import Stage

EVERY = timedelta(seconds=3)
_OVER = (CheckpointState.EXPIRED, CheckpointState.CONSUMED, CheckpointState.UNDELIVERABLE)


class Decisions:
    """Asks for the decisions of a stage's waiting tasks, every few seconds."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._next: datetime | None = None

    def look(self, now: datetime) -> int:
        """Carry out what was decided; return how many tasks go on or end by it."""
        if self._next is not None and now < self._next:
            return 0
        self._next = now + EVERY
        waiting = list(self._stage.waiting.items())
        tenants = dict(
            Tenant.objects.filter(slug__in={left.tenant for _, left in waiting}).values_list("slug", "pk")
        )
        carried_out = 0
        for checkpoint_id, left in waiting:
            try:
                reply = read_reply(tenants[left.tenant], checkpoint_id, now)
            except UnknownCheckpoint:
                continue  # it is still on its way
            decision = reply.decision
            if reply.state in _OVER:
                del self._stage.waiting[checkpoint_id]
            elif decision is not None:
                attempt = self._stage.take_up(checkpoint_id, decision.action, now)
                wanted = Consume(
                    decision_id=decision.decision_id,
                    attempt_id=attempt,
                    artifact_digest=decision.artifact_digest,
                )
                consume(tenants[left.tenant], checkpoint_id, wanted, now)
                carried_out += 1
        return carried_out
