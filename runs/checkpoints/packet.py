"""What the guard handed over with a checkpoint beyond its columns, in the form of the wire. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from guardops.guard import checkpoints, events

if TYPE_CHECKING:
    from runs.models import Checkpoint


class Packet(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The ``detail`` column of a checkpoint. All its texts were written by others."""

    artifact: checkpoints.Artifact = msgspec.field(
        default_factory=lambda: checkpoints.Artifact(digest="none")
    )
    unresolved: list[str] = []
    refused: checkpoints.PendingCall | None = None
    last_steps: list[events.Step] = []
    interventions: list[events.Intervention] = []
    ledger: list[events.LedgerRow] = []
    sources: list[checkpoints.AttemptedSource] = []
    calls: list[checkpoints.CallCount] = []
    pending: list[checkpoints.PendingCall] = []
    spent: checkpoints.Amounts = msgspec.field(default_factory=checkpoints.Amounts)
    remaining: checkpoints.Amounts = msgspec.field(default_factory=checkpoints.Amounts)
    limits: dict[str, Any] = {}
    policy: events.PolicyInForce | None = None
    guard: events.GuardInfo | None = None
    truncated: list[str] = []
    prompt_version: str = ""
    reason: str | None = None  # as sent, where that is an alias

    @property
    def uncertain(self) -> list[checkpoints.PendingCall]:
        """Writes of which nobody knows whether they happened: a person has to say so before a resume."""
        return [call for call in self.pending if call.uncertain]


def read_packet(checkpoint: Checkpoint) -> Packet:
    return msgspec.convert(checkpoint.detail, Packet)
