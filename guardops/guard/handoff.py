"""What a run hands to a person: the event that opens a checkpoint, and what its process keeps for later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from guardops.guard.budgets import KINDS
from guardops.guard.checkpoints import (
    Amounts,
    Artifact,
    AttemptedSource,
    CallCount,
    CheckpointOpened,
    PendingCall,
)
from guardops.guard.decisions import AddedBudget
from guardops.guard.events import Envelope, OnTimeout, RunEnded, StepOutcome
from guardops.guard.hiding import hidden_args
from guardops.guard.ids import new_uuid7
from guardops.guard.kept_checkpoints import MAX_CONTEXT_BYTES, OpenCheckpoint, name_of_call
from guardops.guard.ledger import Row
from guardops.guard.policy import MICRO
from guardops.guard.reasons import Reason
from guardops.guard.run_memory import held_by, packed, packed_row
from guardops.guard.state import RunState, Ticket
from guardops.guard.stores import Left
from guardops.guard.summary import Record
from guardops.guard.texts import encodable

DAY_S = 86_400.0
LONGEST_S = 30 * DAY_S
MAX_PENDING = 20
MAX_TOOLS = 50
_MAX_TEXT, _MAX_SHORT, _MAX_ARTIFACT, _MAX_UNRESOLVED = 4_096, 256, 16_384, 20
_SOMEBODY_ELSES = "a call of another run"


@dataclass(frozen=True, slots=True)
class Said:
    """What the application says to whoever decides; see :meth:`AgentRun.escalate`."""

    question: str = ""
    unresolved: Sequence[str] = ()
    artifact: str | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)
    context: Any = None
    expires_in: float = DAY_S
    on_timeout: OnTimeout | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.expires_in <= LONGEST_S:
            raise ValueError("expires_in lies between a second and 30 days")
        self.context_as_json()

    def context_as_json(self) -> bytes:
        """Return what the application needs to go on. Raises ValueError where it is no JSON, or too much."""
        try:
            found = msgspec.json.encode(self.context)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"context must be what JSON can hold: {error}") from error
        if len(found) > MAX_CONTEXT_BYTES:
            raise ValueError("context has more than 4 MiB")
        return found


@dataclass(frozen=True, slots=True)
class Opening:
    """A checkpoint about to be opened: where it belongs, and what its run came with."""

    place: str
    on_timeout: OnTimeout
    envelope: Envelope | None = None
    added: AddedBudget | None = None
    checkpoint_id: UUID = field(default_factory=new_uuid7)


def digest_of(artifact: str) -> str:
    """Return what a decision on this text is bound to."""
    return f"sha256:{sha256(artifact.encode(errors='surrogatepass')).hexdigest()}"


def opened(record: Record, ended: RunEnded, said: Said, opening: Opening) -> CheckpointOpened:
    """Return the event that hands a run over, made from what its end says."""
    state = record.state
    pending = [call for _, call in pending_calls(record)]
    calls = call_counts(state)
    cut = [("pending", len(pending) > MAX_PENDING), ("calls", len(calls) > MAX_TOOLS)]
    refused = refused_call(record)
    return CheckpointOpened(
        checkpoint_id=opening.checkpoint_id,
        job_type=ended.job_type,
        reason=ended.halt_reason or Reason.APPROVAL_REQUIRED.value,
        opened_at=record.ended_at,
        expires_at=record.ended_at + timedelta(seconds=said.expires_in),
        on_timeout=opening.on_timeout,
        artifact=_artifact(record, said),
        run_id=ended.run_id,
        external_id=ended.external_id,
        tenant=ended.tenant,
        agent=ended.agent,
        root_task_id=ended.root_task_id,
        parent_run_id=ended.parent_run_id,
        attempt=ended.attempt,
        release=ended.release,
        prompt_version=ended.prompt_version,
        question=encodable(said.question)[:_MAX_TEXT],
        unresolved=[encodable(str(fact))[:_MAX_SHORT] for fact in said.unresolved][:_MAX_UNRESOLVED],
        refused=refused[1] if refused else None,
        last_steps=ended.last_steps,
        interventions=ended.interventions,
        ledger=ended.ledger,
        sources=_sources(ended, said.evidence),
        calls=calls[:MAX_TOOLS],
        pending=pending[:MAX_PENDING],
        sub_agents=max(0, state.root.budgets.children.reserved),
        spent=_spent(state),
        remaining=_remaining(state),
        limits=ended.limits,
        policy=ended.policy,
        guard=ended.guard,
        truncated=[*ended.truncated, *(name for name, is_cut in cut if is_cut)][:20],
    )


def kept(
    record: Record, event: CheckpointOpened, said: Said, opening: Opening, records: list[bytes]
) -> OpenCheckpoint:
    """Return what the process keeps until the run's next attempt has ended."""
    state = record.state
    named = [*pending_calls(record)]
    if refused := refused_call(record):
        named.append(refused)
    memory = packed(state, record.counts, record.ladder, record.who.started_at, held_by(state))
    return OpenCheckpoint(
        checkpoint_id=opening.checkpoint_id,
        place=opening.place,
        who=record.who,
        reason=event.reason,
        opened_at=event.opened_at,
        expires_at=event.expires_at,
        on_timeout=event.on_timeout,
        artifact_digest=event.artifact.digest,
        records=records,
        left=Left(memory, [packed_row(row) for row in state.ledger], same_run=False),
        settled=[state.budgets.by_kind[kind].settled for kind in KINDS],
        seconds=_seconds(state),
        fingerprints={name_of_call(call.tool, call.args_hash): fingerprint for fingerprint, call in named},
        added=opening.added,
        deadline=state.wall(state.deadline) if state.deadline is not None else None,
        envelope=opening.envelope,
        context=said.context_as_json(),
    )


