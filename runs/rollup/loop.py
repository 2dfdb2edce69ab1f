"""The fold process: a tick a second, at once again while there is a backlog, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event

import structlog
from django.db import InterfaceError, OperationalError, connection

from .fold import FoldReport, fold_once
from .holders import oldest_transaction
from .minutes import close_minutes

INTERVAL_S = 1.0
SAY_EVERY = timedelta(seconds=10)
LATE = timedelta(seconds=10)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Told:
    """What was last said, so that a log of a loop stays readable."""

    at: datetime
    rows: int = 0
    waiting_since: datetime | None = None


def fold_until(stop: Event, clock: Callable[[], datetime], *, interval_s: float = INTERVAL_S) -> None:
    """Tick until ``stop`` is set. A database that is away is waited for; ForeignCluster ends the loop."""
    told = _Told(clock() - SAY_EVERY)
    while not stop.is_set():
        began = clock()
        try:
            report = fold_once(began)
            if not report.busy:
                close_minutes(began)
            _say(report, told, clock())
        except (OperationalError, InterfaceError) as error:
            connection.close()
            log.warning("fold.database_away", error=str(error).strip())
            report = FoldReport()
        took = (clock() - began).total_seconds()
        # A clock that was set back must not make it wait for longer than the interval.
        stop.wait(0 if report.more else min(max(interval_s - took, 0.0), interval_s))
    connection.close()


def _say(report: FoldReport, told: _Told, now: datetime) -> None:
    told.rows += report.rows
    if report.rows or not report.pending:
        told.waiting_since = None
    elif told.waiting_since is None:
        told.waiting_since = now
    if now - told.at < SAY_EVERY:
        return
    if report.busy:
        log.warning("fold.busy", hint="another fold is at work; this one stands by")
    elif told.waiting_since is not None and now - told.waiting_since >= LATE:
        log.warning("fold.held_back", pending=report.pending, by=oldest_transaction())
    elif told.rows:
        log.info("fold.counted", runs=told.rows, pending=report.pending)
    else:
        return
    told.at, told.rows = now, 0
