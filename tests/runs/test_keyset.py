from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.keyset import BadCursor, Cursor, Sort

RUN_ID = UUID("01a22bef-aea0-713e-9737-56a84aff863e")
PLACES = [
    Cursor("at", datetime(2026, 3, 14, 15, 9, 26, 535_897, tzinfo=UTC), RUN_ID, 7),
    Cursor("at", datetime(1970, 1, 1, tzinfo=UTC), RUN_ID, 1),
    Cursor("cost", Decimal("99999999.999999"), RUN_ID, 7),
    Cursor("cost", Decimal("0E-6"), RUN_ID, 7),
    Cursor("steps", 10**9, RUN_ID, 2**31 - 1),
    Cursor("duration", 7_300_000_000_000, RUN_ID, 7),
]


@pytest.mark.parametrize("place", PLACES)
def test_place_is_read_back_as_it_was_written(place: Cursor) -> None:
    assert Cursor.decode(place.encode()) == place


def written(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "é",
        "x" * 200,
        written("at 5"),
        written(f"at x {RUN_ID.hex} 1"),
        written(f"at -1 {RUN_ID.hex} 1"),
        written(f"at {10**30} {RUN_ID.hex} 1"),
        written(f"tenant 1 {RUN_ID.hex} 1"),
        written("steps 1 nobody 1"),
        written(f"steps 1 {RUN_ID.hex} {2**31}"),
        written(f"steps {2**31} {RUN_ID.hex} 1"),
        written(f"duration {2**63} {RUN_ID.hex} 1"),
        written(f"cost NaN {RUN_ID.hex} 1"),
        written(f"cost Infinity {RUN_ID.hex} 1"),
        written(f"cost 1e5000 {RUN_ID.hex} 1"),
        written(f"cost -1 {RUN_ID.hex} 1"),
        written(f"cost 1e-4000000 {RUN_ID.hex} 1"),
        written(f"cost 0.0000001 {RUN_ID.hex} 1"),
        written(f"at 253402300799999999 {RUN_ID.hex} 1"),
        written(f"cost x {RUN_ID.hex} 1"),
    ],
)
def test_place_that_nothing_wrote_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        Cursor.decode(text)


def test_zero_of_any_exponent_is_a_value_that_the_column_takes() -> None:
    place = Cursor.decode(written(f"cost 0e-999999999 {RUN_ID.hex} 1"))
    assert str(place.value) == "0.000000"


@given(st.text(max_size=130))
def test_any_text_is_a_place_or_refused(text: str) -> None:
    try:
        place = Cursor.decode(text)
    except BadCursor:
        return
    assert Cursor.decode(place.encode()) == place


@pytest.mark.parametrize("text", ["at", "-at", "steps", "-steps", "cost", "-cost", "duration", "-duration"])
def test_order_is_read_back_as_it_was_written(text: str) -> None:
    assert str(Sort.parse(text)) == text
