"""What the guard handed over with a checkpoint beyond its columns, in the form of the wire. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from guardops.guard import events

if TYPE_CHECKING:
    from runs.models import Checkpoint


class Packet(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The ``detail`` column of a checkpoint. All its texts were written by others."""

    artifact: events.Artifact = msgspec.field(default_factory=lambda: events.Artifact(digest="none"))
    unresolved: list[str] = []
    refused: events.PendingCall | None = None
    last_steps: list[events.Step] = []
    interventions: list[events.Intervention] = []
    ledger: list[events.LedgerRow] = []
    sources: list[events.AttemptedSource] = []
    calls: list[events.CallCount] = []
    pending: list[events.PendingCall] = []
    spent: events.Amounts = msgspec.field(default_factory=events.Amounts)
    remaining: events.Amounts = msgspec.field(default_factory=events.Amounts)
    limits: dict[str, Any] = {}
    policy: events.PolicyInForce | None = None
    guard: events.GuardInfo | None = None
    truncated: list[str] = []
    prompt_version: str = ""
    reason: str | None = None  # as sent, where that is an alias

    @property
    def uncertain(self) -> list[events.PendingCall]:
        """Writes of which nobody knows whether they happened: a person has to say so before a resume."""
        return [call for call in self.pending if call.uncertain]


def read_packet(checkpoint: Checkpoint) -> Packet:
    return msgspec.convert(checkpoint.detail, Packet)
