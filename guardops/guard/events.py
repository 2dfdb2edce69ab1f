"""What guards tell the server: the event types of the wire, and the outcomes and actions they carry.

Both ends use these very types: the guard encodes them, the gate decodes them and makes its OpenAPI document
from them. Times are UTC; money is USD as a decimal string with at most six places; durations are seconds.
Bounds here are the same as the database's checks, so that what decodes can be stored.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct


class Outcome(StrEnum):
    """How a run ended. A forced or unresolved answer is never counted as completed."""

    COMPLETED = "completed"
    COMPLETED_FORCED = "completed_forced"
    UNRESOLVED = "unresolved"
    ESCALATED = "escalated"
    HALTED = "halted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Action(StrEnum):
    """What the guard tells the agent's loop to do next."""

    CONTINUE = "continue"
    WAIT = "wait"
    REFUSE = "refuse"
    NUDGE = "nudge"
    FORCE_ANSWER = "force_answer"
    ESCALATE = "escalate"
    HALT = "halt"


class Answer(StrEnum):
    """What kind of answer the run closed with."""

    FULL = "full"
    FORCED = "forced"
    NONE = "none"


class AnswerBy(StrEnum):
    """Who gave the answer."""

    AGENT = "agent"
    PERSON = "person"


class Mode(StrEnum):
    """How far the guard was allowed to go: shadow evaluates and reports, hard budgets stay enforced."""

    OFF = "off"
    SHADOW = "shadow"
    ENFORCE = "enforce"


class StepUnit(StrEnum):
    """What a step is for this run; units are never pooled."""

    TOOL_CALL = "tool_call"
    TURN = "turn"
    SUPERSTEP = "superstep"


class CostBasis(StrEnum):
    """Where the cost figure comes from."""

    PROVIDER = "provider"
    PRICE_TABLE = "price_table"
    ESTIMATE = "estimate"


class StepOutcome(StrEnum):
    """How one step of a run ended."""

    OK = "ok"
    EMPTY = "empty"
    ERROR = "error"
    REFUSED = "refused"


class SourceKind(StrEnum):
    """What a source is: a registrable domain, or a tool."""

    DOMAIN = "domain"
    TOOL = "tool"


class OnTimeout(StrEnum):
    """What becomes of a checkpoint that nobody decided in time; never a resume."""

    STOP = "stop"
    FORCE_ANSWER = "force_answer"


class PolicySource(StrEnum):
    """Where the policy in force came from."""

    SERVER = "server"
    FILE = "file"
    BUILTIN = "builtin"


MAX_EVENTS = 1_000
MAX_EVENT_BYTES = 256 * 1024
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_KEYS = 1_000
MAX_COST = Decimal("99999999.999999")
MAX_DETAIL_BYTES = 4_096  # of a free object in an event, encoded

Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
SmallCount = Annotated[int, Meta(ge=0, le=32_767)]
Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000_000)]
Attempt = Annotated[int, Meta(ge=1, le=1_000)]
Revision = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]
Label = Annotated[str, Meta(max_length=128)]
Code = Annotated[str, Meta(max_length=64)]
Short = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=4_096)]
Hash = Annotated[str, Meta(max_length=80)]
Cost = Annotated[Decimal, Meta(description="USD, a decimal string with at most six places")]
Time = Annotated[datetime, Meta(tz=True, description="UTC, or with its offset from it")]
Share = Annotated[float, Meta(ge=0, le=100, description="share used of a limit: 1 is all of it")]


class TokenCounts(Struct, kw_only=True, omit_defaults=True):
    """Tokens of a run; cached ones are part of the input."""

    input: Tokens = 0
    output: Tokens = 0
    cached: Tokens = 0


class Peaks(Struct, kw_only=True, omit_defaults=True):
    """The highest value each counter reached: what lets a page replay any cap."""

    repeats: SmallCount = 0
    stall: SmallCount = 0
    error_streak: SmallCount = 0
    domain_calls: SmallCount = 0
    listing_pages: SmallCount = 0
    refusals: SmallCount = 0


