from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from runs.ingest.decode import Rejected

from .wire import checked


@pytest.mark.parametrize(
    ("overrides", "code", "field"),
    [
        ({"run_id": None}, "missing_field", "run_id"),
        ({"run_id": None, "external_id": ""}, "missing_field", "run_id"),
        ({"external_id": "mine"}, "invalid", "external_id"),
        ({"cost": "NaN"}, "out_of_range", "cost"),
        ({"cost": "sNaN"}, "out_of_range", "cost"),
        ({"cost": "Infinity"}, "out_of_range", "cost"),
        ({"cost": "-0.000001"}, "out_of_range", "cost"),
        ({"cost": "100000000"}, "out_of_range", "cost"),
        ({"cost": "1e5000"}, "out_of_range", "cost"),
        ({"cost": "1e-7"}, "out_of_range", "cost"),
        ({"cost": "0.00000049"}, "out_of_range", "cost"),
        ({"cost": "1.00000000000000000000000000000000001"}, "out_of_range", "cost"),
        ({"started_at": "2026-03-14T15:00:00"}, "invalid", "started_at"),
        ({"started_at": "0001-01-01T00:00:00Z"}, "out_of_range", "started_at"),
        ({"started_at": "0001-01-01T00:00:00+05:45"}, "out_of_range", "started_at"),
        ({"ended_at": "9999-12-31T23:59:59Z"}, "out_of_range", "ended_at"),
        ({"ended_at": "9999-12-31T23:59:59-12:00"}, "out_of_range", "ended_at"),
        (
            {"ledger": [{"fingerprint": "f", "tool": "t", "last_at": "0001-01-01T00:00:00+14:00"}]},
            "out_of_range",
            "ledger.last_at",
        ),
        (
            {"last_steps": [{"step": 1, "tool": "t", "at": "2026-03-14T15:00:00"}]},
            "invalid",
            "last_steps[0].at",
        ),
        ({"tokens": {"input": 5, "cached": 6}}, "out_of_range", "tokens.cached"),
        ({"halt_detail": {"text": "x" * 4_096}}, "too_large", "halt_detail"),
    ],
)
def test_value_that_no_column_holds_is_rejected(overrides: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(Rejected) as error:
        checked(**overrides)
    assert (error.value.code, error.value.field) == (code, field)


def test_free_json_nested_too_deep_is_rejected() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(Rejected) as error:
        checked(limits=deep)
    assert error.value.code == "too_deep"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("0.5", "0.500000"),
        ("-0", "0.000000"),
        ("99999999.999999", "99999999.999999"),
        (1.25, "1.250000"),
        ("1e2", "100.000000"),
    ],
)
def test_money_within_bounds_is_kept_to_the_millionth(sent: Any, kept: str) -> None:
    cost = checked(cost=sent).cost
    assert cost == Decimal(kept)
    assert cost.as_tuple().exponent == -6


def test_time_of_another_zone_becomes_utc() -> None:
    assert checked(started_at="2026-03-14T20:45:00+05:45").started_at == datetime(2026, 3, 14, 15, tzinfo=UTC)


def test_time_of_a_step_becomes_utc() -> None:
    event = checked(last_steps=[{"step": 1, "tool": "t", "at": "2026-03-14T20:54:26+05:45"}])
    assert str(event.last_steps[0].at) == "2026-03-14 15:09:26+00:00"


def test_clock_of_1970_is_kept() -> None:
    assert checked(started_at="1970-01-01T00:00:00Z").started_at.year == 1970
