"""Buckets of time as columns, named in the viewer's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from runs.reports.metrics import Bucket
from runs.reports.panels.axis import LABEL_STEPS, columns, so_far

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def make_bucket(start: datetime, length: timedelta, *, partial: bool = False) -> Bucket:
    return Bucket(start, start + length, partial)


def column_of(bucket: Bucket, length: timedelta, zone: str = "UTC") -> tuple[str, str]:
    with timezone.override(zone):
        (column,) = columns([bucket], length, lambda _: "")
    return column.label, column.title


@pytest.mark.parametrize(
    ("start", "length", "label", "title"),
    [
        (NOON, 15 * MINUTE, "12:00", "30 Nov 12:00–12:15 UTC"),
        (NOON, HOUR, "12:00", "30 Nov 12:00–13:00 UTC"),
        (NOON + 11 * HOUR, HOUR, "23:00", "30 Nov 23:00–00:00 UTC"),
        (NOON, 6 * HOUR, "30 Nov", "30 Nov 12:00–18:00 UTC"),
        (NOON - 12 * HOUR, DAY, "30 Nov", "30 Nov"),
    ],
)
def test_column_is_named_by_its_time(start: datetime, length: timedelta, label: str, title: str) -> None:
    assert column_of(make_bucket(start, length), length) == (label, title)


def test_column_is_named_in_the_viewers_zone() -> None:
    assert column_of(make_bucket(NOON, HOUR), HOUR, "Asia/Kathmandu")[1] == "30 Nov 17:45–18:45 +0545"


def test_cut_day_says_its_hours() -> None:
    assert column_of(make_bucket(NOON, 3 * HOUR, partial=True), DAY)[1] == "30 Nov 12:00–15:00 UTC"


@pytest.mark.parametrize("length", LABEL_STEPS)
def test_labels_of_a_day_stand_at_midnights(length: timedelta) -> None:
    midnight = NOON - 12 * HOUR
    (column,) = columns([make_bucket(midnight, length)], length, lambda _: "")
    a_day = max(1, DAY // length)

    assert column.ordinal % a_day == 0


@pytest.mark.parametrize(
    ("passed", "said"),
    [(timedelta(seconds=59), None), (14 * MINUTE + timedelta(seconds=7), 14 * MINUTE), (HOUR, None)],
)
def test_part_of_the_last_bucket_is_said_in_minutes(passed: timedelta, said: timedelta | None) -> None:
    assert so_far([make_bucket(NOON, HOUR, partial=True)], NOON + passed) == said
