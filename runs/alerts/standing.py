"""Whether rules are being judged: seen by the web process, which beat and the worker can't stop."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Max

from runs.models import Evaluation

STOPPED_AFTER = timedelta(minutes=3)
"""Rules are judged every minute: after three without, somebody has to look at beat and the worker."""


def last_judged() -> datetime | None:
    """Return when a rule was judged last; None where none ever was."""
    found: datetime | None = Evaluation.objects.aggregate(last=Max("at"))["last"]
    return found


def is_judged(now: datetime) -> bool:
    """Say whether rules are being judged; a clock that was set back makes no difference."""
    last = last_judged()
    return last is not None and now - last < STOPPED_AFTER
