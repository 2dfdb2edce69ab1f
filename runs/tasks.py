"""Periodic work on runs; each task is a management command too and safe to run twice at once."""

from __future__ import annotations

from django.db import OperationalError
from django.utils import timezone

from guardops.celery import app

from .alerts.evaluate import evaluate_rules as evaluate
from .alerts.spikes import judge_minutes as judge
from .checkpoints.timeouts import sweep_checkpoints as sweep_due
from .health.pulse import beat as beat_once
from .notify.outbox import sweep as sweep_outbox
from .notify.relay import relay_alone
from .partitions import ensure_partitions as ensure
from .retention.apply import apply_retention as retention

RETENTION_SECONDS = 60.0
"""Less than a task may take: nothing is lost where it is killed, but it would not say how far it came."""
RELAY_SECONDS = 4.0
RELAY_THREADS = 6


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=10)  # type: ignore[untyped-decorator]
def ensure_partitions() -> None:
    """Make the day partitions that are missing, so that no run arrives before its day has a place."""
    ensure(timezone.now())


@app.task  # type: ignore[untyped-decorator]
def apply_retention() -> None:
    """Delete what is due, for about a minute; the next hour goes on. What fails is tried again then."""
    retention(timezone.now(), seconds=RETENTION_SECONDS)


@app.task  # type: ignore[untyped-decorator]
def relay_notifications() -> None:
    """Send what channels are to be told, for a few seconds; what fails is tried again when it is due."""
    relay_alone(seconds=RELAY_SECONDS, threads=RELAY_THREADS)


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=10)  # type: ignore[untyped-decorator]
def sweep_notifications() -> None:
    """Forget what was told longer ago than it is kept."""
    sweep_outbox(timezone.now())


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=1)  # type: ignore[untyped-decorator]
def sweep_checkpoints() -> None:
    """Expire what nobody decided in time, end claims that ran out, and mark what is late."""
    sweep_due(timezone.now())


@app.task  # type: ignore[untyped-decorator]
def evaluate_rules() -> None:
    """Judge the alert rules and end silences; what fails is judged again a few seconds later."""
    evaluate(timezone.now())


@app.task  # type: ignore[untyped-decorator]
def judge_minutes() -> None:
    """Judge the minutes that have closed for spikes and bad releases; the next call goes on."""
    judge(timezone.now())


@app.task  # type: ignore[untyped-decorator]
def beat() -> None:
    """Give a sign of life, and call the watchdog that expects one; the next minute tries again."""
    beat_once(timezone.now())
