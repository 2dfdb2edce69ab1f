"""Lift, without a database: what it is, how sure it is, and that nobody's thumb is on it."""

from __future__ import annotations

import pytest

from runs.sources.lift import Tally, lift_of, weakest_lift


def tally(owner: int, stopped: int, completed: int, *, of: tuple[int, int] = (100, 1_000)) -> Tally:
    return Tally(owner, stopped, of[0], completed, of[1])


def test_lift_is_the_share_in_stopped_runs_over_the_share_in_completed_ones() -> None:
    lift = lift_of([tally(1, 40, 20), tally(2, 40, 20)])

    assert lift is not None
    assert (lift.stopped_share, lift.completed_share, lift.ratio) == pytest.approx((0.4, 0.02, 20.0))
    assert lift.low < 20 < lift.high
    assert not lift.at_least


def test_more_runs_make_the_interval_narrower() -> None:
    few, many = lift_of([tally(1, 4, 2, of=(10, 100))]), lift_of([tally(1, 400, 200, of=(1_000, 10_000))])

    assert few is not None
    assert many is not None
    assert few.ratio == pytest.approx(many.ratio)
    assert many.high / many.low < few.high / few.low


def test_without_a_completed_run_the_least_is_said_and_it_grows_with_the_runs() -> None:
    few, many = lift_of([tally(1, 3, 0, of=(10, 50))]), lift_of([tally(1, 30, 0, of=(100, 5_000))])

    assert few is not None
    assert many is not None
    assert (few.at_least, few.completed_share, few.known) == (True, 0.0, few.low)
    assert few.low < many.low


@pytest.mark.parametrize(
    "tallies", [[], [tally(1, 0, 5)], [tally(1, 5, 0, of=(5, 0))], [tally(1, 0, 5, of=(0, 50))]], ids=range(4)
)
def test_where_nothing_can_be_compared_there_is_no_lift(tallies: list[Tally]) -> None:
    assert lift_of(tallies) is None


def test_an_owner_with_a_million_runs_weighs_no_more_than_all_others() -> None:
    others = [tally(owner, 10, 100) for owner in (2, 3)]  # as common in completed runs
    lift = lift_of([Tally(1, 1_000_000, 1_000_000, 0, 1_000_000), *others])

    assert lift is not None
    assert lift.stopped_share == pytest.approx(0.5 * 1.0 + 0.5 * 0.1)


def test_an_owner_whose_runs_are_often_stopped_makes_its_everyday_tool_no_suspect() -> None:
    """Within each owner the tool is as common in stopped runs; pooled it would look seven times as common."""
    often, seldom = Tally(1, 80, 100, 80, 100), Tally(2, 1, 10, 1_000, 10_000)
    lift = lift_of([often, seldom])

    assert lift is not None
    assert lift.ratio == pytest.approx(1.0)


def test_the_weakest_lift_is_what_is_left_without_any_one_owner() -> None:
    honest, faking = tally(1, 10, 100), tally(2, 100, 0)

    assert weakest_lift([honest, faking]) == pytest.approx(1.0)
    assert weakest_lift([faking]) == 0.0
