"""Periodic work on runs; each task is a management command too and safe to run twice at once."""

from __future__ import annotations

from django.db import OperationalError
from django.utils import timezone

from guardops.celery import app

from .partitions import ensure_partitions as ensure
from .retention.apply import apply_retention as retention

RETENTION_SECONDS = 60.0
"""Less than a task may take: nothing is lost where it is killed, but it would not say how far it came."""


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=10)  # type: ignore[untyped-decorator]
def ensure_partitions() -> None:
    """Make the day partitions that are missing, so that no run arrives before its day has a place."""
    ensure(timezone.now())


@app.task  # type: ignore[untyped-decorator]
def apply_retention() -> None:
    """Delete what is due, for about a minute; the next hour goes on. What fails is tried again then."""
    retention(timezone.now(), seconds=RETENTION_SECONDS)
