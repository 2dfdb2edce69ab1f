from __future__ import annotations

import pytest

from runs.reports.percentiles import nearest_rank


@pytest.mark.parametrize(
    ("tasks", "percent", "value"),
    [
        ({7: 1}, 50, 7),
        ({7: 1}, 99, 7),
        ({1: 1, 2: 1}, 50, 1),
        ({1: 1, 2: 1, 3: 1}, 50, 2),
        ({5: 99, 80: 1}, 99, 5),
        ({5: 98, 80: 2}, 99, 80),
        ({80: 5, 5: 95}, 95, 5),
        ({1: 0, 4: 2}, 50, 4),
    ],
)
def test_value_at_the_nearest_rank(tasks: dict[int, int], percent: int, value: int) -> None:
    assert nearest_rank(tasks, percent) == value


def test_no_tasks_have_no_percentile() -> None:
    assert nearest_rank({}, 99) is None
