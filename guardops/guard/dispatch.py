"""From a proposed call to a ticket, and back: the rows, budgets and counts that a call in flight holds."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from guardops.guard.fingerprint import Fingerprint, fingerprint, recorded
from guardops.guard.ledger import Last, Row
from guardops.guard.policy import Kind, ToolSpec
from guardops.guard.sources import NO_VISIT, visit_of
from guardops.guard.state import Batch, BatchId, Call, Note, RunState, Ticket
from guardops.guard.texts import encodable

MAX_EDGES = 32
"""Newest hand-overs that are remembered; a ping-pong shows in eight."""


def prepare(
    run: RunState,
    tool: str,
    args: Mapping[str, Any],
    spec: ToolSpec,
    *,
    at: float,
    batch: BatchId | None,
    depth: int,
    identity: str | None,
) -> Call:
    """Return a proposed call with its ledger row, which is brought to the current state version.

    Raises :class:`guardops.guard.fingerprint.FingerprintError` for arguments without a canonical form.
    """
    found = fingerprint(tool, args, spec) if identity is None else recorded(tool, identity, args, spec)
    tool = encodable(tool)
    version = run.version_for(spec)
    row = run.ledger.get(found.digest)
    if row is None:
        args_hash = sha256(found.canonical).hexdigest()[:32]
        row = run.ledger.add(Row(found.digest, tool, args_hash, spec.side_effect, version=version))
    elif row.version != version:
        row.enter_version(version)
    return Call(tool, spec, found, row, visit_of(args) if args else NO_VISIT, at, depth, batch)


def unjudged(tool: str, spec: ToolSpec, number: int, *, at: float, batch: BatchId | None) -> Call:
    """Return a call that could not be judged: its row is in no ledger and is like no other."""
    name, tool = f"unjudged:{number}", encodable(tool)
    row = Row(name, tool, "", spec.side_effect)
    return Call(tool, spec, Fingerprint(name, b""), row, NO_VISIT, at, 0, batch)


def dispatch(run: RunState, call: Call, number: int) -> Ticket:
    """Mark a call in flight, reserve what it takes and return its ticket."""
    row, spec, budgets = call.row, call.spec, run.budgets
    budgets.steps.reserve()
    if row.last is Last.RETRYABLE:
        budgets.retries.spend()
    if spec.approval:
        run.root.use_approval(row.fingerprint)
    if spec.kind is not Kind.CALL:
        budgets.descendants.spend()
        budgets.children.reserve()
    if spec.kind is Kind.DELEGATE:
        run.edges.append(row.fingerprint)
        del run.edges[:-MAX_EDGES]
    if spec.poll is not None:
        row.first_poll_at = row.first_poll_at if row.polls else call.at
        row.polls += 1
    row.count += 1
    row.in_flight = number
    row.last_at = call.at
    run.sources.count(call.tool, call.visit)
    if call.batch is not None:
        run.batches.setdefault(call.batch, Batch()).outstanding += 1
    ticket = Ticket(number, call.tool, spec, row, call.identity.canonical, call.visit, call.batch)
    if spec.writes:
        run.root.begin_write(row.fingerprint, run.run_id)
        key = f"{run.root.root_task_id}|{row.fingerprint}"
        ticket.idempotency_key = sha256(key.encode()).hexdigest()
    return ticket


def release(run: RunState, ticket: Ticket) -> None:
    """Take a call out of flight and settle what it held."""
    run.budgets.steps.settle(1, 1)
    if ticket.spec.kind is not Kind.CALL:
        run.budgets.children.settle(1, 0)
    if ticket.spec.writes:
        run.root.end_write(ticket.row.fingerprint)
    if ticket.row.in_flight == ticket.number:
        ticket.row.in_flight = 0


def step_notes(run: RunState, ticket: Ticket, note: Note) -> list[Note]:
    """Return what a step brought once it is over: a call at once, a batch with the last of its calls."""
    if ticket.batch is None:
        return [note]
    batch = run.batches[ticket.batch]
    batch.outstanding -= 1
    batch.notes.append(note)
    if batch.outstanding:
        return []
    return run.batches.pop(ticket.batch).notes
