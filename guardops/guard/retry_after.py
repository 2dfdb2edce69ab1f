"""When a provider wants to be asked again: the seconds or the date of a ``Retry-After``."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_to_wait(value: object, now: datetime | None) -> float | None:
    """Return the seconds from ``now``, or None where none are named; a date needs ``now`` to be read."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    except ValueError:
        return _seconds_until(str(value), now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(value: str, now: datetime | None) -> float | None:
    if now is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - now).total_seconds())
    except (OverflowError, ValueError):
        return None
