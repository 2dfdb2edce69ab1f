"""The projection of a run that ended onto its row. Pure: one event and one receipt give one row."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec

from guardops.guard import events
from guardops.guard.events import Outcome, RunEnded, StepUnit
from guardops.guard.reasons import canonical, family_of, is_loop
from runs.partitions import DAYS_BACK, ID_EARLIER, ID_LATER

from . import copy
from .copy import microseconds

MAX_AHEAD = timedelta(minutes=5)
MAX_BACK = timedelta(days=DAYS_BACK)
MAX_BACKFILL = timedelta(days=400)
CAP_NAMES = {
    StepUnit.TOOL_CALL: "max_steps",
    StepUnit.TURN: "max_turns",
    StepUnit.SUPERSTEP: "max_supersteps",
}
_MAX_INTEGER = 2**31 - 1
_MICROSECOND = timedelta(microseconds=1)
_EARLIER = ID_EARLIER // _MICROSECOND
_LATER = ID_LATER // _MICROSECOND
_AHEAD = MAX_AHEAD // _MICROSECOND
_UNIX_EPOCH = microseconds(datetime(1970, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Receipt:
    """When a request arrived, and how far back an event may lie before its clock is suspect."""

    at: datetime
    max_back: timedelta = MAX_BACK

    @cached_property
    def received(self) -> int:
        """``at`` as COPY has it."""
        return microseconds(self.at)

    @cached_property
    def earliest(self) -> int:
        return microseconds(self.at - self.max_back)

    def place(self, at: datetime) -> tuple[datetime, bool]:
        """Return when what a guard dates ``at`` happened, and whether its clock is suspect: then, now."""
        suspect = not self.at - self.max_back <= at <= self.at + MAX_AHEAD
        return (self.at if suspect else at), suspect


class Detail(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The ``detail`` column: what a run's page shows and no count asks for, in the form of the wire."""

    sources: list[events.Source] = []
    ledger: list[events.LedgerRow] = []
    interventions: list[events.Intervention] = []
    last_steps: list[events.Step] = []
    limits: dict[str, Any] = {}
    halt_detail: dict[str, Any] | None = None
    first_reason: str | None = None
    lineage: events.Lineage | None = None
    policy: events.PolicyInForce | None = None
    task: events.Task | None = None
    guard: events.GuardInfo | None = None
    would_halt: events.WouldHalt | None = None
    answer_by: events.AnswerBy = events.AnswerBy.AGENT
    prompt_version: str = ""
    truncated: list[str] = []
    attributes: dict[str, str] = {}
    halt_reason: str | None = None  # as sent, where that is an alias
    external_id: str | None = None
    run_id: UUID | None = None  # as sent, where the run is stored under another


class Row(msgspec.Struct, kw_only=True, gc=False):
    """A run ready to be stored but for its place, which is known only under the tenant's lock."""

    index: int  # in the request
    tenant_id: int
    run_id: bytes | None  # as sent; bytes compare and hash faster than a UUID
    foreign_id: (
        str | None
    )  # its key in `ExternalRun`, where the run can't be stored under the id it was sent with
    at: datetime
    digest: bytes
    body: bytes  # the row in COPY's binary form, after its place
    task: str  # root task id, empty where it is the run's own id
    completing: bool  # the run completes its task unless another has
    sanitized: bool
    sources: list[events.Source]  # of a stopped run


_encode = msgspec.json.Encoder(order="deterministic").encode


def project(event: RunEnded, receipt: Receipt, *, index: int, tenant_id: int, sanitized: bool) -> Row:
    """Return the row of a checked event, which is used up."""
    reason = canonical(event.halt_reason) if event.halt_reason else ""
    started, ended = microseconds(event.started_at), microseconds(event.ended_at)
    suspect = not receipt.earliest <= ended <= receipt.received + _AHEAD or ended < started
    placed = receipt.received if suspect else ended
    foreign = foreign_id(event.run_id, event.external_id, placed)
    root = event.parent_run_id is None and not (event.lineage and event.lineage.parent)
    eligible = root and event.attempt == 1 and event.task.eligible
    task = _task(event, foreign)
    sources = event.sources if reason else []
    detail = _detail(event, reason)
    encoded = _encode(detail)
    stored = _encode(msgspec.structs.replace(detail, run_id=event.run_id)) if foreign else encoded
    times = (placed, started, ended, receipt.received)
    flags = (eligible, _looped(event, reason), event.provider_failure, suspect, sanitized)
    columns = [_fixed(event, times, flags), copy.integer(_step_cap(event))]
    columns += copy.uuid(event.parent_run_id), copy.uuid(event.resumed_from), _kinds(event, reason)
    digest = _digest(event, encoded)
    for text in (task.encode(), digest, stored):
        columns += copy.length(text), text
    return Row(
        index=index,
        tenant_id=tenant_id,
        run_id=event.run_id.bytes if event.run_id else None,
        foreign_id=foreign,
        at=receipt.at if suspect else event.ended_at,
        digest=digest,
        body=b"".join(columns),
        task=task,
        completing=root and event.outcome is Outcome.COMPLETED and event.task.completed is not False,
        sanitized=sanitized,
        sources=sources,
    )


