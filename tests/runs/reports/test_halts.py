from __future__ import annotations

from datetime import UTC, datetime, timedelta

from runs.reports.counts import Sums, empty_sums
from runs.reports.halts import trailing_baseline
from runs.reports.metrics import Bucket

START = datetime(2026, 11, 29, tzinfo=UTC)


def hours(*lengths: float) -> list[Bucket]:
    found, at = [], START
    for length in lengths:
        found.append(Bucket(at, at + timedelta(hours=length)))
        at += timedelta(hours=length)
    return found


def halted(*counts: int, runs: int = 10) -> list[Sums]:
    return [empty_sums() | {"stopped": count, "runs": runs} for count in counts]


def test_baseline_is_the_mean_of_as_many_buckets_before() -> None:
    assert trailing_baseline(hours(1, 1, 1, 1), halted(2, 4, 6, 90), 2) == (3.0, 5.0)


def test_partial_bucket_expects_its_share() -> None:
    assert trailing_baseline(hours(1, 1, 0.25), halted(8, 8, 0), 1) == (2.0,)


def test_nothing_ran_before_is_no_baseline() -> None:
    assert trailing_baseline(hours(1, 1), halted(0, 5, runs=0), 1) == (None,)