class Source(Struct, kw_only=True, omit_defaults=True):
    """A registrable domain or a tool that the run touched."""

    kind: SourceKind
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    calls: Count = 0
    bytes: Tokens = 0
    quarantined: bool = False
    proposed: bool = False


class LedgerRow(Struct, kw_only=True, omit_defaults=True):
    """One fingerprint's history in a run; never raw arguments, results or secrets."""

    fingerprint: Hash
    tool: Label
    args_hash: Hash = ""
    side_effect: Code = "read"
    count: Count = 0
    first_error: Code = ""
    last_error: Code = ""
    error_class: Code = ""
    retryable: bool = False
    blocked: bool = False
    result_digest: Hash = ""
    streak: Count = 0
    state_version: Count = 0
    in_flight: bool = False
    uncertain: bool = False
    last_at: Time | None = None


class Intervention(Struct, kw_only=True, omit_defaults=True):
    """Something the guard did to the run, and at which step (1-based)."""

    step: Count
    action: Action
    reason: Code = ""


class Step(Struct, kw_only=True, omit_defaults=True):
    """One of the last steps of a run, arguments redacted."""

    step: Count
    tool: Label
    args: Text = ""
    args_hash: Hash = ""
    result_digest: Hash = ""
    outcome: StepOutcome = StepOutcome.OK
    error_class: Code = ""
    error_code: Code = ""
    progressed: bool | None = None
    at: Time | None = None


class PolicyInForce(Struct, kw_only=True, omit_defaults=True):
    """Which policy the run was judged by."""

    revision_start: Revision = 0
    revision_end: Revision = 0
    version: Revision = 0
    mode: Mode = Mode.ENFORCE
    age_s: Count = 0
    src: PolicySource = PolicySource.BUILTIN


class WouldHalt(Struct, kw_only=True, omit_defaults=True):
    """What shadow mode would have stopped first."""

    reason: Code
    step: Count = 0


class ChainLink(Struct, kw_only=True, omit_defaults=True):
    """One hand-over between agents."""

    agent: Label
    package_hash: Hash = ""


class Lineage(Struct, kw_only=True, omit_defaults=True):
    """Where the run stands in its tree of runs."""

    root: Label = ""
    parent: Label = ""
    hops_remaining: Count | None = None
    chain: Annotated[list[ChainLink], Meta(max_length=32)] = []


class Task(Struct, kw_only=True, omit_defaults=True):
    """What the caller knows of the task: eligible counts it in rates, completed False denies completion."""

    kind: Label = ""
    eligible: bool = True
    completed: bool | None = None


class GuardInfo(Struct, kw_only=True, omit_defaults=True):
    """Which guard sent the event."""

    version: Code = ""
    adapter: Code = ""
    instance: Code = ""


