from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from guardops.guard.retry_after import seconds_to_wait

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (8, 8),
        (0.5, 0.5),
        ("12", 12),
        (-3, 0),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Sun, 01 Mar 99999999999 11:00:00 GMT", None),
        ("soon", None),
        ("nan", None),
        (float("inf"), None),
        (10**400, None),
        (True, None),
        (None, None),
        ([5], None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: Any, seconds: float | None) -> None:
    assert seconds_to_wait(value, NOW) == seconds


def test_a_date_without_a_clock_says_nothing() -> None:
    assert seconds_to_wait("Sun, 01 Mar 2026 12:00:30 GMT", None) is None
