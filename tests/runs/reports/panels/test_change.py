"""When a change is said, and when it is loud."""

from __future__ import annotations

from decimal import Decimal

import pytest

from runs.reports.panels.change import (
    count_change,
    halts_change,
    mean_change,
    money_change,
    share_change,
    usual_band,
)


def test_counts_are_neutral_and_in_percent() -> None:
    change = count_change(1_041, 1_000)

    assert change is not None
    assert (change.arrow, change.amount, change.verdict, change.beyond) == ("up", "4.1\u00a0%", "", False)


def test_nothing_before_makes_no_change() -> None:
    assert count_change(5, 0) is None
    assert share_change(0.5, None, (10, 0), []) is None
    assert mean_change(None, 1.0, []) is None
    assert money_change(Decimal(1), None, []) is None


def test_share_moves_in_points() -> None:
    change = share_change(0.078, 0.059, (18_000, 18_000), [0.06, 0.061, 0.059, 0.06])

    assert change is not None
    assert (change.amount, change.verdict, change.beyond) == ("1.9\u00a0pts", "worse", True)


@pytest.mark.parametrize(("runs", "loud"), [(40, False), (40_000, True)])
def test_share_is_loud_only_beyond_chance(runs: int, loud: bool) -> None:
    change = share_change(0.07, 0.05, (runs, runs), [])

    assert change is not None
    assert change.beyond is loud


def test_share_is_quiet_within_what_its_buckets_vary_by() -> None:
    change = share_change(0.07, 0.05, (40_000, 40_000), [0.02, 0.10, 0.03, 0.12, 0.01, 0.09])

    assert change is not None
    assert (change.verdict, change.beyond) == ("worse", False)


def test_spike_does_not_widen_the_band_that_it_should_break() -> None:
    calm = [0.05, 0.06, 0.05, 0.06, 0.05, 0.06, 0.05]

    assert usual_band([*calm, 0.9]) == pytest.approx(usual_band([*calm, 0.06]), rel=0.5)
    assert usual_band(calm[:3]) is None


def test_better_is_never_loud() -> None:
    change = share_change(0.01, 0.50, (40_000, 40_000), [])

    assert change is not None
    assert (change.arrow, change.verdict, change.beyond) == ("down", "better", False)


def test_difference_that_rounds_to_nothing_is_no_change() -> None:
    change = share_change(0.0501, 0.0500, (40_000, 40_000), [])

    assert change is not None
    assert (change.arrow, change.amount, change.verdict) == ("same", "no change", "")


def test_money_adds_its_percent_where_asked() -> None:
    change = money_change(Decimal("0.412"), Decimal("0.351"), [0.35] * 8, percent=True)

    assert change is not None
    assert (change.amount, change.verdict, change.beyond) == ("$0.061 (17\u00a0%)", "worse", True)


def test_amount_is_quiet_where_too_few_buckets_tell_its_band() -> None:
    change = money_change(Decimal("0.9"), Decimal("0.3"), [0.3, 0.9])

    assert change is not None
    assert (change.verdict, change.beyond) == ("worse", False)


def test_amount_is_quiet_below_a_tenth() -> None:
    change = money_change(Decimal("0.38"), Decimal("0.351"), [0.35] * 8)

    assert change is not None
    assert change.beyond is False


@pytest.mark.parametrize(
    ("now", "before", "amount", "loud"),
    [
        (468, 297, "+171", True),
        (203, 191, "+12", False),
        (214, 232, "−18", False),
        (44, 44, "no change", False),
    ],
)
def test_halts_are_loud_beyond_chance(now: int, before: int, amount: str, loud: bool) -> None:
    change = halts_change(now, before)

    assert (change.amount, change.beyond) == (amount, loud)
