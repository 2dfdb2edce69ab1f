"""The pre-check (may this call run?) and the post-check (may the run go on?): pure readings of the state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardops.guard import polling, sources
from guardops.guard.cycles import ping_pong, reason_for
from guardops.guard.ledger import Last, Row
from guardops.guard.policy import Kind, Limits, SideEffect, ToolSpec
from guardops.guard.reasons import Reason
from guardops.guard.state import Call, Note, RunState, Trip, Wait


def pre_check(run: RunState, call: Call) -> Trip | Wait | None:
    """Return why ``call`` may not run now, or None. Nothing is changed but counters of what was proposed."""
    return (
        _forbidden(run, call)
        or unaffordable(run, call)
        or _not_again(run, call)
        or _unapproved(run, call)
        or (_by_contract(call) if call.spec.poll else _by_last_outcome(run, call))
        or _beyond_caps(run, call)
    )


def out_of_time(run: RunState, at: float) -> Trip | None:
    """Return the time limit that has passed at ``at`` seconds since the run's start, if any."""
    if at >= run.limits.max_seconds:
        return Trip(Reason.WALL_CLOCK)
    if run.deadline is not None and at >= run.deadline:
        return Trip(Reason.DEADLINE)
    return None


def _forbidden(run: RunState, call: Call) -> Trip | None:
    if call.spec.forbidden:
        return Trip(Reason.FORBIDDEN_TOOL)
    if run.policy.blocked:
        block = sources.blocked_by(run.policy.blocked, call.tool, call.visit.hosts, run.sources)
        if block is not None:
            return Trip(Reason.BLOCKED_SOURCE, detail=block.name)
    return None


def unaffordable(run: RunState, call: Call) -> Trip | None:
    """Return the budget that a call would go beyond, time included, if any."""
    if trip := out_of_time(run, call.at):
        return trip
    budgets = run.budgets
    if budgets.steps.left < 1:
        return Trip(Reason.STEP_BUDGET)
    if reason := budgets.spent_by_turns():
        return Trip(reason)
    if call.spec.kind is Kind.CALL:
        return None
    if run.edges and ping_pong([*run.edges, call.identity.digest]):
        return Trip(Reason.LINEAGE_PING_PONG)
    if call.depth >= run.hops:
        return Trip(Reason.HOP_BUDGET)
    if budgets.descendants.left < 1:
        return Trip(Reason.DESCENDANTS_BUDGET)
    if budgets.children.left < 1:
        return Trip(Reason.CHILDREN_BUDGET)
    return None


def _not_again(run: RunState, call: Call) -> Trip | None:
    """Calls that must not run twice, or not now: in flight, uncertain, done."""
    row, spec = call.row, call.spec
    if row.in_flight:
        return Trip(Reason.DUPLICATE_IN_FLIGHT)
    if spec.side_effect is SideEffect.READ or spec.idempotent:
        return None
    if row.uncertain or row.fingerprint in run.root.uncertain:
        return Trip(Reason.UNCERTAIN_WRITE)
    if spec.side_effect is SideEffect.SIDE_EFFECT and (row.done or row.fingerprint in run.root.done):
        return Trip(Reason.DUPLICATE_SIDE_EFFECT, count=row.count)
    return None


def _unapproved(run: RunState, call: Call) -> Trip | None:
    if call.spec.approval and not run.root.approvals.get(call.identity.digest):
        return Trip(Reason.APPROVAL_REQUIRED)
    return None


def _by_contract(call: Call) -> Trip | Wait | None:
    row, poll = call.row, call.spec.poll
    assert poll is not None
    if reason := polling.poll_refusal(row, poll, call.at):
        return Trip(reason, count=row.polls)
    if row.last in (Last.AUTH, Last.QUOTA, Last.PERMANENT):
        return Trip(_REFUSED_AFTER.get(row.last, Reason.TOOL_NO_PROGRESS), count=row.count)
    not_before = max(polling.next_poll_at(row, poll), row.not_before)
    return Wait(not_before) if call.at < not_before else None


