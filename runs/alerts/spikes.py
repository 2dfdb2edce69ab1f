"""Judging closed minutes: from counts to incidents of loop rates and of releases, once a minute and series.

A minute's transaction first moves the rule's `Evaluation` to it, which lets one judge in; then it moves the
detector of every series with runs in the minute or an incident open, and opens and resolves incidents. So a
minute is judged in order, once, and with its incidents or not at all; after a downtime the missed ones
follow. The detectors are kept as JSON and what is usual for an hour at a time, so a quiet series costs
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Any, TypeAlias

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, connection, transaction
from django.db.models import Max

from runs.choices import RuleKind, Severity
from runs.models import AlertState, Evaluation, Incident, LoopClock, LoopMinute
from runs.rollup.minutes import minute_of, moment_of

from .baseline import THRESHOLD, Event, LoopRateDetector, Row
from .incidents import REOPENS_WITHIN, Finding, open_incident, resolve_incident
from .rules import Settings
from .telling_loops import OVER, evidence_of, release_said, rows_of, sentence, spike_said
from .usual import DAY, KEPT_DAYS, History

MOST_MINUTES = 240
"""That one call judges; the next one goes on."""
THIN = 720
"""A job type with fewer tasks a day is judged together with its tenant's other thin ones as well."""
KEEPS_IDLE = KEPT_DAYS * DAY
GAP = timedelta(minutes=5)

