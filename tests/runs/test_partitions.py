from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection

from guardops.guard.ids import uuid7
from runs.models import Run
from runs.partitions import (
    DAYS_AHEAD,
    DAYS_BACK,
    ensure_partitions,
    existing_partitions,
    kept_days,
    make_partitions,
    run_id_bounds,
    unix_ms,
)

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_bounds_hold_ids_of_the_day_before_and_five_minutes_after() -> None:
    low, high = run_id_bounds(NOW, NOW + timedelta(hours=1))
    first = unix_ms(NOW - timedelta(days=1))
    last = unix_ms(NOW + timedelta(hours=1, minutes=5))
    assert low <= uuid7(first, 0)
    assert low > uuid7(first - 1, 2**74 - 1)
    assert uuid7(last, 2**74 - 1) < high <= uuid7(last + 1, 0)


def test_kept_days_hold_every_id_that_ingest_stores() -> None:
    days = kept_days(NOW)
    assert (days[0], days[-1]) == (date(2031, 3, 31), date(2031, 5, 8))
    low, _ = run_id_bounds(NOW - timedelta(days=DAYS_BACK), NOW)
    assert datetime.fromtimestamp((low.int >> 80) / 1000, UTC).date() == days[0]
    assert len(days) == DAYS_BACK + DAYS_AHEAD + 2


@pytest.mark.django_db
def test_missing_partitions_are_made_once() -> None:
    made = ensure_partitions(NOW)
    assert made == kept_days(NOW)
    assert "run_20310506" in existing_partitions()
    assert ensure_partitions(NOW) == []
    assert ensure_partitions(NOW + timedelta(days=1)) == [date(2031, 5, 9)]


@pytest.mark.django_db
def test_time_range_reads_only_the_partitions_that_can_hold_it() -> None:
    ensure_partitions(NOW)
    low, high = run_id_bounds(NOW, NOW + timedelta(hours=1))
    plan = Run.objects.filter(
        at__gte=NOW, at__lt=NOW + timedelta(hours=1), run_id__gte=low, run_id__lt=high
    ).explain()
    assert "run_20310505" in plan
    assert "run_20310506" in plan
    assert "run_20310504" not in plan
    assert "run_20310507" not in plan


@pytest.mark.django_db(transaction=True)
def test_two_processes_make_each_partition_once() -> None:
    days = [date(2032, 1, 1) + timedelta(days=number) for number in range(6)]
    made: list[date] = []
    ready = threading.Barrier(3)

    def make() -> None:
        try:
            ready.wait(10)
            made.extend(make_partitions(days))
        finally:
            connection.close()

    makers = [threading.Thread(target=make) for _ in range(3)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert set(made) == set(days)
    with connection.cursor() as cursor:
        for day in days:
            assert f"run_{day:%Y%m%d}" in existing_partitions()
            cursor.execute(f"DROP TABLE run_{day:%Y%m%d}")
