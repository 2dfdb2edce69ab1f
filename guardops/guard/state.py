"""The state of one guarded run: what the checks read and what a session writes."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

from guardops.guard.budgets import Budgets
from guardops.guard.cycles import CycleDetector
from guardops.guard.events import ChainLink
from guardops.guard.fingerprint import Fingerprint
from guardops.guard.ledger import Ledger, Row
from guardops.guard.policy import Limits, Policy, ToolSpec
from guardops.guard.quarantine import Quarantine
from guardops.guard.reasons import Reason
from guardops.guard.sources import SourceBook, Visit
from guardops.guard.stall import ErrorStreak, StallCounter
from guardops.guard.stores import RootState

BatchId = int | str


class RunIdentity(Struct, frozen=True):
    """Who a run is: what its event says of it beside what the guard saw."""

    job_type: str
    run_id: UUID
    root_task_id: str
    started_at: datetime
    external_id: str | None = None
    parent_run_id: UUID | None = None
    attempt: int = 1
    agent: str = ""
    release: str = ""
    prompt_version: str = ""
    chain: tuple[ChainLink, ...] = ()
    """The hand-overs that led to the run, oldest first."""
    tenant: str = ""
    resumed_from: UUID | None = None
    """The attempt before it, which a person has looked at."""

    @property
    def root_key(self) -> str:
        """The name of the run's root in a store, where equal names of two tenants are two roots."""
        return f"{self.tenant}/{self.root_task_id}" if self.tenant else self.root_task_id


class Trip(Struct, frozen=True):
    """A rule that was broken; ``detail`` names the source, ``count`` how often it happened."""

    reason: Reason
    detail: str = ""
    count: int = 0
    gently: bool = False
    """Whether the call is refused and the run goes on, whatever the ladder says of the reason."""


class Wait(Struct, frozen=True):
    """A call that is fine, but not yet: seconds since the run's start from which it is."""

    not_before: float


class Call(Struct):
    """A proposed call, prepared for the checks."""

    tool: str
    spec: ToolSpec
    identity: Fingerprint
    row: Row
    visit: Visit
    at: float
    depth: int
    batch: BatchId | None


class Ticket(Struct):
    """The right to run one call; hand it back with what came of it."""

    number: int
    """Also the step: the call's place among the run's proposed calls, 1-based."""
    tool: str
    spec: ToolSpec
    row: Row
    canonical: bytes
    visit: Visit
    batch: BatchId | None
    idempotency_key: str = ""
    """For a write: equal for equal calls of one root, to pass on to the service."""


class OpenTurn(Struct, frozen=True):
    """A model turn that was reserved and has not been settled; ``cost`` is in micro-USD."""

    tokens: int
    cost: int


class Note(Struct):
    """How one executed call ended, as the post-check sees it."""

    tool: str
    fingerprint: str
    digest: str
    progressed: bool | None
    exempt: bool
    """Polls, hand-overs and spawns leave the stall counter alone; so do failures worth a retry."""
    novel: bool
    error_class: str
    """What feeds the error streak, empty for what doesn't."""
    succeeded: bool
    cycles: bool
    """Whether the cycle detector sees the call."""


class Batch(Struct):
    """A parallel batch: how many calls are out, and how those that came back ended."""

    outstanding: int = 0
    notes: list[Note] = []


class RunState:
    """Everything that the checks of one run look at."""

    __slots__ = (
        "batches",
        "budgets",
        "carried_seconds",
        "cycle",
        "deadline",
        "edges",
        "evidence",
        "evidence_label",
        "hops",
        "in_flight",
        "last_at",
        "ledger",
        "limits",
        "novelty",
        "open_turns",
        "policy",
        "quarantine",
        "root",
        "run_id",
        "sources",
        "stall",
        "started_at",
        "streak",
        "successes",
        "writes",
    )

    def __init__(
        self, who: RunIdentity, policy: Policy, root: RootState, budgets: Budgets, deadline: float | None
    ) -> None:
        limits: Limits = policy.limits
        self.run_id = str(who.run_id)
        self.started_at = who.started_at
        self.policy = policy
        self.limits = limits
        self.root = root
        self.budgets = budgets
        self.deadline = deadline
        self.quarantine: Quarantine | None = None
        """What stopped runs of other roots have quarantined in this process."""
        self.hops = limits.hops
        self.ledger = Ledger()
        self.sources = SourceBook()
        self.cycle = CycleDetector(limits.window, limits.max_period, limits.cycle_reps)
        self.stall = StallCounter()
        self.streak = ErrorStreak()
        self.novelty: set[str] = set()
        self.evidence = 0
        self.evidence_label: str | None = None
        self.writes = 0
        self.successes = 0
        self.edges: list[str] = []
        self.batches: dict[BatchId, Batch] = {}
        self.in_flight: dict[int, Ticket] = {}
        self.open_turns: deque[OpenTurn] = deque()
        self.last_at = 0.0
        """The last sign of life, in seconds since the run's start."""
        self.carried_seconds = 0.0
        """What the run had already taken when an earlier process of it died."""

    def hold_to(self, policy: Policy) -> None:
        """Judge by another, stricter policy from here on; what has been seen and spent stays."""
        limits, before = policy.limits, self.limits
        self.policy, self.limits = policy, limits
        self.hops = min(self.hops, limits.hops)
        self.budgets.lower_to(limits)
        if self.budgets is self.root.budgets:
            self.root.lower_to(limits)
        shape = (limits.window, limits.max_period, limits.cycle_reps)
        if shape != (before.window, before.max_period, before.cycle_reps):
            self.cycle = CycleDetector(*shape, self.cycle.entries)

    def wall(self, at: float) -> datetime:
        """Return the time (UTC) at so many seconds since the run's start."""
        return self.started_at + timedelta(seconds=at)

    def version_for(self, spec: ToolSpec) -> int:
        """Return the state version that a tool's calls are judged in: a write refreshes reads only."""
        return self.evidence if spec.writes else self.evidence + self.writes
