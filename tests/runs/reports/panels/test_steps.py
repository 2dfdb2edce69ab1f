"""How a job type's steps are read against their cap, and what is drawn of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runs.reports.metrics import Bucket, Steps, StepsRow, Window
from runs.reports.panels.links import Links
from runs.reports.panels.steps import reading_of, steps_panel

START = datetime(2026, 11, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def make_row(**fields: Any) -> StepsRow:
    given = {
        "job_type": "research",
        "unit": "tool_call",
        "tasks": 1_000,
        "p50": 10,
        "p95": 20,
        "p99": 32,
        "highest": 38,
        "cap": 40,
        "near_cap": 6,
    }
    return StepsRow(**(given | fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Fits"),
        ({"near_cap": 10}, "Censored"),
        ({"p99": 16}, "Loose"),
        ({"p99": 17}, "Fits"),
        ({"tasks": 22, "p99": None}, "22 of 300 runs"),
        ({"cap": None, "near_cap": 0}, "No cap"),
    ],
)
def test_cap_is_read_by_the_tasks_that_completed_under_it(fields: dict[str, Any], words: str) -> None:
    assert reading_of(make_row(**fields)).words == words


def labels(
    p99: tuple[int | None, ...], highest: tuple[int | None, ...], *, partial: bool = False
) -> list[str]:
    buckets = tuple(
        Bucket(START + i * HOUR, START + (i + 1) * HOUR, partial and i == len(p99) - 1)
        for i in range(len(p99))
    )
    flat = (5,) * len(p99)
    steps = Steps((make_row(),), make_row(), buckets, flat, flat, p99, highest)
    window = Window(START, START + len(p99) * HOUR, HOUR)
    chart = steps_panel(steps, window, Links({}, {}), table=False).chart
    assert chart is not None
    return [stroke.label for stroke in chart.drawings[0].strokes]


def test_line_of_p99_is_drawn_where_every_bucket_has_one() -> None:
    assert labels((30, 32), (33, 35)) == ["p99 32", "p95 5", "p50 5"]


def test_line_of_the_highest_takes_its_place_where_tasks_are_few() -> None:
    assert labels((30, None), (33, 35)) == ["max 35", "p95 5", "p50 5"]


def test_bucket_in_progress_neither_bends_nor_decides_the_lines() -> None:
    assert labels((30, 31, None), (33, 35, 2), partial=True) == ["p99 31", "p95 5", "p50 5"]