def _by_last_outcome(run: RunState, call: Call) -> Trip | Wait | None:
    """The rule that the last outcome of this fingerprint puts on the next execution."""
    row, spec, limits = call.row, call.spec, run.limits
    if row.last is Last.NEVER or row.last is Last.OK or row.last is Last.EMPTY:
        verdict: Trip | Wait | None = _after_success(row, limits, spec)
    elif row.last is Last.RETRYABLE:
        verdict = _retry(run, call, limits.max_retries if spec.max_retries is None else spec.max_retries)
    elif row.last is Last.PRECONDITION and run.successes > row.successes_seen:
        verdict = None
    else:
        verdict = Trip(_REFUSED_AFTER.get(row.last, Reason.TOOL_NO_PROGRESS), count=row.count)
    if verdict is None and row.count >= limits.max_executions:
        return Trip(Reason.REPEATED_CALL, count=row.count)
    return verdict


def _after_success(row: Row, limits: Limits, spec: ToolSpec) -> Trip | None:
    if row.last is Last.EMPTY:
        max_empty = limits.max_empty if spec.max_empty is None else spec.max_empty
        if row.empties >= max_empty:
            return Trip(Reason.TOOL_NO_PROGRESS, count=row.count)
    max_repeats = limits.max_repeats if spec.max_repeats is None else spec.max_repeats
    return Trip(Reason.REPEATED_CALL, count=row.count) if row.streak >= max_repeats else None


def _retry(run: RunState, call: Call, max_retries: int) -> Trip | Wait | None:
    row = call.row
    if row.exhausted or row.failures > max_retries or run.budgets.retries.left < 1:
        return Trip(Reason.TOOL_RETRY_EXHAUSTED, count=row.count)
    return Wait(row.not_before) if call.at < row.not_before else None


def _beyond_caps(run: RunState, call: Call) -> Trip | None:
    if not call.visit.domains:
        return None
    beyond = run.sources.refusal(call.visit, run.limits.domain_cap, run.limits.listing_cap)
    return Trip(beyond[0], detail=beyond[1]) if beyond else None


def post_check(run: RunState, notes: list[Note], at: float) -> Trip | None:
    """Return why the run may not simply go on after a step (a call, or a whole parallel batch).

    The counters are moved on here, once a step. A step that a counter doesn't see can't trip it.
    """
    cycled = _count_cycle(run, notes)
    stalled = _count_stall(run, notes)
    failed = _count_errors(run, notes)
    if trip := budget_trip(run, at):
        return trip
    if cycled and (period := run.cycle.period()):
        return Trip(reason_for(period), count=run.limits.cycle_reps)
    if failed and run.streak.reached(run.limits.max_error_streak):
        return Trip(Reason.ERROR_STREAK, count=run.streak.count)
    if stalled and run.stall.reached(run.limits.stall_limit):
        return Trip(Reason.NO_PROGRESS, count=run.stall.count)
    return None


def budget_trip(run: RunState, at: float) -> Trip | None:
    """Return the hard budget that is used up, if any."""
    if run.budgets.steps.spent:
        return Trip(Reason.STEP_BUDGET)
    if reason := run.budgets.spent_by_turns():
        return Trip(reason)
    return out_of_time(run, at)


def _count_cycle(run: RunState, notes: list[Note]) -> bool:
    if any(note.progressed for note in notes):
        run.cycle.clear()
        return False
    seen = [note for note in notes if note.cycles]
    for note in sorted(seen, key=_by_fingerprint) if len(seen) > 1 else seen:
        run.cycle.add((note.fingerprint, note.digest, run.evidence))
    return bool(seen)


def _count_stall(run: RunState, notes: list[Note]) -> bool:
    progressed = any(note.progressed for note in notes)
    counted = [note for note in notes if not note.exempt]
    if not (progressed or counted):
        return False
    run.stall.note(productive=progressed or any(note.novel for note in counted))
    return True


def _count_errors(run: RunState, notes: list[Note]) -> bool:
    failing = [note for note in notes if note.error_class]
    if any(note.progressed or note.succeeded for note in notes):
        run.streak.clear()
        return False
    if not failing:
        return False
    tool, error_class = failing[0].tool, failing[0].error_class
    alike = [note.fingerprint for note in failing if (note.tool, note.error_class) == (tool, error_class)]
    run.streak.note(tool, error_class, alike)
    return True


def _by_fingerprint(note: Note) -> str:
    return note.fingerprint


_REFUSED_AFTER: Mapping[Last, Reason] = MappingProxyType(
    {Last.AUTH: Reason.TOOL_AUTH_ERROR, Last.QUOTA: Reason.QUOTA_EXHAUSTED}
)
