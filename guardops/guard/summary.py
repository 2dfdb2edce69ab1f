"""What a run's event says: counts, last steps and the fields that are worked out when it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from guardops.guard.errors import PROVIDER_FAILURES, ErrorClass
from guardops.guard.events import (
    Action,
    Answer,
    GuardInfo,
    Lineage,
    Outcome,
    Peaks,
    PolicyInForce,
    RunEnded,
    SourceKind,
    Step,
    StepOutcome,
    TokenCounts,
)
from guardops.guard.hiding import hidden_args
from guardops.guard.ladder import Ladder
from guardops.guard.observation import Observation
from guardops.guard.policy import MICRO
from guardops.guard.reasons import Family, Reason, family_of
from guardops.guard.sources import MAX_NAMED, Visit
from guardops.guard.state import Call, RunIdentity, RunState, Ticket
from guardops.guard.stores import StoreError
from guardops.guard.texts import encodable

VERSION = "0.1.0"
MAX_STEPS = 20
MAX_LEDGER = 50
MAX_INTERVENTIONS = 100
_SMALL = 32_767

_BLOCKING = frozenset(
    {
        Reason.REPEATED_CALL,
        Reason.TOOL_NO_PROGRESS,
        Reason.DUPLICATE_SIDE_EFFECT,
        Reason.TOOL_RETRY_EXHAUSTED,
        Reason.POLL_EXHAUSTED,
    }
)
"""Refusals that mark the fingerprint itself as blocked."""


class RecentStep(Struct):
    """One of the last steps, kept in the process until the run ends; its arguments are redacted only then."""

    step: int
    tool: str
    canonical: bytes
    args_hash: str
    outcome: StepOutcome
    at: float
    digest: str = ""
    error_class: str = ""
    error_code: str = ""
    progressed: bool | None = None


def refused_step(step: int, call: Call, reason: Reason) -> RecentStep:
    """Return a step for a call that was refused."""
    return RecentStep(
        step,
        call.tool,
        call.identity.canonical,
        call.row.args_hash,
        StepOutcome.REFUSED,
        call.at,
        error_code=reason.value,
    )


def executed_step(ticket: Ticket, seen: Observation, at: float) -> RecentStep:
    """Return a step for a call that ran."""
    failure = seen.failure
    return RecentStep(
        ticket.number,
        ticket.tool,
        ticket.canonical,
        ticket.row.args_hash,
        seen.outcome,
        at,
        "" if failure else seen.note.digest,
        failure.error_class.value if failure else "",
        failure.code if failure else "",
        seen.note.progressed,
    )


@dataclass(slots=True)
class Counts:
    """What a session counts for its event. Times are seconds since the run's start."""

    tool_calls: int = 0
    steps: int = 0
    turns: int = 0
    refusals: int = 0
    refusals_told: int = 0
    """Refusals that the agent was answered with; a batch's count once."""
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: int = 0
    peak_repeats: int = 0
    provider_blocks: set[str] = field(default_factory=set)
    proposed_sources: set[tuple[SourceKind, str]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    last_failure: ErrorClass | None = None

    def proposed(self) -> None:
        """Count a proposed call."""
        self.tool_calls += 1

    def executed(self, failure: ErrorClass | None) -> None:
        """Count an executed call."""
        self.steps += 1
        self.last_failure = failure

    def turn(self, tokens_in: int, tokens_out: int, tokens_cached: int, cost: int) -> None:
        """Count a model turn; ``cost`` is in micro-USD."""
        self.turns += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.tokens_cached += tokens_cached
        self.cost += cost

    def note_refused(self, call: Call, reason: Reason) -> None:
        """Mark what a refusal says of its fingerprint and of its sources."""
        self.note_sources(call.visit, reason)
        call.row.refused += 1
        if reason in _BLOCKING:
            call.row.blocked = True
            if call.row.failed_by_provider:
                self.provider_blocks.add(call.row.fingerprint)

    def note_sources(self, visit: Visit, reason: Reason) -> None:
        """Propose the domains of a call that tripped over its sources or brought nothing any more."""
        if family_of(reason) in (Family.SOURCE, Family.PROGRESS):
            self.proposed_sources.update((SourceKind.DOMAIN, name) for name in visit.domains)

    def note_fault(self, fault: Exception) -> None:
        """Remember that the guard itself failed; the type only, since a message may quote arguments."""
        if len(self.faults) < MAX_STEPS:
            self.faults.append(fault.code if isinstance(fault, StoreError) else type(fault).__name__)


@dataclass(slots=True)
class Record:
    """All that a run's event is made from."""

    who: RunIdentity
    state: RunState
    ladder: Ladder
    counts: Counts
    recent: deque[RecentStep]
    ended_at: datetime
    in_force: PolicyInForce


def run_ended(
    record: Record, outcome: Outcome | None, answer: Answer | None, details: Mapping[str, Any]
) -> RunEnded:
    """Build the event of a run that is over; ``details`` are fields that only the caller knows."""
    who, state, ladder, counts = record.who, record.state, record.ladder, record.counts
    final, closed_with = _how_it_ended(ladder, outcome, answer)
    event = RunEnded(
        job_type=who.job_type,
        outcome=final,
        started_at=who.started_at,
        ended_at=record.ended_at,
        run_id=None if who.external_id else who.run_id,
        external_id=who.external_id,
        agent=who.agent,
        root_task_id=who.root_task_id,
        parent_run_id=who.parent_run_id,
        attempt=who.attempt,
        resumed_from=who.resumed_from,
        release=who.release,
        prompt_version=who.prompt_version,
        halt_reason=ladder.reason,
        halt_detail=_detail(record),
        first_reason=ladder.first_reason,
        would_halt=ladder.would_halt,
        answer=closed_with,
        steps=counts.steps,
        turns=counts.turns,
        tool_calls=counts.tool_calls,
        refusals=counts.refusals,
        retries=counts.retries,
        blocked_fingerprints=sum(1 for row in state.ledger if row.blocked),
        blocked_by_provider=len(counts.provider_blocks),
        duplicates=state.ledger.duplicates(),
        provider_failure=_is_provider_failure(counts, final),
        tokens=TokenCounts(input=counts.tokens_in, output=counts.tokens_out, cached=counts.tokens_cached),
        cost=Decimal(counts.cost) / MICRO,
        peaks=_peaks(state, counts),
        sources=state.sources.named(counts.proposed_sources, quarantined=ladder.standing is Action.HALT),
        ledger=state.ledger.event_rows(MAX_LEDGER, who.started_at),
        interventions=ladder.interventions[:MAX_INTERVENTIONS],
        last_steps=[_wire_step(step, who.started_at) for step in record.recent],
        limits=state.policy.limits_in_force(),
        policy=record.in_force,
        lineage=_lineage(who, state),
        truncated=_truncated(record),
        guard=GuardInfo(version=VERSION),
    )
    return msgspec.structs.replace(event, **details) if details else event


def _lineage(who: RunIdentity, state: RunState) -> Lineage:
    return Lineage(
        root=who.root_task_id,
        parent=str(who.parent_run_id or ""),
        hops_remaining=state.hops,
        chain=list(who.chain),
    )


def _how_it_ended(ladder: Ladder, outcome: Outcome | None, answer: Answer | None) -> tuple[Outcome, Answer]:
    """Return outcome and answer: a stop overrules the caller, a forced answer never counts as completed."""
    if ladder.standing is Action.HALT:
        cancelled = ladder.reason == Reason.CANCELLED or outcome is Outcome.CANCELLED
        return (Outcome.CANCELLED if cancelled else Outcome.HALTED), Answer.NONE
    if ladder.standing is Action.ESCALATE:
        return Outcome.ESCALATED, Answer.NONE
    if ladder.standing is Action.FORCE_ANSWER:
        if outcome in (Outcome.FAILED, Outcome.CANCELLED):
            return outcome, answer or Answer.NONE
        answered = answer is not Answer.NONE and outcome is not Outcome.UNRESOLVED
        return (Outcome.COMPLETED_FORCED, Answer.FORCED) if answered else (Outcome.UNRESOLVED, Answer.NONE)
    final = outcome or (Outcome.UNRESOLVED if answer is Answer.NONE else Outcome.COMPLETED)
    if answer is None:
        answer = _USUAL_ANSWER.get(final, Answer.NONE)
    return final, answer


_USUAL_ANSWER: Mapping[Outcome, Answer] = {
    Outcome.COMPLETED: Answer.FULL,
    Outcome.COMPLETED_FORCED: Answer.FORCED,
}


def _is_provider_failure(counts: Counts, outcome: Outcome) -> bool:
    """Whether the run was lost to its provider: a blocked fingerprint, or a failed run's last error."""
    if counts.provider_blocks:
        return True
    return outcome is Outcome.FAILED and counts.last_failure in PROVIDER_FAILURES


def _detail(record: Record) -> dict[str, Any] | None:
    detail: dict[str, Any] = {}
    if record.state.in_flight:
        # Reaching a limit stops the waiting, never the work: what is still out is listed, not invented.
        detail["in_flight"] = [ticket.tool[:128] for ticket in record.state.in_flight.values()][:MAX_STEPS]
    under_way = {ticket.row.fingerprint for ticket in record.state.in_flight.values()}
    uncertain = [row for row in record.state.ledger if row.uncertain and row.fingerprint not in under_way]
    if uncertain:
        detail["unresolved"] = [row.tool[:128] for row in uncertain][:MAX_STEPS]
    if (order := record.ladder.order) is not None:
        detail["stop"] = {"id": encodable(order.id)[:64], "reason": encodable(order.reason)[:500]}
    if record.counts.faults:
        detail["guard_faults"] = record.counts.faults
    return detail or None


def _peaks(state: RunState, counts: Counts) -> Peaks:
    return Peaks(
        repeats=min(counts.peak_repeats, _SMALL),
        stall=min(state.stall.peak, _SMALL),
        error_streak=min(state.streak.peak, _SMALL),
        domain_calls=min(state.sources.peak_domain, _SMALL),
        listing_pages=min(state.sources.peak_listing, _SMALL),
        refusals=min(counts.refusals, _SMALL),
    )


def _truncated(record: Record) -> list[str]:
    sources = record.state.sources
    found = {
        "ledger": len(record.state.ledger) > MAX_LEDGER,
        "interventions": len(record.ladder.interventions) > MAX_INTERVENTIONS,
        "last_steps": record.counts.tool_calls > MAX_STEPS,
        "sources": len(sources.domains) + len(sources.tools) > MAX_NAMED,
    }
    return [name for name, cut in found.items() if cut]


def _wire_step(step: RecentStep, started_at: datetime) -> Step:
    return Step(
        step=step.step,
        tool=step.tool[:128],
        args=hidden_args(step.canonical),
        args_hash=step.args_hash,
        result_digest=step.digest,
        outcome=step.outcome,
        error_class=step.error_class,
        error_code=step.error_code,
        progressed=step.progressed,
        at=started_at + timedelta(seconds=step.at),
    )
