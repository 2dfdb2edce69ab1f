"""Which time a page counts, read from its URL, and the buckets of its charts.

All ranges are half-open and snap outwards to quarter-hours, the finest that roll-ups know; every zone in use
is a whole number of quarter-hours from UTC, so days and hours in the viewer's zone fall on them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from guardops.tenants.errors import GuardOpsError

from .metrics import Bucket, Window

QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
SIX_HOURS = timedelta(hours=6)
DAY = timedelta(days=1)
LONGEST = timedelta(days=90)
DEFAULT_RANGE = "24h"
CUSTOM = "custom"
RANGES: dict[str, tuple[timedelta, timedelta]] = {
    "1h": (HOUR, QUARTER),
    "6h": (SIX_HOURS, QUARTER),
    "24h": (DAY, HOUR),
    "7d": (7 * DAY, SIX_HOURS),
    "14d": (14 * DAY, DAY),
    "30d": (30 * DAY, DAY),
    "90d": (90 * DAY, DAY),
}
"""What the URL may say, how long that is, and the length of its buckets."""

_EARLIEST = datetime(2001, 1, 1, tzinfo=UTC)
_LATEST = datetime(2199, 1, 1, tzinfo=UTC)


class WindowError(GuardOpsError):
    """The URL asks for a time that makes no sense.

    ``code`` is ``unknown_range``, ``unknown_zone``, ``not_a_time``, ``range_incomplete``, ``range_reversed``,
    ``range_too_long`` or ``range_out_of_bounds``.
    """

    default_code: ClassVar[str] = "unknown_range"


def parse_window(params: Mapping[str, str], now: datetime, zone: str) -> Window:
    """Return the window that ``range``, or ``from`` and ``to``, ask for; by default the last 24 hours.

    A named range ends with the quarter-hour in progress. ``from`` and ``to`` are ISO 8601 times, or dates,
    which mean their midnight; without an offset they are in ``zone`` (IANA). Without ``to`` it ends now.
    Raises WindowError.
    """
    zone_info = _zone(zone)
    first, last = params.get("from", "").strip(), params.get("to", "").strip()
    key = params.get("range", "").strip()
    if first or last:
        return _custom(first, last, now, zone_info)
    key = key or DEFAULT_RANGE
    if key not in RANGES:
        raise WindowError(f"“{key[:20]}” is no range; choose one of {', '.join(RANGES)}.")
    length, bucket = RANGES[key]
    end = floor_quarter(now) + QUARTER
    return Window(end - length, end, bucket, zone_info.key, key)


def _custom(first: str, last: str, now: datetime, zone: ZoneInfo) -> Window:
    if not first:
        raise WindowError("Say where the range begins.", code="range_incomplete")
    start = floor_quarter(_moment(first, zone))
    end = ceil_quarter(_moment(last, zone)) if last else floor_quarter(now) + QUARTER
    if start >= end:
        raise WindowError("The range ends before it begins.", code="range_reversed")
    if end - start > LONGEST:
        raise WindowError("A range may be 90 days long at most.", code="range_too_long")
    return Window(start, end, _bucket_for(end - start), zone.key, CUSTOM)


def _bucket_for(length: timedelta) -> timedelta:
    if length <= 6 * HOUR:
        return QUARTER
    if length <= 2 * DAY:
        return HOUR
    return SIX_HOURS if length <= 8 * DAY else DAY


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of the zone database
        raise WindowError(f"There is no time zone “{name[:40]}”.", code="unknown_zone") from None


def _moment(text: str, zone: ZoneInfo) -> datetime:
    # A plus sign that was not quoted in a URL arrives as a space.
    spelled = text[:-6] + "+" + text[-5:] if len(text) > 16 and text[-6] == " " else text
    try:
        moment = datetime.fromisoformat(spelled)
    except ValueError:
        raise WindowError(
            f"“{text[:40]}” is no time; write it like 2026-11-29T03:15Z.", code="not_a_time"
        ) from None
    try:
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (OverflowError, ValueError):
        moment = _LATEST
    if not _EARLIEST <= moment < _LATEST:
        raise WindowError(
            "That time is too far away; stay between 2001 and 2198.", code="range_out_of_bounds"
        )
    return moment


def floor_quarter(moment: datetime) -> datetime:
    moment = moment.astimezone(UTC)
    return moment.replace(minute=moment.minute // 15 * 15, second=0, microsecond=0)


def ceil_quarter(moment: datetime) -> datetime:
    floor = floor_quarter(moment)
    return floor if floor == moment else floor + QUARTER


def buckets(window: Window, now: datetime) -> tuple[Bucket, ...]:
    """Return the window cut at the viewer's quarters, hours, six hours or midnights.

    The first and the last may be cut by the window; they, and one that ``now`` lies in, are partial.
    """
    zone = ZoneInfo(window.zone)
    edge = _floor(window.start, window.bucket, zone)
    found = []
    while edge < window.end:
        following = _next(edge, window.bucket, zone)
        start, end = max(edge, window.start), min(following, window.end)
        partial = start > edge or end < following or start <= now < end
        found.append(Bucket(start, end, partial))
        edge = following
    return tuple(found)


def _next(edge: datetime, bucket: timedelta, zone: ZoneInfo) -> datetime:
    # A local day has 23 to 25 hours: half a bucket past its usual end lies inside the next one.
    return _floor(edge + bucket + bucket / 2, bucket, zone)


def _floor(moment: datetime, bucket: timedelta, zone: ZoneInfo) -> datetime:
    """Return the UTC start of the local slot that holds ``moment``."""
    local = moment.astimezone(zone)
    if bucket <= HOUR:
        past = timedelta(minutes=local.minute % (bucket // timedelta(minutes=1)))
        return floor_quarter(moment - past)
    hours = bucket // HOUR
    return floor_quarter(datetime.combine(local, time(local.hour // hours * hours), zone))
