"""Buckets of time as the columns of a chart, labelled in the viewer's zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from guardops.charts import Column
from runs.reports.metrics import Bucket

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)

LABEL_STEPS: dict[timedelta, tuple[int, ...]] = {
    timedelta(minutes=15): (1, 2, 4, 8, 12, 16, 24, 48, 96),
    timedelta(hours=1): (1, 2, 3, 4, 6, 12, 24, 48, 96, 168),
    timedelta(hours=6): (4, 8, 12, 16, 28, 56),
    _DAY: (1, 2, 3, 5, 7, 10, 14, 21, 30),
}
"""After how many buckets a label may come again, by the buckets' length: at round hours, at midnights."""

SPANS = {
    timedelta(minutes=15): "a quarter-hour",
    timedelta(hours=1): "an hour",
    timedelta(hours=6): "six hours",
    _DAY: "a day",
}
"""What a bar stands for, in words."""


def columns(
    buckets: Sequence[Bucket], length: timedelta, href: Callable[[Bucket], str]
) -> tuple[Column, ...]:
    return tuple(
        Column(
            label=_label(bucket, length),
            title=title(bucket, length),
            href=href(bucket),
            ordinal=_ordinal(timezone.localtime(bucket.start), length),
            partial=bucket.partial,
        )
        for bucket in buckets
    )


def title(bucket: Bucket, length: timedelta) -> str:
    """Return ``30 Nov 03:00–04:00 UTC``, or the day alone."""
    start, end = timezone.localtime(bucket.start), timezone.localtime(bucket.end)
    day = f"{start.day} {start:%b}"
    if length >= _DAY and not bucket.partial:
        return day
    if end.date() == start.date():
        return f"{day} {start:%H:%M}–{end:%H:%M} {start.tzname()}"
    ends = f"{end:%H:%M}" if end - start < _DAY else f"{end.day} {end:%b} {end:%H:%M}"
    return f"{day} {start:%H:%M}–{ends} {start.tzname()}"


def so_far(buckets: Sequence[Bucket], now: datetime) -> timedelta | None:
    """How much of the last bucket has passed, in whole minutes; None where it is over or has just begun."""
    last = buckets[-1]
    passed = (now - last.start) // _MINUTE * _MINUTE
    return passed if last.partial and _MINUTE <= passed < last.end - last.start else None


def _label(bucket: Bucket, length: timedelta) -> str:
    start = timezone.localtime(bucket.start)
    return f"{start.day} {start:%b}" if length >= timedelta(hours=6) else f"{start:%H:%M}"


def _ordinal(start: datetime, length: timedelta) -> int:
    since_midnight = timedelta(hours=start.hour, minutes=start.minute)
    return start.toordinal() * (_DAY // length) + since_midnight // length
