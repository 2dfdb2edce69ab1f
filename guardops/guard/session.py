"""A guarded run: one question before every tool call, one after every result, one before every model call.

Deterministic and synchronous: one lock a root, no I/O inside, time and jitter handed in. Any thread may call.
Times are seconds since the run's start.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID

from guardops.guard import checks, ladder, observation, summary
from guardops.guard.budgets import Budgets
from guardops.guard.events import Action, Answer, Mode, Outcome, RunEnded
from guardops.guard.fingerprint import Fingerprint, FingerprintError, fingerprint, recorded
from guardops.guard.ids import uuid7
from guardops.guard.ledger import Last, Row
from guardops.guard.policy import Kind, Policy, ToolSpec, micro_usd
from guardops.guard.reasons import Reason, known
from guardops.guard.results import digest_of
from guardops.guard.sources import NO_VISIT, visit_of
from guardops.guard.state import Batch, Call, Note, RunIdentity, RunState, Ticket, Trip, Wait
from guardops.guard.stores import MemoryStore, RootState, Store

BatchId = int | str

_FORCED_TURNS = 2
"""Turns settled after an answer was forced: the one that was under way, and the answer itself."""


class TicketError(ValueError):
    """A result was handed in for a call that is not in flight."""

    code = "unknown_ticket"


@dataclass(frozen=True, slots=True)
class Check:
    """The answer before a tool call. The call may run when, and only when, there is a ticket."""

    action: Action
    reason: Reason | None = None
    ticket: Ticket | None = None
    not_before: float | None = None
    """With ``wait``: when the call may be proposed again."""
    message: str = ""
    """What to tell the agent instead of a result."""
    leader: int | None = None
    """With ``duplicate_in_flight`` on a read: the ticket whose result the caller may share."""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.ticket is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer after a result or a model turn."""

    action: Action
    reason: Reason | None = None
    message: str = ""


CONTINUE = Verdict(Action.CONTINUE)