class RunEnded(Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="run.ended"):
    """A run that ended; its identity is ``run_id`` (UUIDv7) or a foreign ``external_id``."""

    job_type: Name
    outcome: Outcome
    ended_at: Time
    started_at: Time
    run_id: UUID | None = None
    external_id: Label | None = None
    tenant: Label | None = None
    agent: Label = ""
    root_task_id: Label | None = None
    parent_run_id: UUID | None = None
    attempt: Attempt = 1
    resumed_from: UUID | None = None
    halt_reason: Code | None = None
    halt_detail: dict[str, Any] | None = None
    first_reason: Code | None = None
    answer: Answer = Answer.NONE
    answer_by: AnswerBy = AnswerBy.AGENT
    steps: Count = 0
    turns: Count = 0
    tool_calls: Count = 0
    refusals: Count = 0
    retries: Count = 0
    blocked_fingerprints: Count = 0
    blocked_by_provider: Count = 0
    duplicates: Count = 0
    provider_failure: bool = False
    tokens: TokenCounts = msgspec.field(default_factory=TokenCounts)
    cost: Cost = Decimal(0)
    cost_basis: CostBasis = CostBasis.ESTIMATE
    step_unit: StepUnit = StepUnit.TOOL_CALL
    peaks: Peaks = msgspec.field(default_factory=Peaks)
    sources: Annotated[list[Source], Meta(max_length=20)] = []
    ledger: Annotated[list[LedgerRow], Meta(max_length=50)] = []
    interventions: Annotated[list[Intervention], Meta(max_length=100)] = []
    last_steps: Annotated[list[Step], Meta(max_length=20)] = []
    limits: dict[str, Any] = {}
    policy: PolicyInForce = msgspec.field(default_factory=PolicyInForce)
    would_halt: WouldHalt | None = None
    lineage: Lineage | None = None
    task: Task = msgspec.field(default_factory=Task)
    release: Label = ""
    prompt_version: Label = ""
    guard: GuardInfo = msgspec.field(default_factory=GuardInfo)
    truncated: Annotated[list[Code], Meta(max_length=20)] = []
    attributes: Annotated[dict[Code, Short], Meta(max_length=20)] = {}


class Envelope(Struct, kw_only=True, omit_defaults=True):
    """What delegated work carries across processes: its task's root, and how much of it may still happen.

    None leaves a limit to whoever takes it on. The deadline is absolute; the descendants are charged at the
    root. ``signature`` is the tenant's, made with the secret that ``kid`` names over the canonical form of
    all other fields.
    """

    root_task_id: Name
    parent_run_id: UUID | None = None
    hops_remaining: Count | None = None
    descendants_budget: Count | None = None
    deadline: Time | None = None
    chain: Annotated[list[ChainLink], Meta(max_length=32)] = []
    policy_revision: Revision = 0
    kid: Code | None = None
    signature: Hash | None = None


class RunStarted(Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="run.started"):
    """A run that began; it is live until its `RunEnded` arrives. Its identity is that of `RunEnded`."""

    job_type: Name
    started_at: Time
    run_id: UUID | None = None
    external_id: Label | None = None
    tenant: Label | None = None
    agent: Label = ""
    root_task_id: Label | None = None
    parent_run_id: UUID | None = None
    attempt: Attempt = 1
    resumed_from: UUID | None = None
    release: Label = ""
    prompt_version: Label = ""
    envelope: Envelope | None = None
    limits: dict[str, Any] = {}
    policy: PolicyInForce = msgspec.field(default_factory=PolicyInForce)
    guard: GuardInfo = msgspec.field(default_factory=GuardInfo)


class RunHeartbeat(Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="run.heartbeat"):
    """How far a live run has come; of several the one with the highest ``seq`` counts.

    ``pressure`` names the limits in force as `RunEnded.limits` does; ``sources`` are those called most.
    Without ``at`` it is of the moment of its receipt.
    """

    seq: Count
    run_id: UUID | None = None
    external_id: Label | None = None
    tenant: Label | None = None
    at: Time | None = None
    steps: Count = 0
    turns: Count = 0
    cost: Cost = Decimal(0)
    pressure: Annotated[dict[Code, Share], Meta(max_length=32)] = {}
    sources: Annotated[list[Source], Meta(max_length=5)] = []


class WorkRefused(Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="work.refused"):
    """Delegated work that a guard did not take on; no run began.

    Its identity is ``refusal_id``; without one, all that it says. Without ``at`` it is of the moment of its
    receipt. ``detail`` is an object of at most 4 KB.
    """

    reason: Annotated[str, Meta(min_length=1, max_length=64)]
    refusal_id: UUID | None = None
    tenant: Label | None = None
    at: Time | None = None
    job_type: Label = ""
    agent: Label = ""
    envelope: Envelope | None = None
    detail: dict[str, Any] | None = None
    guard: GuardInfo = msgspec.field(default_factory=GuardInfo)
