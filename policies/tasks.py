"""Periodic work on policies; each task is a management command too and safe to run twice at once."""

from __future__ import annotations

from django.db import OperationalError
from django.utils import timezone

from guardops.celery import app

from .publish.changes import publish_open_changes
from .publish.upkeep import end_what_is_over
from .pull.fleet import forget_gone_guards


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=10)  # type: ignore[untyped-decorator]
def go_on_with_changes() -> None:
    """Carry edits of organisations on to the bundles of their tenants."""
    publish_open_changes(timezone.now())


@app.task(autoretry_for=(OperationalError,), max_retries=3, retry_backoff=10)  # type: ignore[untyped-decorator]
def end_expired() -> None:
    """Take expired policies, blocks and orders out of the bundles, and guards that are gone off the list."""
    now = timezone.now()
    end_what_is_over(now)
    forget_gone_guards(now)