class Guard:
    """The guard of one process: a policy, a store, and the edge's clock and jitter."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.policy = policy or Policy()
        self.store = store or MemoryStore()
        self._jitter = jitter
        self._now = now

    def run(
        self,
        *,
        job_type: str,
        run_id: UUID | None = None,
        root_task_id: str | None = None,
        agent: str = "",
        release: str = "",
        prompt_version: str = "",
        external_id: str | None = None,
        parent_run_id: UUID | None = None,
        attempt: int = 1,
        clock: Callable[[], float] | None = None,
        started_at: datetime | None = None,
        deadline: float | None = None,
        policy: Policy | None = None,
        resumed: bool = False,
    ) -> RunGuard:
        """Start a run.

        ``clock`` gives the seconds since the run's start and ``started_at`` is its wall-clock time (UTC); both
        default to now. Runs with one ``root_task_id`` share budgets, the one nudge, and a halt. A run id that
        was halted starts again only with ``resumed``; otherwise all its calls are refused (``requeue_refused``).
        """
        moment = started_at or self._now()
        identifier = run_id or uuid7(int(moment.timestamp() * 1_000), secrets.randbits(74))
        who = RunIdentity(
            job_type=job_type,
            run_id=identifier,
            root_task_id=root_task_id or str(identifier),
            started_at=moment,
            external_id=external_id,
            parent_run_id=parent_run_id,
            attempt=attempt,
            agent=agent,
            release=release,
            prompt_version=prompt_version,
        )
        return RunGuard(
            who,
            policy or self.policy,
            self.store,
            clock=clock or _stopwatch(),
            jitter=self._jitter,
            deadline=deadline,
            resumed=resumed,
        )


class RunGuard:
    """One guarded run. Made by :meth:`Guard.run`."""

    def __init__(
        self,
        who: RunIdentity,
        policy: Policy,
        store: Store,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        deadline: float | None,
        resumed: bool,
    ) -> None:
        self.who = who
        self.policy = policy
        self._store = store
        self._clock = clock
        self._jitter = jitter
        root, budgets = _join_root(store, who, policy)
        self.state = RunState(policy, root, budgets, deadline)
        self.ladder = ladder.Ladder(policy, root)
        self.counts = summary.Counts()
        self._recent: deque[summary.RecentStep] = deque(maxlen=summary.MAX_STEPS)
        self._lock = root.lock
        self._in_flight: dict[int, Ticket] = {}
        self._reserved = (0, 0)
        self._tripped_batch: BatchId | None = None
        self._told_leaders: set[int] = set()
        self._forced_turns = 0
        if store.is_halted(str(who.run_id)) and not resumed:
            root.halted = root.halted or Reason.REQUEUE_REFUSED.value
            self.ladder.reason = Reason.REQUEUE_REFUSED.value

    # -- before a tool call ------------------------------------------------------------------------------

    def check(
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        at: float | None = None,
        batch: BatchId | None = None,
        depth: int = 0,
        identity: str | None = None,
    ) -> Check:
        """Say whether a proposed call may run, and mark it in flight if so.

        ``batch`` is equal for the calls of one parallel batch, whose checks all come before any result.
        ``depth`` is the run's own depth in the tree of spawned agents. ``identity`` replaces the arguments in
        the fingerprint where a recorder has already reduced them to a digest.
        """
        with self._lock:
            moment = self._clock() if at is None else at
            self.counts.proposed(moment)
            try:
                return self._check(tool, args, moment, batch, depth, identity)
            except Exception as fault:
                return self._check_with_fault(tool, fault, moment, batch)

    def _check(
        self,
        tool: str,
        args: Mapping[str, Any],
        at: float,
        batch: BatchId | None,
        depth: int,
        identity: str | None,
    ) -> Check:
        stopped = self._after_stop(batch)
        if stopped is not None:
            return stopped
        spec = self.policy.tool(tool)
        try:
            if identity is None:
                print_ = fingerprint(tool, args, spec)
            else:
                print_ = recorded(tool, identity, spec)
        except FingerprintError as error:
            trip = Trip(Reason.TOOL_NO_PROGRESS)
            return self._refusal(trip, tool, batch, None, text=str(error)) or self._unchecked(
                tool, spec, at, batch
            )
        row = self._row(tool, spec, print_)
        visit = visit_of(args) if args else NO_VISIT
        call = Call(tool, spec, print_, row, visit, at, depth, batch)
        found = checks.pre_check(self.state, call)
        if spec.poll is None:
            self.counts.peak_repeats = max(self.counts.peak_repeats, row.streak + 1)
        if found is None:
            return self._dispatch(call)
        if type(found) is Wait:
            if self.policy.mode is Mode.ENFORCE:
                return Check(Action.WAIT, not_before=found.not_before)
            return self._dispatch(call)
        assert isinstance(found, Trip)
        return self._refusal(found, tool, batch, call) or self._dispatch(call)

    def _row(self, tool: str, spec: ToolSpec, print_: Fingerprint) -> Row:
        row = self.state.ledger.get(print_.digest)
        version = self.state.version_for(spec)
        if row is None:
            args_hash = sha256(print_.canonical).hexdigest()[:32]
            return self.state.ledger.add(
                Row(print_.digest, tool, args_hash, spec.side_effect, version=version)
            )
        if row.version != version:
            row.enter_version(version)
        return row

    def _after_stop(self, batch: BatchId | None) -> Check | None:
        """Refuse what comes after a stop. A call inside the forced turn halts; a sibling of the stopped batch doesn't."""
        root, standing = self.state.root, self.ladder.standing
        if root.halted is None and standing is None:
            return None
        self.counts.refusals += 1
        step = self.counts.tool_calls
        if root.halted is not None:
            self.ladder.halt(step, root.halted)
        elif standing is Action.FORCE_ANSWER:
            if batch is None or batch != self._tripped_batch:
                self.ladder.halt(step)
                self._store.halt_run(str(self.who.run_id))
        return Check(self.ladder.standing or Action.HALT, known(self.ladder.reason))

    def _refusal(
        self, trip: Trip, tool: str, batch: BatchId | None, call: Call | None, *, text: str = ""
    ) -> Check | None:
        """Refuse a call and answer on the ladder; None where the policy's mode only watches."""
        step = self.counts.tool_calls
        reason = trip.reason
        if not self.ladder.enforces(reason):
            self.ladder.climb(reason, step)
            return None
        self.counts.refusals += 1
        leader = call.row.in_flight if call is not None and reason is Reason.DUPLICATE_IN_FLIGHT else 0
        if call is not None:
            self.counts.note_refused(call, reason)
            self.counts.note_sources(call.visit, reason)
            self._recent.append(summary.refused_step(step, call, reason))
        message = text or ladder.message(reason, tool, trip.count, trip.detail)
        action = (
            Action.REFUSE
            if self._already_told(reason, batch, leader)
            else self._climb_refusal(reason, step, batch)
        )
        shared = leader if leader and call is not None and not call.spec.writes else None
        return Check(action, reason, message=message, leader=shared)

    def _already_told(self, reason: Reason, batch: BatchId | None, leader: int) -> bool:
        """One batch, and one call in flight, climb one rung only: their calls were proposed before the answer."""
        if leader:
            told = leader in self._told_leaders
            self._told_leaders.add(leader)
            return told
        same = batch is not None and batch == self._tripped_batch
        return same and ladder.first_rung(reason) is Action.NUDGE

    def _climb_refusal(self, reason: Reason, step: int, batch: BatchId | None) -> Action:
        self.counts.refusals_told += 1
        self._tripped_batch = batch
        limit = self.state.limits.max_refusals
        if self.counts.refusals_told >= limit and ladder.first_rung(reason) is Action.NUDGE:
            reason = Reason.REFUSAL_LIMIT
        action = self.ladder.climb(reason, step)
        if action is Action.HALT:
            self._store.halt_run(str(self.who.run_id))
        return action

    def _dispatch(self, call: Call) -> Check:
        """Mark a call in flight and hand out its ticket."""
        state, row, spec = self.state, call.row, call.spec
        number = self.counts.tool_calls
        state.budgets.steps.reserve()
        if row.last is Last.RETRYABLE:
            state.budgets.retries.reserve()
            state.budgets.retries.settle(1, 1)
            self.counts.retries += 1
        if spec.approval and state.root.approvals.get(row.fingerprint):
            state.root.approvals[row.fingerprint] -= 1
        if spec.kind is not Kind.CALL:
            state.budgets.descendants.reserve()
            state.budgets.descendants.settle(1, 1)
            state.budgets.children.reserve()
            state.edges.append(row.fingerprint)
        if spec.poll is not None:
            row.first_poll_at = row.first_poll_at if row.polls else call.at
            row.polls += 1
        row.count += 1
        row.in_flight = number
        row.last_at = call.at
        state.sources.count(call.tool, call.visit)
        ticket = Ticket(number, call.tool, spec, row, call.identity.canonical, call.visit, call.batch)
        if spec.writes:
            ticket.idempotency_key = sha256(f"{self.who.root_task_id}|{row.fingerprint}".encode()).hexdigest()
        self._in_flight[number] = ticket
        if call.batch is not None:
            state.batches.setdefault(call.batch, Batch()).outstanding += 1
        return Check(Action.CONTINUE, ticket=ticket)

    def _unchecked(self, tool: str, spec: ToolSpec, at: float, batch: BatchId | None) -> Check:
        """Let a call pass that could not be judged; it counts as a step and as nothing else."""
        name = f"unchecked:{self.counts.tool_calls}"
        row = Row(name, tool, "", spec.side_effect)
        return self._dispatch(Call(tool, spec, Fingerprint(name, b""), row, NO_VISIT, at, 0, batch))

    def _check_with_fault(self, tool: str, fault: Exception, at: float, batch: BatchId | None) -> Check:
        """The guard itself failed: it says so, lets a read pass and refuses a write."""
        self.counts.note_fault(fault)
        spec = self.policy.tool(tool)
        if spec.writes:
            refused = self._refusal(Trip(Reason.GUARD_ERROR), tool, batch, None)
            if refused is not None:
                return refused
        return self._unchecked(tool, spec, at, batch)

    # -- after a result ----------------------------------------------------------------------------------

    def observe(
        self,
        ticket: Ticket,
        *,
        result: object = None,
        error: object = None,
        progressed: bool | None = None,
        at: float | None = None,
        digest: str | None = None,
        redirects: Iterable[str] = (),
    ) -> Verdict:
        """Record what a call brought and say whether the run may go on.

        ``error`` is an exception, a text or a mapping (see :func:`guardops.guard.errors.classify`);
        ``progressed`` is the application's word, None where it doesn't know. ``digest`` replaces the result's
        own digest; ``redirects`` are the URLs the call was sent on to. Raises :class:`TicketError` for a
        ticket that isn't in flight.
        """
        with self._lock:
            moment = self._clock() if at is None else at
            if self._in_flight.pop(ticket.number, None) is not ticket:
                raise TicketError(f"call {ticket.number} is not in flight")
            self.counts.seen(moment)
            self._release(ticket)
            try:
                return self._observe(ticket, result, error, progressed, moment, digest, redirects)
            except Exception as fault:
                self.counts.note_fault(fault)
                if not ticket.spec.writes:
                    return CONTINUE
                self._mark_uncertain(ticket.row)
                return self._answer(Trip(Reason.GUARD_ERROR), ticket)

    def _release(self, ticket: Ticket) -> None:
        budgets = self.state.budgets
        budgets.steps.settle(1, 1)
        if ticket.spec.kind is not Kind.CALL:
            budgets.children.settle(1, 0)
        if ticket.row.in_flight == ticket.number:
            ticket.row.in_flight = 0
        self._told_leaders.discard(ticket.number)

    def _observe(
        self,
        ticket: Ticket,
        result: object,
        error: object,
        progressed: bool | None,
        at: float,
        digest: str | None,
        redirects: Iterable[str],
    ) -> Verdict:
        state = self.state
        failure = observation.failure_of(ticket.spec, result, error, lambda: self._wall(at))
        if failure is not None:
            seen = observation.record_failure(state, ticket, failure, progressed, at, self._jitter)
        else:
            found, size = (digest, 0) if digest is not None else digest_of(result)
            state.sources.add_bytes(ticket.tool, ticket.visit, size)
            seen = observation.record_result(state, ticket, result, found, progressed)
        self.counts.executed(at, failure.error_class if failure else None)
        self._recent.append(summary.executed_step(ticket, seen, at))
        notes = self._step_notes(ticket, seen.note)
        trip = checks.post_check(state, notes, at) if notes else checks.budget_trip(state, at)
        targets = [*redirects, *observation.redirects_named(result)]
        if targets and (sent_on := observation.redirect_trip(state, ticket, targets)):
            trip = trip or sent_on
        trip = seen.trip or trip
        return self._answer(trip, ticket) if trip is not None else self._standing()

    def _step_notes(self, ticket: Ticket, note: Note) -> list[Note]:
        """Return what the step brought once it is over: at once, or with the last call of its batch."""
        if ticket.batch is None:
            return [note]
        batch = self.state.batches[ticket.batch]
        batch.outstanding -= 1
        batch.notes.append(note)
        if batch.outstanding:
            return []
        return self.state.batches.pop(ticket.batch).notes

    def _answer(self, trip: Trip, ticket: Ticket) -> Verdict:
        reason = trip.reason
        if self._already_told(reason, ticket.batch, 0):
            return self._standing()
        if self.ladder.enforces(reason) and self.ladder.standing is None:
            self._tripped_batch = ticket.batch
            self.counts.note_sources(ticket.visit, reason)
        action = self.ladder.climb(reason, self.counts.tool_calls)
        if action is Action.CONTINUE:
            return CONTINUE
        if action is Action.HALT:
            self._store.halt_run(str(self.who.run_id))
        return Verdict(action, reason, ladder.message(reason, ticket.tool, trip.count, trip.detail))

    def _standing(self) -> Verdict:
        if self.ladder.standing is None:
            return CONTINUE
        return Verdict(self.ladder.standing, known(self.ladder.reason))

    # -- around a model call -----------------------------------------------------------------------------

    def reserve_turn(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> Verdict:
        """Set aside what the next model call may take, and say whether it may be made.

        In the forced turn nothing is refused: its allowance lies on top of the limits.
        """
        with self._lock:
            budgets, amount = self.state.budgets, micro_usd(cost)
            if self.ladder.standing is not None:
                return self._standing()
            if not budgets.tokens.reserve(tokens):
                return self._turn_trip(Reason.TOKEN_BUDGET)
            if not budgets.cost.reserve(amount):
                budgets.tokens.settle(tokens, 0)
                return self._turn_trip(Reason.COST_BUDGET)
            self._reserved = (tokens, amount)
            return CONTINUE

    def turn(
        self,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost: Decimal | float | str = 0,
        at: float | None = None,
        *,
        tokens_cached: int = 0,
        usage_known: bool = True,
    ) -> Verdict:
        """Settle one model turn and say whether there may be another.

        Without ``usage_known`` (a stream that was cancelled) the turn is settled at its reservation.
        """
        with self._lock:
            moment = self._clock() if at is None else at
            budgets = self.state.budgets
            tokens, amount = tokens_in + tokens_out, micro_usd(cost)
            (held_tokens, held_amount), self._reserved = self._reserved, (0, 0)
            if not usage_known:
                tokens, amount = max(tokens, held_tokens), max(amount, held_amount)
            self.counts.turn(moment, tokens_in, tokens_out, tokens_cached, amount)
            budgets.tokens.settle(held_tokens, tokens)
            budgets.cost.settle(held_amount, amount)
            budgets.turns.settle(0, 1)
            if self.ladder.standing is Action.FORCE_ANSWER:
                self._forced_turns += 1
                if self._forced_turns > _FORCED_TURNS:
                    self.ladder.halt(self.counts.tool_calls)
            if self.ladder.standing is not None:
                return self._standing()
            reason = budgets.spent_by_turns()
            trip = Trip(reason) if reason else checks.out_of_time(self.state, moment)
            return self._turn_trip(trip.reason) if trip else CONTINUE

    def _turn_trip(self, reason: Reason) -> Verdict:
        self._tripped_batch = None
        action = self.ladder.climb(reason, self.counts.tool_calls)
        return Verdict(action, reason, ladder.message(reason, "", 0))

    def snapshot(self) -> bytes:
        """Return the ledger's newest rows (at most 1 KB of JSON), to be shown to the model before it is called."""
        with self._lock:
            return self.state.ledger.snapshot()

    # -- what the application and people say -------------------------------------------------------------

    def state_changed(self, version: object = None) -> None:
        """Say that authoritative evidence changed: equal calls are legitimate again. A known version is no change."""
        with self._lock:
            if version is None or version != self.state.evidence_label:
                self.state.evidence_label = version
                self.state.evidence += 1

    def approve(self, tool: str, args: Mapping[str, Any]) -> None:
        """Grant one use of one call: this tool with exactly these arguments."""
        with self._lock:
            digest = fingerprint(tool, args, self.policy.tool(tool)).digest
            approvals = self.state.root.approvals
            approvals[digest] = approvals.get(digest, 0) + 1

    def reconcile(self, tool: str, args: Mapping[str, Any], *, happened: bool) -> None:
        """Say whether an uncertain write took effect; after that the ordinary rules apply to it again."""
        with self._lock:
            digest = fingerprint(tool, args, self.policy.tool(tool)).digest
            root, row = self.state.root, self.state.ledger.get(digest)
            root.uncertain.discard(digest)
            if happened:
                root.done.add(digest)
            if row is not None:
                row.uncertain = False
                row.done = row.done or happened
                row.last = Last.OK if happened else Last.NEVER

    def stop(self, reason: Reason = Reason.OPERATOR_STOP) -> None:
        """Stop the whole root by a person's order: every later call of it is refused."""
        with self._lock:
            self.ladder.halt(self.counts.tool_calls, reason.value)
            self._store.halt_run(str(self.who.run_id))

    def report(self, reason: Reason) -> Verdict:
        """Answer a limit that the framework met by itself (``framework_limit``)."""
        with self._lock:
            return self._turn_trip(reason)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what an earlier process or a parent knew: ``halt`` is the reason of the root's halt."""
        with self._lock:
            halted = state.get("halt")
            if halted is not None:
                self.state.root.halted = str(halted)

    def end(
        self,
        outcome: Outcome | None = None,
        *,
        answer: Answer | None = None,
        at: float | None = None,
        **details: Any,
    ) -> RunEnded:
        """Close the run and return its event, ready to send.

        ``outcome`` and ``answer`` are the caller's view; a stop overrules them, so that a forced answer is never
        counted as completed. ``details`` are further fields of the event that only the caller knows.
        """
        with self._lock:
            moment = self._clock() if at is None else at
            self.counts.seen(moment)
            for ticket in self._in_flight.values():
                if ticket.spec.writes:
                    self._mark_uncertain(ticket.row)
            record = summary.Record(
                self.who, self.state, self.ladder, self.counts, self._recent, self._in_flight
            )
            return summary.run_ended(record, outcome, answer, self._wall(moment), details)

    def _mark_uncertain(self, row: Row) -> None:
        row.uncertain = True
        self.state.root.uncertain.add(row.fingerprint)

    def _wall(self, at: float) -> datetime:
        return self.who.started_at + timedelta(seconds=at)


def _join_root(store: Store, who: RunIdentity, policy: Policy) -> tuple[RootState, Budgets]:
    """Return the root's state and the run's budgets: the root's own for its first run, within them for others."""
    root = store.root(who.root_task_id, policy.limits)
    with root.lock:
        if not root.joined:
            root.joined = True
            return root, root.budgets
        return root, Budgets(policy.limits, root.budgets)


def _stopwatch() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start
