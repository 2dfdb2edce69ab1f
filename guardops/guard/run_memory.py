"""What a durable store keeps of one run beside its ledger rows, and how a later process takes it up again.

Holds counts, digests, codes and names of sources, never arguments, results or addresses. Times are seconds
since the run's start, like everywhere in a run; a later process moves them to its own start.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

import msgspec
from msgspec import Struct

from guardops.guard.budgets import KINDS, Budgets
from guardops.guard.cycles import Entry
from guardops.guard.events import Action, Intervention, WouldHalt
from guardops.guard.ladder import Ladder
from guardops.guard.ledger import Row
from guardops.guard.policy import Kind
from guardops.guard.sources import SourceBook
from guardops.guard.stall import ErrorStreak, StallCounter
from guardops.guard.state import RunState
from guardops.guard.stores import Left
from guardops.guard.summary import Counts


class Held(Struct, frozen=True, omit_defaults=True):
    """What a run has reserved and not settled, by kind of budget."""

    steps: int = 0
    turns: int = 0
    tokens: int = 0
    cost: int = 0
    children: int = 0


class Standing(Struct, omit_defaults=True):
    """Where a run stands on the ladder, and how it got there."""

    action: Action | None = None
    reason: str | None = None
    first_reason: str | None = None
    would_halt: WouldHalt | None = None
    interventions: list[Intervention] = []


class Evidence(Struct, omit_defaults=True):
    """What the counters and detectors of a run have seen."""

    version: int = 0
    label: str | None = None
    writes: int = 0
    successes: int = 0
    edges: list[str] = []
    novelty: set[str] = set()
    cycle: list[Entry] = []
    stall: StallCounter = msgspec.field(default_factory=StallCounter)
    streak: ErrorStreak = msgspec.field(default_factory=ErrorStreak)
    sources: SourceBook = msgspec.field(default_factory=SourceBook)


class RunMemory(Struct, omit_defaults=True):
    """One run as its store keeps it. ``settled`` holds a sub-run's own budgets, in the order of ``KINDS``."""

    started_at: datetime
    last_at: float = 0.0
    seconds: float = 0.0
    """What the run took in all, in seconds."""
    deadline: float | None = None
    held: Held = msgspec.field(default_factory=Held)
    settled: list[int] = []
    evidence: Evidence = msgspec.field(default_factory=Evidence)
    counts: Counts = msgspec.field(default_factory=Counts)
    standing: Standing = msgspec.field(default_factory=Standing)


_encoder = msgspec.msgpack.Encoder()
_memories = msgspec.msgpack.Decoder(RunMemory)
_rows = msgspec.msgpack.Decoder(Row)


def packed_row(row: Row) -> bytes:
    """Return a ledger row as a store keeps it."""
    return _encoder.encode(row)


def held_by(run: RunState) -> Held:
    """Return what a run has reserved for calls in flight and for model turns."""
    tickets, turns = run.in_flight.values(), run.open_turns
    return Held(
        steps=len(tickets),
        turns=len(turns),
        tokens=sum(turn.tokens for turn in turns),
        cost=sum(turn.cost for turn in turns),
        children=sum(1 for ticket in tickets if ticket.spec.kind is not Kind.CALL),
    )


def packed(run: RunState, counts: Counts, ladder: Ladder, started_at: datetime, held: Held) -> bytes:
    """Return a run as a store keeps it, its ledger rows left out."""
    own = run.budgets is not run.root.budgets
    return _encoder.encode(
        RunMemory(
            started_at=started_at,
            last_at=run.last_at,
            seconds=run.last_at + run.carried_seconds,
            deadline=run.deadline,
            held=held,
            settled=[budget.settled for budget in run.budgets.by_kind.values()] if own else [],
            evidence=Evidence(
                version=run.evidence,
                label=run.evidence_label,
                writes=run.writes,
                successes=run.successes,
                edges=run.edges,
                novelty=run.novelty,
                cycle=run.cycle.entries,
                stall=run.stall,
                streak=run.streak,
                sources=run.sources,
            ),
            counts=counts,
            standing=Standing(
                action=ladder.standing,
                reason=ladder.reason,
                first_reason=ladder.first_reason,
                would_halt=ladder.would_halt,
                interventions=ladder.interventions,
            ),
        )
    )


class Recollection(Struct):
    """What an earlier process knew. ``same_run``: it was this very run, not another attempt at its work."""

    memory: RunMemory
    rows: list[Row]
    same_run: bool


def unpacked(left: Left) -> Recollection:
    """Read what a store kept. Raises :class:`msgspec.MsgspecError` for what another version wrote."""
    return Recollection(
        _memories.decode(left.memory), [_rows.decode(row) for row in left.rows], left.same_run
    )


def take_up_evidence(run: RunState, found: Recollection, started_at: datetime) -> None:
    """Give a fresh run what an earlier one had seen; what was in flight is not any more."""
    known = found.memory.evidence
    # A clock that was set back in between must not put every back-off hours ahead.
    shift = min(0.0, (found.memory.started_at - started_at).total_seconds())
    for row in found.rows:
        row.last_at += shift
        row.not_before += shift
        row.first_poll_at += shift
        row.in_flight = 0
        row.uncertain = row.uncertain or row.fingerprint in run.root.uncertain
        run.ledger.add(row)
    run.evidence, run.evidence_label = known.version, known.label
    run.writes, run.successes = known.writes, known.successes
    run.edges, run.novelty = known.edges, known.novelty
    run.stall, run.streak, run.sources = known.stall, known.streak, known.sources
    for entry in known.cycle:
        run.cycle.add(entry)


def take_up_spending(run: RunState, counts: Counts, found: Recollection, started_at: datetime) -> None:
    """Continue the counts of this very run; what it held when its process died is charged in full."""
    memory, held = found.memory, found.memory.held
    shift = (memory.started_at - started_at).total_seconds()
    overlap = max(0.0, memory.last_at + shift) if shift <= 0 else 0.0
    run.carried_seconds = max(0.0, memory.seconds - overlap)
    if memory.deadline is not None:
        earlier = memory.deadline + min(0.0, shift)
        run.deadline = earlier if run.deadline is None else min(run.deadline, earlier)
    for item in fields(Counts):
        setattr(counts, item.name, getattr(memory.counts, item.name))
    counts.turns += held.turns
    counts.tokens_in += held.tokens
    counts.cost += held.cost
    if run.budgets is not run.root.budgets:
        _charge(run.budgets, memory)


def take_up_standing(ladder: Ladder, found: Recollection) -> None:
    """Put this very run back on the rung where it stood."""
    known = found.memory.standing
    ladder.standing, ladder.reason = known.action, known.reason
    ladder.first_reason, ladder.would_halt = known.first_reason, known.would_halt
    ladder.interventions = known.interventions


def _charge(budgets: Budgets, memory: RunMemory) -> None:
    """Settle a sub-run's own budgets; its root's are the store's business."""
    for kind, settled in zip(KINDS, memory.settled, strict=False):
        budgets.by_kind[kind].settled = settled
    for kind in ("steps", "turns", "tokens", "cost"):
        budgets.by_kind[kind].settled += getattr(memory.held, kind)