def pending_calls(record: Record) -> list[tuple[str, PendingCall]]:
    """Return the calls that are not settled, by fingerprint: writes of unknown outcome first."""
    state = record.state
    under_way = {ticket.row.fingerprint: ticket for ticket in state.in_flight.values()}
    rows = {
        row.fingerprint: row for row in state.ledger if row.uncertain and row.fingerprint not in under_way
    }
    foreign = state.root.uncertain - rows.keys() - under_way.keys()
    found = [(name, _uncertain(record, row)) for name, row in rows.items()]
    found += [(name, _of_another_run(name)) for name in sorted(foreign)]
    found += [(name, _under_way(record, ticket)) for name, ticket in under_way.items()]
    return sorted(found, key=lambda pair: not pair[1].uncertain)


def refused_call(record: Record) -> tuple[str, PendingCall] | None:
    """Return the call that waits for a person's approval, by its fingerprint."""
    if record.ladder.reason != Reason.APPROVAL_REQUIRED:
        return None
    for step in reversed(record.recent):
        if step.outcome is StepOutcome.REFUSED and step.error_code == Reason.APPROVAL_REQUIRED:
            row = next((row for row in record.state.ledger if _names(row, step.tool, step.args_hash)), None)
            if row is not None:
                call = PendingCall(
                    tool=row.tool[:128],
                    args_hash=row.args_hash,
                    args=hidden_args(step.canonical),
                    side_effect=row.side_effect.value,
                    step=step.step,
                    at=record.state.wall(step.at),
                )
                return row.fingerprint, call
    return None


def call_counts(state: RunState) -> list[CallCount]:
    """Return how often each tool was called, the most called first."""
    counts: dict[str, CallCount] = {}
    for row in state.ledger:
        tool = row.tool[:128]
        count = counts.setdefault(tool, CallCount(tool=tool))
        count.calls += row.count
        count.failed += row.failed
        count.refused += row.refused
    return sorted(counts.values(), key=lambda count: (-count.calls, count.tool))


def _artifact(record: Record, said: Said) -> Artifact:
    """Return what a decision is bound to: the application's text, else the last result that the run had."""
    if said.artifact is not None:
        return Artifact(digest=digest_of(said.artifact), text=encodable(said.artifact)[:_MAX_ARTIFACT])
    last = next((step for step in reversed(record.recent) if step.digest), None)
    if last is None:
        return Artifact(digest=digest_of(""))
    return Artifact(digest=f"result:{last.digest}", source=f"the last result of {last.tool}"[:_MAX_SHORT])


def _sources(ended: RunEnded, evidence: Mapping[str, str]) -> list[AttemptedSource]:
    return [
        AttemptedSource(
            kind=source.kind,
            name=source.name,
            calls=source.calls,
            evidence_version=encodable(str(evidence.get(source.name, "")))[:_MAX_SHORT],
        )
        for source in ended.sources
    ]


def _uncertain(record: Record, row: Row) -> PendingCall:
    step = next((step for step in reversed(record.recent) if _names(row, step.tool, step.args_hash)), None)
    return PendingCall(
        tool=row.tool[:128],
        args_hash=row.args_hash,
        args=hidden_args(step.canonical) if step else "",
        side_effect=row.side_effect.value,
        uncertain=True,
        step=step.step if step else 0,
        at=record.state.wall(row.last_at),
    )


def _under_way(record: Record, ticket: Ticket) -> PendingCall:
    row = ticket.row
    return PendingCall(
        tool=row.tool[:128],
        args_hash=row.args_hash,
        args=hidden_args(ticket.canonical),
        side_effect=row.side_effect.value,
        uncertain=ticket.spec.writes,
        step=ticket.number,
        at=record.state.wall(row.last_at),
    )


def _of_another_run(fingerprint: str) -> PendingCall:
    """Another run of the task has left a write of unknown outcome; its arguments are in its own event."""
    return PendingCall(tool=_SOMEBODY_ELSES, args_hash=fingerprint[:32], side_effect="write", uncertain=True)


def _names(row: Row, tool: str, args_hash: str) -> bool:
    return row.tool == tool and row.args_hash == args_hash


def _seconds(state: RunState) -> float:
    return state.last_at + state.carried_seconds


def _spent(state: RunState) -> Amounts:
    budgets = state.budgets
    return Amounts(
        steps=budgets.steps.settled,
        turns=budgets.turns.settled,
        seconds=int(_seconds(state)),
        tokens=budgets.tokens.settled,
        cost=Decimal(budgets.cost.settled) / MICRO,
    )


def _remaining(state: RunState) -> Amounts:
    budgets, left = state.budgets, state.limits.max_seconds - _seconds(state)
    if state.deadline is not None:
        left = min(left, state.deadline - state.last_at)
    return Amounts(
        steps=budgets.steps.left,
        turns=budgets.turns.left,
        seconds=max(0, int(left)),
        tokens=budgets.tokens.left,
        cost=Decimal(budgets.cost.left) / MICRO,
    )
