from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from runs.models import LoopClock, LoopMinute
from runs.rollup.minutes import RELEASES, close_minutes, minute_of, moment_of
from tests.runs.rows import fold, insert_rows, make_row

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


def noon() -> datetime:
    return datetime.now(UTC).replace(hour=12, minute=0, second=30, microsecond=0) - timedelta(days=1)


def started(now: datetime) -> None:
    """Start the clock at ``now``, with nothing before it."""
    fold(now)
    close_minutes(now)


def minutes(**of: object) -> dict[int, tuple[int, int, int, int]]:
    rows = LoopMinute.objects.filter(**of)
    return {row.minute: (row.runs, row.looped, row.tasks, row.looped_tasks) for row in rows}


def test_a_minute_counts_its_runs_and_distinct_tasks_once_it_is_over() -> None:
    now = noon()
    started(now)
    task = {"root_task_id": "task-1", "looped": True}
    insert_rows([make_row(now, **task), make_row(now, **task), make_row(now), make_row(now, **task)])
    fold(now)

    assert close_minutes(now + timedelta(seconds=20)) == 0
    assert close_minutes(now + MINUTE) == 1

    assert minutes() == {minute_of(now): (4, 3, 2, 1)}


def test_provider_failures_stand_beside_tasks_and_in_none_of_them() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now, provider_failure=True, outcome="failed") for _ in range(3)] + [make_row(now)])
    fold(now)
    close_minutes(now + MINUTE)

    row = LoopMinute.objects.get()

    assert (row.runs, row.provider, row.tasks, row.looped_tasks) == (4, 3, 1, 0)


def test_a_run_that_fold_sees_after_its_minute_closed_belongs_to_the_next_one() -> None:
    now = noon()
    started(now)
    close_minutes(now + 2 * MINUTE)
    insert_rows([make_row(now)])  # received two minutes ago, held back by an open transaction
    fold(now + 2 * MINUTE)
    close_minutes(now + 3 * MINUTE)
    insert_rows([make_row(now + 2 * MINUTE)])
    fold(now + 3 * MINUTE)
    close_minutes(now + 4 * MINUTE)

    assert minutes() == {minute_of(now) + 2: (1, 0, 1, 0), minute_of(now) + 3: (1, 0, 1, 0)}


def test_minutes_without_fold_are_counted_each_by_itself_afterwards() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now + offset * MINUTE) for offset in (1, 1, 3)])
    fold(now + 5 * MINUTE)

    assert close_minutes(now + 5 * MINUTE) == 5

    assert {at - minute_of(now): counts[0] for at, counts in minutes().items()} == {1: 2, 3: 1}


@pytest.mark.parametrize("jump", [timedelta(hours=-1), timedelta(hours=1)], ids=["back", "ahead"])
def test_a_clock_that_jumps_neither_loses_a_run_nor_counts_one_twice(jump: timedelta) -> None:
    now = noon()
    started(now)
    for tick in range(6):
        shown = now + tick * MINUTE + (jump if 2 <= tick < 4 else timedelta())
        insert_rows([make_row(now + tick * MINUTE, received_at=shown)])
        fold(shown)
        close_minutes(shown + MINUTE)
    close_minutes(now + timedelta(hours=2))

    assert sum(counts[0] for counts in minutes().values()) == 6
    closed = list(LoopMinute.objects.order_by("minute").values_list("minute", flat=True))
    assert max(closed) <= LoopClock.objects.get().closed


def test_runs_that_ended_days_before_they_came_say_nothing_of_now() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now - timedelta(days=3), received_at=now), make_row(now)])
    fold(now)
    close_minutes(now + MINUTE)

    assert minutes() == {minute_of(now): (1, 0, 1, 0)}


def test_late_runs_are_counted_where_they_arrive_and_as_late() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now - timedelta(hours=2), received_at=now, looped=True)])
    fold(now)
    close_minutes(now + MINUTE)

    row = LoopMinute.objects.get()

    assert (row.minute, row.late, row.late_looped, row.looped_tasks) == (minute_of(now), 1, 1, 1)


def test_a_clock_that_begins_counts_the_past_by_when_runs_ended() -> None:
    now = noon()
    insert_rows([make_row(now - timedelta(hours=5)), make_row(now - timedelta(days=9)), make_row(now)])
    fold(now)
    close_minutes(now + MINUTE)
    insert_rows([make_row(now + MINUTE)])
    fold(now + MINUTE)
    close_minutes(now + 2 * MINUTE)

    assert {at - minute_of(now): counts[0] for at, counts in minutes().items()} == {-300: 1, 0: 1, 1: 1}


def test_many_releases_in_a_minute_are_told_apart_up_to_a_number() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now, release=f"r{number}") for number in range(RELEASES + 30)])
    fold(now)
    close_minutes(now + MINUTE)

    assert LoopMinute.objects.count() == RELEASES + 1
    assert LoopMinute.objects.get(release="").runs == 30


def test_minutes_of_more_than_eight_days_ago_are_forgotten() -> None:
    now = noon()
    started(now)
    insert_rows([make_row(now)])
    fold(now)
    close_minutes(now + MINUTE)

    close_minutes(now + timedelta(days=10))

    assert minutes() == {}


def test_reading_new_runs_touches_the_days_that_hold_them() -> None:
    now = noon()
    started(now)
    row = make_row(now)
    insert_rows([row])
    fold(now)

    clock = LoopClock.objects.get()

    assert (clock.first_run, clock.last_run) == (row["run_id"], row["run_id"])
    assert moment_of(clock.closed + 1) <= now
    with connection.cursor() as cursor:
        cursor.execute("SELECT last FROM fold_state")
        assert clock.mark < cursor.fetchone()[0]