def foreign_id(run_id: UUID | None, external_id: str | None, placed: int) -> str | None:
    """Return the key under which a run's id is mapped, or None where the run is stored under its own."""
    if run_id is None:
        return f"external:{external_id}"
    return None if fits(run_id.bytes, placed) else f"run:{run_id}"


def fits(run_id: bytes, placed: int) -> bool:
    """Say whether a run that is placed at this time (as COPY has it) can be stored under this id.

    It has to be a UUIDv7 whose time fits ``at``: that is what `run_id_bounds` promises to readers.
    """
    made = int.from_bytes(run_id[:6]) * 1000 + _UNIX_EPOCH
    return run_id[6] >> 4 == 7 and placed - _EARLIER <= made <= placed + _LATER


def _task(event: RunEnded, foreign_id: str | None) -> str:
    task = event.root_task_id or (event.lineage.root if event.lineage else "")
    if not task:
        if before := event.parent_run_id or event.resumed_from:
            return str(before)
        return "" if foreign_id is None else str(event.run_id or event.external_id)
    if event.run_id is not None and task.replace("-", "").lower() == event.run_id.hex:
        return "" if foreign_id is None else str(event.run_id)
    return task


def _looped(event: RunEnded, reason: str) -> bool:
    if event.provider_failure:
        return False
    if event.blocked_fingerprints > event.blocked_by_provider:
        return True
    return bool(reason) and is_loop(reason, provider_failure=False)


def _step_cap(event: RunEnded) -> int | None:
    cap = event.limits.get(CAP_NAMES[event.step_unit])
    return cap if type(cap) is int and 0 <= cap <= _MAX_INTEGER else None


def _fixed(event: RunEnded, times: tuple[int, int, int, int], flags: tuple[bool, ...]) -> bytes:
    at, started, ended, received = times
    eligible, looped, provider_failure, suspect, sanitized = flags
    tokens, peaks, policy = event.tokens, event.peaks, event.policy
    dollars, micro = divmod(int(event.cost.scaleb(6)), 1_000_000)
    places = micro * 100
    # fmt: off
    return copy.FIXED.pack(
        8, at, 8, started, 8, ended, 8, received,
        8, max(0, (ended - started) // 1000),
        8, tokens.input, 8, tokens.output, 8, tokens.cached,
        8, policy.revision_end or policy.revision_start, 8, policy.version,
        4, event.steps, 4, event.turns, 4, event.tool_calls, 4, event.refusals, 4, event.retries,
        4, event.blocked_fingerprints, 4, event.blocked_by_provider, 4, event.duplicates,
        2, event.attempt,
        2, peaks.repeats, 2, peaks.stall, 2, peaks.error_streak,
        2, peaks.domain_calls, 2, peaks.listing_pages, 2, peaks.refusals,
        1, eligible, 1, looped, 1, provider_failure, 1, suspect, 1, sanitized,
        16, 4, 1, 0, 6, dollars // 10_000, dollars % 10_000, places // 10_000, places % 10_000,
    )
    # fmt: on


def _kinds(event: RunEnded, reason: str) -> bytes:
    return copy.texts(
        event.outcome,
        event.answer,
        reason,
        family_of(reason) if reason else "",
        event.policy.mode,
        canonical(event.would_halt.reason) if event.would_halt else "",
        event.step_unit,
        event.cost_basis,
        event.job_type,
        event.agent,
        full_release(event.release, event.prompt_version),
        event.guard.version,
    )


def full_release(release: str, prompt_version: str) -> str:
    """Return the release as columns have it, the prompt's version folded in."""
    return f"{release}+{prompt_version}" if prompt_version else release


def _digest(event: RunEnded, detail: bytes) -> bytes:
    """Return the digest of all that the event says: its detail, encoded already, and its other fields."""
    event.tenant = None  # where a run goes is no part of what it says
    event.sources = event.ledger = event.interventions = event.last_steps = event.truncated = []  # type: ignore[assignment]
    event.limits = event.attributes = {}
    event.halt_detail = event.lineage = event.would_halt = None
    return hashlib.sha256(_encode(event) + detail).digest()[:16]


def _detail(event: RunEnded, reason: str) -> Detail:
    return Detail(
        sources=event.sources,
        ledger=event.ledger,
        interventions=event.interventions,
        last_steps=event.last_steps,
        limits=event.limits,
        halt_detail=event.halt_detail,
        first_reason=event.first_reason,
        lineage=event.lineage,
        policy=event.policy,
        task=event.task,
        guard=event.guard,
        would_halt=event.would_halt,
        answer_by=event.answer_by,
        prompt_version=event.prompt_version,
        truncated=event.truncated,
        attributes=event.attributes,
        halt_reason=event.halt_reason if event.halt_reason and event.halt_reason != reason else None,
        external_id=event.external_id,
    )
