"""Every minute: a sign of life of beat and worker, and the call that an outside watchdog expects.

Whoever watches GuardOps must not be GuardOps: a watchdog elsewhere is called every minute, and speaks up when
the call stays out. It is left out where runs are not counted, so that it tells of a standstill as well.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.conf import settings

from guardops.tenants.errors import GuardOpsError
from runs.models import Pulse
from runs.notify.client import request
from runs.rollup.state import read_lag

BEAT = "beat"
HEARTBEAT = "heartbeat"
STANDSTILL = timedelta(minutes=5)
"""Counting that is further behind keeps the watchdog's call from being made."""
_SECONDS = 8.0
_MAX_ERROR = 300

log = structlog.get_logger(__name__)


def beat(now: datetime) -> str:
    """Write down that beat's minute has come, and call the watchdog; returns why that failed, or nothing."""
    write_pulse(BEAT, now)
    if not settings.HEARTBEAT_URL:
        return ""
    error = _call(now)
    write_pulse(HEARTBEAT, now, error)
    if error:
        log.warning("heartbeat.not_taken", error=error)
    return error


def write_pulse(name: str, now: datetime, error: str = "") -> None:
    """Write one sign of life; an older one never takes a newer one's place."""
    pulse, made = Pulse.objects.get_or_create(
        name=name, defaults={"at": now, "well_at": None if error else now, "error": error[:_MAX_ERROR]}
    )
    if not made:
        went = {"at": now, "error": error[:_MAX_ERROR]} | ({} if error else {"well_at": now})
        Pulse.objects.filter(pk=pulse.pk, at__lt=now).update(**went)


def _call(now: datetime) -> str:
    lag = read_lag(now)
    if lag is not None and lag > STANDSTILL:
        return "Not called: counting is more than five minutes behind."
    try:
        answer = request("GET", settings.HEARTBEAT_URL, seconds=_SECONDS)
    except GuardOpsError as error:
        return error.message
    return "" if answer.taken else answer.shown