Key: TypeAlias = tuple[int, str]
"""A tenant and a job type; the empty one is the tenant's thin ones together."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Judged:
    """What one call did."""

    minutes: int = 0
    opened: int = 0
    resolved: int = 0
    failed: int = 0  # series and minutes
    spikes: Settings = field(default_factory=lambda: Settings.load(RuleKind.LOOP_RATE))
    releases: Settings = field(default_factory=lambda: Settings.load(RuleKind.RELEASE))


def judge_minutes(now: datetime, *, most: int = MOST_MINUTES) -> Judged:
    """Judge the closed minutes that nobody has judged yet, in order; any number of calls at once are safe.

    What could not be judged shows among the rules that fail.
    """
    done = Judged()
    closed = LoopClock.objects.values_list("closed", flat=True).first()
    if closed is None:
        return done
    start = moment_of(closed + 1)
    Evaluation.objects.get_or_create(
        rule=RuleKind.LOOP_RATE, defaults={"at": now, "since": now, "window": start}
    )
    try:
        while done.minutes < most and _judge_next(closed, now, done):
            done.minutes += 1
    except Exception as error:
        _note(type(error).__name__)
        raise
    if done.minutes:
        _note(f"{done.failed} series" if done.failed else "")
    return done


def _note(error: str) -> None:
    Evaluation.objects.filter(rule=RuleKind.LOOP_RATE).update(error=error)


def _judge_next(closed: int, now: datetime, done: Judged) -> bool:
    """Judge the minute after the last one; False where it has not closed yet."""
    with transaction.atomic():
        mark = Evaluation.objects.select_for_update().get(rule=RuleKind.LOOP_RATE)
        minute = minute_of(mark.window or moment_of(closed + 1))
        if minute > closed:
            return False
        if not timedelta(0) <= now - mark.at <= GAP:
            mark.since = now
        mark.window, mark.at = moment_of(minute + 1), now
        mark.save(update_fields=["window", "at", "since"])
        _Minute(minute, now, done).judge()
        if minute % DAY == 0:
            AlertState.objects.filter(last_window__lt=minute - KEEPS_IDLE, is_open=False).delete()
    return True


class _Minute:
    """One minute of all series."""

    def __init__(self, minute: int, now: datetime, done: Judged) -> None:
        self.minute, self.now, self.done = minute, now, done
        self.rows: dict[Key, list[Row]] = defaultdict(list)
        for row in LoopMinute.objects.filter(minute=minute).order_by("tenant_id", "job_type", "release"):
            self.rows[row.tenant_id, row.job_type].append(
                {"release": row.release, "tasks": row.tasks, "looped_tasks": row.looped_tasks}
            )
        self.states = self._states()
        self.ended_by_hand = self._ended_by_hand() if any(it.is_open for it in self.states.values()) else {}

    def judge(self) -> None:
        keys = {key for key, state in self.states.items() if state.is_open} | set(self.rows)
        for key in sorted(key for key in keys if key[1]):
            self._try(key, self.rows.get(key, ()))
        for tenant_id in sorted({key[0] for key in keys}):
            together = self._together(tenant_id)
            state = self.states.get((tenant_id, ""))
            if together or (state is not None and state.is_open):
                self._try((tenant_id, ""), together)

    def _states(self) -> dict[Key, AlertState]:
        keys = {*self.rows, *((tenant_id, "") for tenant_id, _ in self.rows)}
        states = {}
        for found in (
            AlertState.objects.filter(pk__in=sorted(keys)),
            AlertState.objects.filter(is_open=True),
        ):
            states.update({(state.tenant_id, state.job_type): state for state in found})
        return states

    def _ended_by_hand(self) -> dict[Key, datetime]:
        """Return when somebody last resolved the spike of a series, for so long that it may open anew."""
        long_ago = moment_of(self.minute) - REOPENS_WITHIN
        resolved = Incident.objects.filter(
            rule=RuleKind.LOOP_RATE, resolved_by__isnull=False, resolved_at__lte=long_ago
        ).values_list("tenant_id", "subject")
        last = resolved.annotate(Max("resolved_at")).order_by()
        return {(tenant_id, subject): at for tenant_id, subject, at in last if tenant_id is not None}

    def _together(self, tenant_id: int) -> list[Row]:
        """Return what the tenant's thin job types did; what has an incident of its own is told there."""
        return [
            {**row, "release": ""}
            for (tenant, job), rows in self.rows.items()
            if tenant == tenant_id and (not job or self._is_thin((tenant, job)))
            for row in rows
        ]

    def _is_thin(self, key: Key) -> bool:
        state = self.states.get(key)
        return state is not None and not state.is_open and state.tasks_a_day < THIN

    def _try(self, key: Key, rows: Iterable[Row]) -> None:
        """Judge one series; one that fails does not keep the others from being judged."""
        try:
            with transaction.atomic():
                self._judge(key, rows)
        except (DatabaseError, SoftTimeLimitExceeded):
            raise  # the minute is judged again
        except Exception:
            log.exception("alerts.series_failed", tenant=key[0], job_type=key[1], minute=self.minute)
            self.done.failed += 1

    def _judge(self, key: Key, rows: Iterable[Row]) -> None:
        state, options = self.states.get(key), self._options(key)
        if state is None:
            state = AlertState(tenant_id=key[0], job_type=key[1], last_window=self.minute - 1)
            detector = LoopRateDetector.after(self._history(key), self.minute, **options)
            self.states[key] = state
        else:
            detector = LoopRateDetector(state.state, **options)
            if detector.needs_history(self.minute):
                detector.history = self._history(key)
        if detector.needs_history(self.minute):
            state.tasks_a_day = detector.history.tasks_since(self.minute - DAY)
        ended, spike = self.ended_by_hand.get(key), detector.spike
        if ended is not None and spike is not None and not spike.guest and minute_of(ended) >= spike.at:
            detector.end_spike(self.minute)
        events = detector.tick(self.minute, rows)
        for event in events:
            self._settle(key, event)
        state.last_window, state.state, state.is_open = self.minute, detector.state(), detector.is_open
        state.evidence = detector.evidence
        state.usual = detector.usual.rate if detector.usual else None
        state.save(force_insert=state._state.adding)

    def _options(self, key: Key) -> dict[str, Any]:
        """Return what the rules ask of a detector.

        One that is switched off finds nothing at all: what it found would keep the other one quiet.
        """
        spikes, releases = self.done.spikes.of(*key), self.done.releases.of(*key)
        threshold = float(spikes.values.get("threshold", THRESHOLD)) if spikes.enabled else inf
        return {"threshold": threshold, "verdicts": releases.enabled}

    def _history(self, key: Key) -> History:
        """Read the series' last days; a release is not told apart where job types are judged together."""
        history = History()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT minute / 10 * 10, CASE WHEN %(job)s = '' THEN '' ELSE release END, sum(tasks)::int,"
                " sum(looped_tasks)::int FROM loop_minute"
                " WHERE tenant_id = %(tenant)s AND job_type = ANY(%(jobs)s) AND minute >= %(first)s"
                " AND minute < %(minute)s AND tasks > 0 GROUP BY 1, 2",
                {
                    "tenant": key[0],
                    "job": key[1],
                    "jobs": self._jobs(key),
                    "first": self.minute - KEPT_DAYS * DAY,
                    "minute": self.minute,
                },
            )
            for minute, release, tasks, looped in cursor.fetchall():
                history.add(minute, release, tasks, looped)
        return history

    def _jobs(self, key: Key) -> list[str]:
        """Return the job types whose minutes make the series."""
        if key[1]:
            return [key[1]]
        thin = AlertState.objects.filter(tenant_id=key[0], tasks_a_day__lt=THIN)
        return sorted({*thin.values_list("job_type", flat=True), ""})

    def _settle(self, key: Key, event: Event) -> None:
        """Carry an event out: what it opens, reopens, adds to or resolves."""
        rule = RuleKind.RELEASE if event["rule"] == "release" else RuleKind.LOOP_RATE
        if event["type"] == "resolve":
            over = resolve_incident(
                key[0], rule, _subject(key[1], event), now=self.now, how=OVER[event["how"]]
            )
            self.done.resolved += over is not None
            return
        if event["type"] == "attach":
            return  # the release's incident tells of it, and nobody is called twice
        if event["type"] == "attribute":
            # The spike is open already: its sentence names the release, and nobody is called twice.
            finding = self._finding(key, RuleKind.LOOP_RATE, {**event, "release": None}, release_said(event))
        elif rule == RuleKind.RELEASE:
            finding = self._finding(key, rule, event, release_said(event))
        else:
            finding = self._finding(key, rule, event, spike_said(event))
        if finding is not None:
            self.done.opened += open_incident(finding, now=self.now).transition is not None

    def _finding(self, key: Key, rule: RuleKind, event: Event, said: str) -> Finding | None:
        settings = self.done.releases if rule == RuleKind.RELEASE else self.done.spikes
        setting = settings.of(*key)
        if not setting.enabled:
            return None
        evidence = {name: value for name, value in event.items() if value is not None}
        jobs = self._jobs(key)
        return Finding(
            tenant_id=key[0],
            rule=rule,
            subject=_subject(key[1], event),
            job_type=key[1],
            release=str(event.get("release") or ""),
            title=sentence(key[1], said),
            severity=Severity(setting.severity),
            window=moment_of(self.minute + 1),
            evidence=lambda: evidence_of(key[0], jobs, evidence, self.minute),
            query=rows_of(key[1], evidence, self.minute),
        )


def _subject(job_type: str, event: dict[str, Any]) -> str:
    release = event.get("release")
    return job_type if release is None else f"{job_type}: {release}"
