"""What one executed call brought: written into its ledger row, and reduced to what the post-check counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from guardops.guard import checks, domains
from guardops.guard.dispatch import step_notes
from guardops.guard.errors import OUTCOME_UNKNOWN, RETRYABLE, ErrorClass, Failure, classify, in_band
from guardops.guard.events import StepOutcome
from guardops.guard.ledger import Last, Row
from guardops.guard.policy import Kind, SideEffect, ToolSpec
from guardops.guard.polling import is_terminal
from guardops.guard.reasons import Reason
from guardops.guard.results import digest_of, is_empty
from guardops.guard.sources import blocked_by
from guardops.guard.state import Note, RunState, Ticket, Trip

_EMPTY = "empty"
_JITTER = 0.25
"""Back-off is stretched by up to a quarter, so that many runs don't come back together."""

_REDIRECT_NAMES = ("final_url", "redirect", "redirect_url", "redirected_to")

_AT_ONCE: Mapping[ErrorClass, Reason] = {
    ErrorClass.AUTH: Reason.TOOL_AUTH_ERROR,
    ErrorClass.QUOTA: Reason.QUOTA_EXHAUSTED,
}

_LAST: Mapping[ErrorClass, Last] = {
    ErrorClass.AUTH: Last.AUTH,
    ErrorClass.QUOTA: Last.QUOTA,
    ErrorClass.PRECONDITION: Last.PRECONDITION,
}


class Report(Struct, frozen=True):
    """What the caller says came of a call; see :meth:`guardops.guard.guarded_run.RunGuard.observe`."""

    result: object
    error: object
    progressed: bool | None
    at: float
    digest: str | None
    redirects: Iterable[str]


class Observation(Struct, frozen=True):
    """One executed call, recorded."""

    note: Note
    trip: Trip | None
    outcome: StepOutcome
    failure: Failure | None


def observe(
    run: RunState, ticket: Ticket, report: Report, *, started_at: datetime, jitter: Callable[[], float]
) -> Observation:
    """Record what came of a call and check whether the run may go on.

    An error that ends the run at once comes before what the counters say, and that before a redirect.
    """
    failure = failure_of(ticket.spec, report, started_at)
    if failure is not None:
        seen = record_failure(run, ticket, failure, report.progressed, report.at, jitter)
    else:
        seen = record_result(run, ticket, report)
    notes = step_notes(run, ticket, seen.note)
    trip = checks.post_check(run, notes, report.at) if notes else checks.budget_trip(run, report.at)
    targets = [*report.redirects, *redirects_named(report.result)]
    sent_on = redirect_trip(run, ticket, targets, report.at) if targets else None
    found = seen.trip or trip or sent_on
    return seen if found is seen.trip else msgspec.structs.replace(seen, trip=found)


def record_failure(
    run: RunState,
    ticket: Ticket,
    failure: Failure,
    progressed: bool | None,
    at: float,
    jitter: Callable[[], float],
) -> Observation:
    """Write a failed call into its row."""
    row, spec = ticket.row, ticket.spec
    last = Last.RETRYABLE if failure.retryable else _LAST.get(failure.error_class, Last.PERMANENT)
    row.record_failure(failure, last)
    row.successes_seen = run.successes
    if last is Last.RETRYABLE:
        _set_retry_time(row, failure, at, run.limits.backoff, run.limits.max_retry_after, jitter)
    if spec.writes and not spec.idempotent and failure.error_class in OUTCOME_UNKNOWN:
        row.uncertain = True
        run.root.mark_uncertain(row.fingerprint)
    transient = failure.error_class in RETRYABLE
    note = Note(
        tool=ticket.tool,
        fingerprint=row.fingerprint,
        digest=f"{failure.error_class}:{failure.code}",
        progressed=progressed,
        exempt=_leaves_stall_alone(spec) or (transient and progressed is None),
        novel=False,
        error_class="" if transient else failure.error_class.value,
        succeeded=False,
        cycles=spec.poll is None,
    )
    reason = _AT_ONCE.get(failure.error_class)
    return Observation(note, Trip(reason) if reason else None, StepOutcome.ERROR, failure)


