from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runs.reports.windows import RANGES, WindowError, buckets, parse_window

NOW = datetime(2026, 11, 30, 3, 14, 7, tzinfo=UTC)


def lengths(params: dict[str, str], zone: str, now: datetime = NOW) -> list[float]:
    """Return the hours of each bucket."""
    window = parse_window(params, now, zone)
    return [(bucket.end - bucket.start) / timedelta(hours=1) for bucket in buckets(window, now)]


def test_no_parameters_mean_the_last_24_hours_to_the_quarter_in_progress() -> None:
    window = parse_window({}, NOW, "UTC")

    assert (window.key, window.bucket) == ("24h", timedelta(hours=1))
    assert window.end == datetime(2026, 11, 30, 3, 15, tzinfo=UTC)
    assert window.start == datetime(2026, 11, 29, 3, 15, tzinfo=UTC)
    assert (window.before.start, window.before.end) == (window.start - timedelta(days=1), window.start)


def test_a_run_placed_on_the_quarter_itself_is_inside() -> None:
    on_the_quarter = NOW.replace(minute=15, second=0)

    assert parse_window({}, on_the_quarter, "UTC").end > on_the_quarter


@pytest.mark.parametrize(
    ("key", "minutes", "count"),
    [("1h", 15, 4), ("6h", 15, 24), ("24h", 60, 25), ("7d", 360, 29), ("14d", 1440, 15), ("30d", 1440, 31)],
)
def test_each_range_has_its_buckets(key: str, minutes: int, count: int) -> None:
    window = parse_window({"range": key}, NOW, "UTC")

    assert window.end - window.start == RANGES[key][0]
    assert window.bucket == timedelta(minutes=minutes)
    assert len(buckets(window, NOW)) == count


def test_buckets_cut_by_the_window_or_by_now_are_partial() -> None:
    shown = buckets(parse_window({}, NOW, "UTC"), NOW)

    assert [bucket.partial for bucket in shown] == [True, *[False] * 23, True]
    assert shown[0].end - shown[0].start == timedelta(minutes=45)


def test_days_are_the_viewers() -> None:
    kathmandu = buckets(parse_window({"range": "14d"}, NOW, "Asia/Kathmandu"), NOW)
    tokyo = buckets(parse_window({"range": "14d"}, NOW, "Asia/Tokyo"), NOW)

    assert {(bucket.start.hour, bucket.start.minute) for bucket in kathmandu[1:]} == {(18, 15)}
    assert {(bucket.start.hour, bucket.start.minute) for bucket in tokyo[1:]} == {(15, 0)}


def test_days_of_23_and_25_hours_keep_their_midnights() -> None:
    autumn = lengths({"from": "2026-10-24", "to": "2026-11-03"}, "Europe/Berlin")
    spring = lengths({"from": "2026-03-28", "to": "2026-04-07"}, "Europe/Berlin")

    assert autumn == [24, 25, *[24] * 8]
    assert spring == [24, 23, *[24] * 8]


def test_six_hours_follow_the_clock_on_the_wall() -> None:
    assert lengths({"from": "2026-10-24", "to": "2026-10-27"}, "Europe/Berlin")[3:6] == [6, 7, 6]


def test_midnight_that_does_not_exist_begins_when_the_clock_jumps() -> None:
    assert lengths({"from": "2026-04-20", "to": "2026-04-30"}, "Africa/Cairo") == [*[24] * 4, 23, *[24] * 5]


def test_hours_of_a_zone_that_shifts_by_half_an_hour_have_no_gap() -> None:
    hours = lengths({"from": "2026-04-05", "to": "2026-04-06"}, "Australia/Lord_Howe")

    assert sum(hours) == 24.5
    assert set(hours) == {1, 1.5}


def test_times_without_an_offset_are_the_viewers() -> None:
    window = parse_window({"from": "2026-11-29", "to": "2026-11-29T12:00"}, NOW, "Asia/Kathmandu")

    assert window.start == datetime(2026, 11, 28, 18, 15, tzinfo=UTC)
    assert window.end == datetime(2026, 11, 29, 6, 15, tzinfo=UTC)
    assert window.key == "custom"


def test_own_times_snap_outwards_to_quarters() -> None:
    window = parse_window({"from": "2026-11-29T01:07Z", "to": "2026-11-29T02:46:00+00:00"}, NOW, "UTC")

    assert (window.start.minute, window.end.minute) == (0, 0)
    assert window.end - window.start == timedelta(hours=2)


def test_plus_sign_that_a_url_made_a_space_is_read() -> None:
    window = parse_window({"from": "2026-11-29T01:00:00 01:00"}, NOW, "UTC")

    assert window.start == datetime(2026, 11, 29, 0, 0, tzinfo=UTC)
    assert window.end == datetime(2026, 11, 30, 3, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("params", "zone", "code"),
    [
        ({"range": "2h"}, "UTC", "unknown_range"),
        ({"range": "24h\0"}, "UTC", "unknown_range"),
        ({}, "Mars/Olympus", "unknown_zone"),
        ({}, "../etc/passwd", "unknown_zone"),
        ({}, "", "unknown_zone"),
        ({"from": "yesterday"}, "UTC", "not_a_time"),
        ({"from": "2026-13-01"}, "UTC", "not_a_time"),
        ({"to": "2026-11-29"}, "UTC", "range_incomplete"),
        ({"from": "2026-11-29", "to": "2026-11-28"}, "UTC", "range_reversed"),
        ({"from": "2026-11-29", "to": "2026-11-29"}, "UTC", "range_reversed"),
        ({"from": "2026-08-01", "to": "2026-11-01"}, "UTC", "range_too_long"),
        ({"from": "0001-01-01"}, "Asia/Tokyo", "range_out_of_bounds"),
        ({"from": "9999-12-31T23:59-12:00"}, "UTC", "range_out_of_bounds"),
    ],
)
def test_nonsense_is_refused_with_its_code(params: dict[str, str], zone: str, code: str) -> None:
    with pytest.raises(WindowError) as refused:
        parse_window(params, NOW, zone)

    assert refused.value.code == code


def test_ninety_days_are_allowed() -> None:
    assert sum(lengths({"from": "2026-08-31", "to": "2026-11-29"}, "UTC")) == 90 * 24
