"""A guarded run: one question before every tool call, one after every result, one before every model call.

Deterministic and synchronous: one lock a root, time and jitter handed in, and no I/O but the store's commit
of every answer. Any thread may call, and so may any coroutine. Times are seconds since the run's start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from typing import Any

from guardops.guard import checks, summary, turns
from guardops.guard.answers import CONTINUE, Check, Verdict
from guardops.guard.bundle import SigningKey
from guardops.guard.dispatch import release
from guardops.guard.envelope import Refusal, child_envelope, sign
from guardops.guard.events import Answer, Envelope, Outcome, PolicyInForce, RunEnded
from guardops.guard.fingerprint import fingerprint
from guardops.guard.following import Following
from guardops.guard.keeping import Keeper
from guardops.guard.kept_checkpoints import OpenCheckpoint
from guardops.guard.ladder import Ladder
from guardops.guard.ledger import Row
from guardops.guard.next_attempt import may_go_on, take_up
from guardops.guard.observation import Report, observe
from guardops.guard.policy import Policy, micro_usd
from guardops.guard.pressure import pressure_on
from guardops.guard.proposals import Proposals
from guardops.guard.quarantine import Quarantine
from guardops.guard.reasons import Reason
from guardops.guard.responder import Responder
from guardops.guard.sqlite_root import Kept, Recall, SqliteRoot
from guardops.guard.state import BatchId, RunIdentity, RunState, Ticket, Trip
from guardops.guard.stores import RootState, Store
from guardops.guard.texts import encodable, short_digest


class TicketError(ValueError):
    """A result was handed in for a call that is not in flight."""

    code = "unknown_ticket"


class RunGuard:
    """One guarded run. Made by :meth:`Guard.run`."""

    def __init__(
        self,
        who: RunIdentity,
        policy: Policy,
        store: Store,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        deadline: float | None,
        *,
        resumed: bool,
        following: Following | None = None,
        quarantine: Quarantine | None = None,
        after: OpenCheckpoint | None = None,
    ) -> None:
        """``after`` is the checkpoint after which this attempt begins, once its decision is consumed."""
        self.who = who
        self.policy = policy
        self._store = store
        self._clock = clock
        self._jitter = jitter
        root = store.root(who.root_key, policy.limits)
        self.counts = summary.Counts()
        self._recent: deque[summary.RecentStep] = deque(maxlen=summary.MAX_STEPS)
        self._keeper = Keeper(root, who, self.counts) if isinstance(root, SqliteRoot) else None
        self._answer: AbstractContextManager[Any] = self._keeper.answer if self._keeper else root.lock
        self._answer_to_write = self._keeper.answer_to_write if self._keeper else root.lock
        with self._answer:
            run_id = str(who.run_id)
            self.state = RunState(who, policy, root, root.join(run_id, policy.limits), deadline)
            self.ladder = Ladder(policy, root, run_id)
            self._responder = Responder(self.state, self.counts, self.ladder)
            self._proposals = Proposals(self.state, self.counts, self._responder, self._recent, self._keeper)
            self.state.quarantine = quarantine
            self._following = following
            self._after = after
            recall = Recall.STOPPED if resumed else Recall.DEAD
            self._admit(root, Recall.ITSELF if after is not None else recall)

    def _admit(self, root: RootState, recall: Recall) -> None:
        """A run that was stopped starts again only with a resume grant, and of a closed task not even so."""
        run_id, after = self.state.run_id, self._after
        stopped = root.was_stopped(run_id)
        if stopped and recall is not Recall.STOPPED:
            self.ladder.stand_aside(0, Reason.REQUEUE_REFUSED)
            return
        closed = root.halted == Reason.CANCELLED
        if (recall is Recall.STOPPED and not closed) or (after is not None and may_go_on(root)):
            root.resume(run_id)
        known = False
        if self._keeper is not None:
            known = self._keeper.take_up(self.state, self.ladder, recall, stopped=stopped)
        if after is not None and not known:  # else an earlier process of this attempt has done so
            take_up(after, self.state, self._responder, self.counts)
            if self._keeper is not None:
                self._keeper.touch(*self.state.ledger)
        if self._following is not None and (self._following.order or self._following.too_old):
            self.ladder.order = self._following.order
            reason = Reason.OPERATOR_STOP if self.ladder.order else Reason.BUDGET_UNAVAILABLE
            self.ladder.stand_aside(self.counts.tool_calls, reason)
            root.stop_run(run_id)

    def _catch_up(self, at: float) -> None:
        """Take over what has been published since the last step, as far as a running run does.

        A fault in it is noted once: the policy in force stays until the next bundle.
        """
        following = self._following
        assert following is not None
        try:
            policy, order = following.news(self.policy, at)
            if policy is not self.policy:
                self.policy = policy
                self.state.hold_to(policy)
                self.ladder.hold_to(policy)
            if order is not None:
                self._responder.obey(order)
        except Exception as fault:
            self.counts.note_fault(fault)

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
        spec = self.policy.tool(tool)
        with self._answer_to_write if spec.writes else self._answer:
            moment = self.state.last_at = self._clock() if at is None else at
            if self._following is not None and self._following.has_news(moment):
                self._catch_up(moment)
                spec = self.policy.tool(tool)
            self.counts.proposed()
            stopped = self._responder.after_stop(batch)
            if stopped is not None:
                return stopped
            answer = self._proposals.judge(tool, args, spec, moment, batch, depth, identity)
            keeper = self._keeper
            return answer if keeper is None else self._proposals.kept(answer, keeper.commit())

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
        with self._answer:
            moment = self.state.last_at = self._clock() if at is None else at
            if self._following is not None and self._following.has_news(moment):
                self._catch_up(moment)
            if self.state.in_flight.get(ticket.number) is not ticket:
                raise TicketError(f"call {ticket.number} is not in flight")
            del self.state.in_flight[ticket.number]
            if self._keeper is not None and self.state.ledger.get(ticket.row.fingerprint) is ticket.row:
                self._keeper.touch(ticket.row)
            release(self.state, ticket)
            self._responder.landed(ticket)
            report = Report(result, error, progressed, moment, digest, redirects)
            try:
                seen = observe(
                    self.state, ticket, report, started_at=self.who.started_at, jitter=self._jitter
                )
            except Exception as fault:
                return self._observe_after_fault(ticket, fault)
            self.counts.executed(seen.failure.error_class if seen.failure else None)
            self._recent.append(summary.executed_step(ticket, seen, moment))
            if seen.trip is None:
                return self._responder.standing()
            return self._responder.answer(seen.trip, ticket)

    def _observe_after_fault(self, ticket: Ticket, fault: Exception) -> Verdict:
        """The guard itself failed: after a read the run goes on, a write has become uncertain."""
        self.counts.note_fault(fault)
        self.counts.executed(None)
        if not ticket.spec.writes:
            return self._responder.standing()
        self._mark_uncertain(ticket.row)
        return self._responder.answer(Trip(Reason.GUARD_ERROR), ticket)

    # -- around a model call -----------------------------------------------------------------------------

    def reserve_turn(
        self, *, tokens: int = 0, cost: Decimal | float | str = 0, at: float | None = None
    ) -> Verdict:
        """Set aside what the next model call may take, and say whether it may be made.

        In the forced turn nothing is refused: its allowance lies on top of the limits.
        """
        amount = micro_usd(cost)
        with self._answer:
            moment = self.state.last_at = self._clock() if at is None else at
            if self._following is not None and self._following.has_news(moment):
                self._catch_up(moment)
            if (stopped := self._responder.before_turn()) is not None:
                return stopped
            if trip := turns.reserve(self.state, tokens, amount, moment):
                return self._responder.answer_turn(trip)
            if self._keeper is not None and self._keeper.commit() is Kept.TAKEN_OVER:
                self.ladder.stand_aside(self.counts.tool_calls, Reason.REQUEUE_REFUSED)
                return self._responder.standing()
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
        answered: bool = False,
    ) -> Verdict:
        """Settle one model turn and say whether there may be another.

        Without ``usage_known`` (a cancelled stream) it is settled at its reservation. One that ``answered``
        asks for no other, so a limit that is reached with it stops nothing.
        """
        amount, tokens = micro_usd(cost), (tokens_in, tokens_out, tokens_cached)
        with self._answer:
            moment = self.state.last_at = self._clock() if at is None else at
            if self._following is not None and self._following.has_news(moment):
                self._catch_up(moment)
            turns.settle(self.state, self.counts, tokens, amount, usage_known=usage_known)
            if (stopped := self._responder.after_turn()) is not None:
                return stopped
            trip = checks.no_further_turn(self.state, moment)
            return self._responder.answer_turn(trip) if trip and not answered else CONTINUE

    def snapshot(self) -> bytes:
        """Return the ledger's newest rows (at most 1 KB of JSON), to be shown to the model before a call."""
        with self.state.root.lock:
            return self.state.ledger.snapshot()

    def pressure(self, at: float | None = None) -> dict[str, float]:
        """Return the share used of each limit of the run, by its name; 1 and more is used up."""
        with self.state.root.lock:
            return pressure_on(self.state, self.counts, self._clock() if at is None else at)

    def envelope(
        self,
        package: object,
        *,
        ticket: Ticket | None = None,
        key: SigningKey | None = None,
        policy_revision: int | None = None,
    ) -> Envelope | Refusal:
        """Return what to send along with work that another process will do, charged to the root.

        ``package`` is that work, as JSON. The ``ticket`` is the call's that hands it over, where the tool is
        declared as one that delegates or spawns. With the tenant's ``key`` the envelope is signed; key and
        revision are by default those of the published policy.
        """
        if self._following is not None:
            key = key or self._following.signing
            policy_revision = self._following.revision if policy_revision is None else policy_revision
        with self._answer:
            made = child_envelope(
                self.state, self.who, package, ticket=ticket, policy_revision=policy_revision or 0
            )
        return sign(made, key) if key is not None and isinstance(made, Envelope) else made

    # -- what the application and people say -------------------------------------------------------------

    def state_changed(self, version: object = None) -> None:
        """Say that authoritative evidence changed: equal calls are legitimate again.

        The version that is already known is no change.
        """
        with self._answer:
            label = None if version is None else short_digest(repr(version))
            if label is None or label != self.state.evidence_label:
                self.state.evidence_label = label
                self.state.evidence += 1

    def approve(self, tool: str, args: Mapping[str, Any]) -> None:
        """Grant one use of one call: this tool with exactly these arguments."""
        with self._answer:
            self.state.root.approve(fingerprint(tool, args, self.policy.tool(tool)).digest)

    def reconcile(self, tool: str, args: Mapping[str, Any], *, happened: bool) -> None:
        """Say whether an uncertain write took effect; after that the ordinary rules apply to it again."""
        with self._answer:
            digest = fingerprint(tool, args, self.policy.tool(tool)).digest
            self.state.root.reconcile(digest, happened=happened)
            if row := self.state.ledger.get(digest):
                row.reconcile(happened=happened)
                if self._keeper is not None:
                    self._keeper.touch(row)

    def stop(self, reason: Reason = Reason.OPERATOR_STOP) -> None:
        """Stop the whole root by a person's order: every later call of it is refused."""
        with self._answer:
            self._responder.halt(reason.value)

    def suspend(self, reason: Reason = Reason.APPROVAL_REQUIRED) -> Verdict:
        """Leave the run to a person: no call passes any more, and the outcome is ``escalated``."""
        with self._answer:
            self.ladder.escalate(self.counts.tool_calls, reason)
            return self._responder.standing()

    def report(self, reason: Reason) -> Verdict:
        """Answer a limit that the framework met by itself (``framework_limit``)."""
        with self._answer:
            return self._responder.answer_turn(Trip(reason))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what a parent or an earlier process knew: ``halt`` is the reason of the root's halt."""
        with self._answer:
            if (reason := state.get("halt")) is not None:
                self.state.root.halt(encodable(str(reason))[:64])

    def end(
        self,
        outcome: Outcome | None = None,
        *,
        answer: Answer | None = None,
        at: float | None = None,
        **details: Any,
    ) -> RunEnded:
        """Close the run and return its event, ready to send.

        ``outcome`` and ``answer`` are the caller's view; a stop overrules them, so that a forced answer is
        never counted as completed. ``details`` are fields of the event that only the caller knows.
        """
        with self._answer:
            moment = self.state.last_at = self._clock() if at is None else at
            turns.charge_open(self.state, self.counts)
            for ticket in self.state.in_flight.values():
                if ticket.spec.writes:
                    self.state.root.end_write(ticket.row.fingerprint)
                    self._mark_uncertain(ticket.row)
            event = summary.run_ended(self.record(self._wall(moment)), outcome, answer, details)
            if self._keeper is not None:
                self._keeper.end(stopped=self.ladder.stops)
            if self._after is not None:
                self._store.checkpoints.remove(self._after.checkpoint_id, self.state.root)
            return event

    def record(self, ended_at: datetime) -> summary.Record:
        """Return all that the run's event is made from. Hold the run's lock."""
        return summary.Record(
            self.who, self.state, self.ladder, self.counts, self._recent, ended_at, self.in_force()
        )

    def in_force(self) -> PolicyInForce:
        """Return which policy the run is judged by, as its events say it."""
        mode = self.policy.mode
        return PolicyInForce(mode=mode) if self._following is None else self._following.in_force(mode)

    def _mark_uncertain(self, row: Row) -> None:
        row.uncertain = True
        self.state.root.mark_uncertain(row.fingerprint)

    def _wall(self, at: float) -> datetime:
        return self.state.wall(at)
