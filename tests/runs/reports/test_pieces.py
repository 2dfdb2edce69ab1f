from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from runs.choices import Grain
from runs.reports.metrics import GRAIN_LENGTH
from runs.reports.pieces import Piece, joined, pieces_of

Q, H, D = Grain.QUARTER, Grain.HOUR, Grain.DAY


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def test_days_fill_the_inside_hours_and_quarters_the_edges() -> None:
    found = pieces_of(at(1, 22, 45), at(5, 1, 15), hours_to=at(9), days_to=at(9))

    assert found == [
        Piece(Q, at(1, 22, 45), at(1, 23)),
        Piece(H, at(1, 23), at(2)),
        Piece(D, at(2), at(5)),
        Piece(H, at(5), at(5, 1)),
        Piece(Q, at(5, 1), at(5, 1, 15)),
    ]


def test_what_is_not_copied_yet_is_filled_with_finer_rows() -> None:
    found = pieces_of(at(1), at(3), hours_to=at(2, 20), days_to=at(2))

    assert found == [
        Piece(D, at(1), at(2)),
        Piece(H, at(2), at(2, 20)),
        Piece(Q, at(2, 20), at(3)),
    ]


def test_window_inside_an_hour_is_quarters() -> None:
    assert pieces_of(at(1, 3, 15), at(1, 3, 45), hours_to=at(9), days_to=at(9)) == [
        Piece(Q, at(1, 3, 15), at(1, 3, 45))
    ]


def test_neighbours_of_one_grain_are_read_as_one() -> None:
    days = [Piece(D, at(1), at(2)), Piece(D, at(2), at(3)), Piece(H, at(3), at(3, 1)), Piece(D, at(4), at(5))]

    assert joined(days) == [Piece(D, at(1), at(3)), *days[2:]]


@given(
    start=st.integers(0, 2_000),
    length=st.integers(1, 2_000),
    hours=st.integers(0, 900),
    days=st.integers(0, 40),
)
def test_any_window_is_filled_once_by_whole_rows_that_exist(
    start: int, length: int, hours: int, days: int
) -> None:
    begin, quarter = at(1), timedelta(minutes=15)
    window = begin + start * quarter, begin + (start + length) * quarter
    limits = {
        H: begin + timedelta(hours=hours),
        D: begin + timedelta(days=days),
        Q: datetime.max.replace(tzinfo=UTC),
    }

    found = pieces_of(*window, hours_to=limits[H], days_to=limits[D])

    assert (found[0].start, found[-1].end) == window
    assert all(left.end == right.start for left, right in itertools.pairwise(found))
    for piece in found:
        assert piece.start < piece.end <= limits[piece.grain]
        assert (piece.start - begin) % GRAIN_LENGTH[piece.grain] == timedelta()
        assert (piece.end - begin) % GRAIN_LENGTH[piece.grain] == timedelta()
