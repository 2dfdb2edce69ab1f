"""Whether a tenant's guards are heard of: the first sign of a run since a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.utils.dateparse import parse_datetime

from runs.models import LiveRun, Run

LOOK_BACK = timedelta(days=1)
"""How far back a page looks that was given no moment; runs placed longer before theirs are not found."""
_EARLIEST = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Sign:
    """A run that was heard of; ``ended`` says whether it has ended, and so has a page."""

    run_id: UUID
    job_type: str
    at: datetime
    ended: bool


def first_sign(tenant_id: int, since: datetime, now: datetime) -> Sign | None:
    """Return a run of the tenant that was received since then, an ended one rather than one under way."""
    ended = (
        Run.objects.for_tenants([tenant_id])
        .between(since - LOOK_BACK, now + LOOK_BACK)
        .filter(received_at__gte=since)
        .order_by("-at", "-run_id")
        .only("run_id", "job_type", "received_at")
        .first()
    )
    if ended is not None:
        return Sign(ended.run_id, ended.job_type, ended.received_at, ended=True)
    live = LiveRun.objects.for_tenants([tenant_id]).filter(last_at__gte=since).order_by("-last_at").first()
    return Sign(live.run_id, live.job_type, live.last_at, ended=False) if live else None


def parse_since(text: str, now: datetime) -> datetime:
    """Read the moment that a page was made; what is none, or is not of the last week, is a day ago."""
    try:
        since = parse_datetime(text)
    except ValueError:
        since = None
    if since is None or since.tzinfo is None or not now - _EARLIEST <= since <= now:
        return now - LOOK_BACK
    return since.astimezone(UTC)  # the database knows no offset of half a second
