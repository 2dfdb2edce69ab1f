"""The pre-check (may this call run?) and the post-check (may the run go on?): pure readings of the state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

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
        or _unaffordable(run, call)
        or _not_again(run, call)
        or _unapproved(run, call)
        or (_by_contract(call) if call.spec.poll else _by_last_outcome(run, call))
        or _beyond_caps(run, call)
    )


def without_fingerprint(run: RunState, call: Call) -> Trip | None:
    """Return why a call that the guard could not judge may not run: what its tool's name and time say."""
    return _forbidden(run, call) or _unaffordable(run, call) or _unapproved(run, call)


def out_of_time(run: RunState, at: float) -> Trip | None:
    """Return the time limit that has passed at ``at`` seconds since the run's start, if any."""
    if at + run.carried_seconds >= run.limits.max_seconds:
        return Trip(Reason.WALL_CLOCK)
    if run.deadline is not None and at >= run.deadline:
        return Trip(Reason.DEADLINE)
    return None


def _forbidden(run: RunState, call: Call) -> Trip | None:
    if call.spec.forbidden:
        return Trip(Reason.FORBIDDEN_TOOL)
    if run.root.quarantined and (found := run.root.quarantined & call.visit.domains):
        return Trip(Reason.BLOCKED_SOURCE, detail=min(found))
    if blocked := run.policy.blocked:
        now = run.wall(call.at)
        block = sources.blocked_by(blocked, call.tool, call.visit.hosts, run.sources, now)
        if block is not None:
            return Trip(Reason.BLOCKED_SOURCE, detail=block.name)
    if (avoided := run.root.avoided) is not None:
        block = sources.blocked_by(avoided, call.tool, call.visit.hosts, run.sources, run.wall(call.at))
        if block is not None:  # a person wants the task to go on, without this source
            return Trip(Reason.BLOCKED_SOURCE, detail=block.name, gently=True)
    if run.quarantine is not None and (name := run.quarantine.found(call.visit.domains)):
        return Trip(Reason.BLOCKED_SOURCE, detail=name, gently=True)
    return None


def _unaffordable(run: RunState, call: Call) -> Trip | None:
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
    if call.spec.kind is Kind.DELEGATE and ping_pong([*run.edges, call.identity.digest]):
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
    if not spec.writes:
        return None
    if row.fingerprint in run.root.in_flight:  # by another run of the root
        return Trip(Reason.DUPLICATE_IN_FLIGHT)
    if not spec.idempotent and (row.uncertain or row.fingerprint in run.root.uncertain):
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
        return Trip(Reason.TOOL_NO_PROGRESS, count=row.count) if row.empties >= max_empty else None
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
    step = _sum_up(notes)
    _move_counters(run, step)
    if trip := budget_trip(run, at):
        return trip
    if step.cycling and (period := run.cycle.period()):
        return Trip(reason_for(period), count=run.limits.cycle_reps)
    if step.failing and run.streak.reached(run.limits.max_error_streak):
        return Trip(Reason.ERROR_STREAK, count=run.streak.count)
    if step.counted and run.stall.reached(run.limits.stall_limit):
        return Trip(Reason.NO_PROGRESS, count=run.stall.count)
    return None


def budget_trip(run: RunState, at: float) -> Trip | None:
    """Return the hard budget that is used up, if any."""
    if run.budgets.steps.spent:
        return Trip(Reason.STEP_BUDGET)
    return no_further_turn(run, at)


def no_further_turn(run: RunState, at: float) -> Trip | None:
    """Return why the model may not be asked again, if it may not."""
    if reason := run.budgets.spent_by_turns():
        return Trip(reason)
    return out_of_time(run, at)


class _Step(Struct):
    """A call or a batch, summed up: what each counter has to know of it."""

    progressed: bool = False
    succeeded: bool = False
    counted: bool = False
    novel: bool = False
    cycling: list[Note] = []
    failing: list[Note] = []


def _sum_up(notes: list[Note]) -> _Step:
    step = _Step()
    for note in notes:
        if note.progressed:
            step.progressed = True
        if note.succeeded:
            step.succeeded = True
        if not note.exempt:
            step.counted = True
            step.novel = step.novel or note.novel
        if note.cycles:
            step.cycling.append(note)
        if note.error_class:
            step.failing.append(note)
    return step


def _move_counters(run: RunState, step: _Step) -> None:
    """Move the counters on. Reported progress clears them all."""
    if step.progressed:
        run.cycle.clear()
        run.streak.clear()
        run.stall.note(productive=True)
        return
    if len(step.cycling) > 1:
        step.cycling.sort(key=_by_fingerprint)
    for note in step.cycling:
        run.cycle.add((note.fingerprint, note.digest, run.evidence))
    if step.counted:
        run.stall.note(productive=step.novel)
    if step.succeeded:
        run.streak.clear()
    elif step.failing:
        kind = (step.failing[0].tool, step.failing[0].error_class)
        alike = [note.fingerprint for note in step.failing if (note.tool, note.error_class) == kind]
        run.streak.note(*kind, alike)


def _by_fingerprint(note: Note) -> str:
    return note.fingerprint


_REFUSED_AFTER: Mapping[Last, Reason] = MappingProxyType(
    {Last.AUTH: Reason.TOOL_AUTH_ERROR, Last.QUOTA: Reason.QUOTA_EXHAUSTED}
)
