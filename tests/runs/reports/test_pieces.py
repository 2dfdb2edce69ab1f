from __future__ import annotations

from datetime import UTC, datetime

from runs.choices import Grain
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
