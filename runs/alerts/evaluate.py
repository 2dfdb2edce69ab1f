"""Judging the rules, twice a minute: from what was found to incidents, once a rule and window.

One evaluation works at a time (an advisory lock of its session). Each window is settled in a transaction that
also moves the rule's `Evaluation` from the window before by compare-and-set: what was judged twice counts
once, a window that failed is judged again, and no window is left out while GuardOps was away. A rule that
fails does not keep the others from being judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction

from runs.choices import RuleKind
from runs.models import Evaluation, Incident
from runs.reports.windows import floor_quarter
from runs.rollup.state import State

from .checks.itself import check_disk, check_fold_lag, check_ingest_silent, check_outbox
from .checks.live import check_never_ended, check_pressure
from .checks.rates import check_cost, check_forced
from .checks.reviewing import check_precision, check_review_sla, check_unconsumed
from .checks.spread import check_source
from .checks.steps import check_steps
from .incidents import open_incident, resolve_incident
from .rules import MOMENT, SPECS, Settings, Spec
from .silences import settle_silences
from .verdicts import Asked, Check, Verdict

LOCK_SPACE = 0x72756C65
"""pg_try_advisory_lock(LOCK_SPACE, 0), a session's: one evaluation at a time in a database."""
LOOKS_BACK = timedelta(days=1)
"""Windows that closed longer ago are not judged any more."""
MOST_WINDOWS = 24
"""Of one rule that one evaluation judges; the next one goes on, and the other rules don't wait for it."""
GAP = timedelta(minutes=5)
"""A rule that was not judged for longer was not being watched."""

CHECKS: Mapping[RuleKind, Check] = {
    RuleKind.REVIEW_SLA: check_review_sla,
    RuleKind.UNCONSUMED: check_unconsumed,
    RuleKind.PRESSURE: check_pressure,
    RuleKind.NEVER_ENDED: check_never_ended,
    RuleKind.INGEST_SILENT: check_ingest_silent,
    RuleKind.FOLD_LAG: check_fold_lag,
    RuleKind.OUTBOX_STUCK: check_outbox,
    RuleKind.DISK: check_disk,
    RuleKind.PRECISION: check_precision,
    RuleKind.STEPS: check_steps,
    RuleKind.COST: check_cost,
    RuleKind.FORCED: check_forced,
    RuleKind.SOURCE: check_source,
}
"""The rules that are judged here, the quick ones first; loops and releases have a detector of their own."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Evaluated:
    """What one evaluation did."""

    windows: int = 0
    opened: int = 0
    resolved: int = 0
    settled: int = 0  # silences
    failed: tuple[str, ...] = ()


def evaluate_rules(now: datetime) -> Evaluated | None:
    """Judge what is due at ``now``; None where another evaluation is at work.

    It must be the outermost transaction: some of what is judged is read in a snapshot of its own.
    """
    with _alone() as alone:
        if not alone:
            return None
        done = Evaluated()
        for kind, check in CHECKS.items():
            try:
                _judge(SPECS[kind], check, now, done)
            except SoftTimeLimitExceeded:
                raise
            except Exception as error:
                # Whatever one rule stumbles over, the others are judged; it is tried again soon.
                log.exception("alerts.rule_failed", rule=str(kind))
                done.failed += (str(kind),)
                Evaluation.objects.filter(rule=kind).update(error=f"{type(error).__name__}"[:200])
        done.settled = settle_silences(now)
    return done


@contextmanager
def _alone() -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LOCK_SPACE])
        alone = bool(cursor.fetchone()[0])
    try:
        yield alone
    finally:
        if alone and connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK_SPACE])


def _judge(spec: Spec, check: Check, now: datetime, done: Evaluated) -> None:
    mark, _ = Evaluation.objects.get_or_create(rule=spec.kind, defaults={"at": now, "since": now})
    if not timedelta(0) <= now - mark.at <= GAP:
        mark.since = now  # GuardOps was away, or its clock was set
    settings = Settings.load(spec.kind)
    for window in windows_due(spec, mark.window, now, _counted_to(spec)):
        verdict = check(Asked(window, now, mark.since, settings))
        with transaction.atomic():
            # Compare-and-set: a window counts once, whoever else has judged it meanwhile.
            moved = Evaluation.objects.filter(rule=spec.kind, window=mark.window).update(
                window=window, at=now, since=mark.since, error=""
            )
            if not moved:
                return
            if verdict is not None:
                _settle(spec, settings, verdict, now, done)
        mark.window, done.windows = window, done.windows + 1


def _counted_to(spec: Spec) -> datetime | None:
    """Return until when fold has counted, for rules that read its counts; None for all others."""
    if not spec.counted:
        return None
    with connection.cursor() as cursor:
        state = State.read(cursor)
    return state.folded_at if state else None


def windows_due(
    spec: Spec, last: datetime | None, now: datetime, counted_to: datetime | None
) -> list[datetime]:
    """Return the windows that are to be judged, in order; ``last`` was the last one that was.

    A clock that was set back by more than a window begins again where it stands: what is found once more is
    the same incident, and nothing waits until the clock has caught up.
    """
    if spec.counted and counted_to is None:
        return []
    newest = _floor(min(now, counted_to) if counted_to else now, spec.step)
    if last is None or last - newest > spec.step:
        return [newest]
    if not spec.counted:
        return [newest] if newest > last else []
    windows: list[datetime] = []
    window = max(last, newest - LOOKS_BACK) + spec.step
    while window <= newest and len(windows) < MOST_WINDOWS:
        windows.append(window)
        window += spec.step
    return windows


def _floor(moment: datetime, step: timedelta) -> datetime:
    if step > MOMENT:
        return floor_quarter(moment)
    return moment.replace(second=moment.second - moment.second % MOMENT.seconds, microsecond=0)


def _settle(spec: Spec, settings: Settings, verdict: Verdict, now: datetime, done: Evaluated) -> None:
    """Open what was found, and resolve what has not been found for long enough."""
    found = set()
    for finding in sorted(verdict.findings, key=lambda each: (each.tenant_id or 0, each.subject)):
        opened = open_incident(finding, now=now)
        found.add((opened.incident.tenant_id, opened.incident.subject))
        done.opened += opened.transition is not None
    open_ones = Incident.objects.unresolved().filter(rule=spec.kind).order_by("tenant", "subject")
    for incident in open_ones.select_for_update(of=("self",)):
        subject = (incident.tenant_id, incident.subject)
        if subject in found or subject in verdict.holding:
            continue
        incident.clear += 1
        enabled = settings.of(incident.tenant_id, incident.job_type).enabled
        if enabled and incident.clear < spec.clear:
            incident.save(update_fields=["clear"])
            continue
        judged = verdict.fine is None or subject in verdict.fine
        how = spec.over if judged else "too little happens there to say"
        how = how if enabled else "its rule was switched off"
        resolve_incident(incident.tenant_id, spec.kind, incident.subject, now=now, how=how)
        done.resolved += 1
