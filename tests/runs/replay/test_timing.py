from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from guardops.guard.ids import uuid7_ms
from runs.replay.timing import SPREAD, Calendar, stable_id, window_end

UNTIL = datetime(2026, 11, 30, 10, tzinfo=UTC)
SEEDS = [f"lab/{number}" for number in range(4_000)]


def test_the_same_run_and_window_give_the_same_start_and_id() -> None:
    first, second = (Calendar(UNTIL).start("lab/1", 30) for _ in range(2))

    assert first == second
    assert stable_id(first, "lab/1") == stable_id(second, "lab/1")


def test_runs_of_one_start_have_different_ids() -> None:
    assert stable_id(UNTIL, "lab/1") != stable_id(UNTIL, "lab/2")


def test_an_id_carries_the_start_and_is_a_uuid_of_version_7() -> None:
    start = Calendar(UNTIL).start("lab/1", 30)

    run_id = stable_id(start, "lab/1")

    assert run_id.version == 7
    assert uuid7_ms(run_id) == round(start.timestamp() * 1_000)


def test_every_run_starts_in_the_window_and_ends_before_it_closes() -> None:
    starts = [Calendar(UNTIL).start(seed, 900) for seed in SEEDS]

    assert min(starts) >= UNTIL - SPREAD
    assert max(starts) + timedelta(seconds=900) <= UNTIL


def test_starts_follow_the_working_day_and_the_week() -> None:
    starts = [Calendar(UNTIL).start(seed, 0) for seed in SEEDS]

    hours = Counter(start.hour for start in starts)
    days = Counter(start.date() for start in starts)
    assert 3 < sum(hours[hour] for hour in (8, 9, 10, 11)) / sum(hours[hour] for hour in (0, 1, 2, 3)) < 5
    assert (
        days[datetime(2026, 11, 28, tzinfo=UTC).date()]
        < days[datetime(2026, 11, 27, tzinfo=UTC).date()] * 0.8
    )
    assert len(days) >= 13


def test_the_window_ends_at_the_full_hour() -> None:
    assert window_end(datetime(2026, 11, 30, 10, 59, 59, tzinfo=UTC)) == UNTIL
