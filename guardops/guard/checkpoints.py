"""What a guard says of a run that it hands to a person: the event, and its parts."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from guardops.guard.events import (
    Attempt,
    Code,
    Cost,
    Count,
    GuardInfo,
    Hash,
    Intervention,
    Label,
    LedgerRow,
    Name,
    OnTimeout,
    PolicyInForce,
    Short,
    SourceKind,
    Step,
    Text,
    Time,
    Tokens,
)


class Artifact(Struct, kw_only=True, omit_defaults=True):
    """What the run had last in hand, as text: written by whoever wrote what the agent read.

    ``digest`` is what a decision is bound to: it says which state of the work a person has looked at.
    """

    digest: Annotated[str, Meta(min_length=1, max_length=80)]
    text: Annotated[str, Meta(max_length=16_384)] = ""
    source: Short = ""


class AttemptedSource(Struct, kw_only=True, omit_defaults=True):
    """A source that was asked, and which version of its evidence was seen there."""

    kind: SourceKind
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    calls: Count = 0
    evidence_version: Short = ""


class CallCount(Struct, kw_only=True, omit_defaults=True):
    """How often a tool was called in the run."""

    tool: Label
    calls: Count = 0
    failed: Count = 0
    refused: Count = 0


class PendingCall(Struct, kw_only=True, omit_defaults=True):
    """A call that is not settled: under way, of unknown outcome (``uncertain``), or refused and asked for."""

    tool: Label
    args_hash: Hash
    args: Text = ""
    side_effect: Code = "read"
    uncertain: bool = False
    step: Count = 0
    at: Time | None = None


class Amounts(Struct, kw_only=True, omit_defaults=True):
    """What a run has used, or has left, of its budgets; what is None has no figure."""

    steps: Count | None = None
    turns: Count | None = None
    seconds: Count | None = None
    tokens: Tokens | None = None
    cost: Cost | None = None


class CheckpointOpened(Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="checkpoint.opened"):
    """A run that was handed to a person, and all they need to decide; its identity is ``checkpoint_id``.

    It may arrive before its run's events, or without them. ``refused`` is the call that waits for approval.
    The attempt ends with it: what is decided becomes attempt n + 1, or the end of the task.
    """

    checkpoint_id: UUID
    job_type: Name
    reason: Annotated[str, Meta(min_length=1, max_length=64)]
    opened_at: Time
    expires_at: Time
    artifact: Artifact
    run_id: UUID | None = None
    external_id: Label | None = None
    tenant: Label | None = None
    agent: Label = ""
    root_task_id: Label | None = None
    parent_run_id: UUID | None = None
    attempt: Attempt = 1
    release: Label = ""
    prompt_version: Label = ""
    on_timeout: OnTimeout = OnTimeout.STOP
    question: Text = ""
    unresolved: Annotated[list[Short], Meta(max_length=20)] = []
    refused: PendingCall | None = None
    last_steps: Annotated[list[Step], Meta(max_length=20)] = []
    interventions: Annotated[list[Intervention], Meta(max_length=100)] = []
    ledger: Annotated[list[LedgerRow], Meta(max_length=50)] = []
    sources: Annotated[list[AttemptedSource], Meta(max_length=20)] = []
    calls: Annotated[list[CallCount], Meta(max_length=50)] = []
    pending: Annotated[list[PendingCall], Meta(max_length=20)] = []
    sub_agents: Count = 0
    spent: Amounts = msgspec.field(default_factory=Amounts)
    remaining: Amounts = msgspec.field(default_factory=Amounts)
    limits: dict[str, Any] = {}
    policy: PolicyInForce = msgspec.field(default_factory=PolicyInForce)
    guard: GuardInfo = msgspec.field(default_factory=GuardInfo)
    truncated: Annotated[list[Code], Meta(max_length=20)] = []