def record_result(run: RunState, ticket: Ticket, report: Report) -> Observation:
    """Write a call that came back with a result into its row."""
    row, spec, result, progressed = ticket.row, ticket.spec, report.result, report.progressed
    digest, size = (report.digest, 0) if report.digest is not None else digest_of(result, spec)
    run.sources.add_bytes(ticket.tool, ticket.visit, size)
    empty = is_empty(result, spec)
    first_write = spec.writes and not row.done
    row.record_success(digest, empty=empty and spec.kind is Kind.CALL)
    run.successes += 1
    if spec.writes:
        run.writes += 1
        if row.uncertain or row.fingerprint in run.root.uncertain:  # done over, or known at last
            row.uncertain = False
            run.root.reconcile(row.fingerprint, happened=True)
    if spec.side_effect is SideEffect.SIDE_EFFECT:
        run.root.mark_done(row.fingerprint)
    if spec.poll is not None and is_terminal(result, spec.poll):
        row.terminal = True
    missed = empty and not spec.writes and spec.kind is Kind.CALL
    # A write's result says little ("ok"): what is new is that it was done.
    new = first_write if spec.writes else digest not in run.novelty
    novel = new and not missed and not spec.external
    if spec.kind is Kind.CALL:
        run.novelty.add(digest)
    note = Note(
        tool=ticket.tool,
        fingerprint=row.fingerprint,
        digest=digest,
        progressed=progressed,
        exempt=_leaves_stall_alone(spec),
        novel=novel and progressed is None,
        error_class=_EMPTY if missed and spec.poll is None else "",
        succeeded=not missed and spec.poll is None,
        cycles=spec.poll is None,
    )
    return Observation(note, None, StepOutcome.EMPTY if empty else StepOutcome.OK, None)


def failure_of(spec: ToolSpec, report: Report, started_at: datetime) -> Failure | None:
    """Return the classified failure of a call, one hidden in its result included, or None."""
    error = report.error
    if error is None:
        error = in_band(report.result)
        if error is None:
            return None
    return classify(error, codes=spec.errors, now=started_at + timedelta(seconds=report.at))


def redirect_trip(run: RunState, ticket: Ticket, targets: Iterable[str], at: float) -> Trip | None:
    """Count where a call was redirected to; return the block or cap that this runs into."""
    for target in targets:
        place = domains.place_of(target)
        if place is None:
            continue
        if blocked := run.policy.blocked:
            block = blocked_by(blocked, ticket.tool, (place.host,), run.sources, run.wall(at))
            if block is not None:
                return Trip(Reason.BLOCKED_SOURCE, detail=block.name)
        if place.source in ticket.visit.domains:
            continue
        if run.sources.count_redirect(place) > run.limits.domain_cap:
            return Trip(Reason.SOURCE_CAP, detail=place.source)
    return None


def redirects_named(result: object) -> list[str]:
    """Return the redirect targets that a result names; a ``location`` is one beside a status of 3xx."""
    if type(result) is str or not isinstance(result, Mapping):
        return []
    status = result.get("status")
    moved = isinstance(status, int) and 300 <= status < 400
    names = (*_REDIRECT_NAMES, "location") if moved else _REDIRECT_NAMES
    return [value for name in names if isinstance(value := result.get(name), str)]


def _leaves_stall_alone(spec: ToolSpec) -> bool:
    return spec.poll is not None or spec.kind is not Kind.CALL


def _set_retry_time(
    row: Row, failure: Failure, at: float, backoff: float, longest: float, jitter: Callable[[], float]
) -> None:
    if failure.retry_after is not None:
        row.exhausted = failure.retry_after > longest
        row.not_before = at + failure.retry_after
    else:
        delay = min(longest, backoff * 2 ** (row.failures - 1))
        row.not_before = at + delay * (1 + _JITTER * jitter())
