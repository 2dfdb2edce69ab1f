from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardops.guard.cycles import CycleDetector, ping_pong, reason_for
from guardops.guard.reasons import Reason


def periods(calls: str, *, window: int = 12, max_period: int = 4, repeats: int = 3) -> list[int]:
    """Return the period found after each call; a letter is a call with its own, constant result."""
    detector = CycleDetector(window, max_period, repeats)
    found = []
    for call in calls:
        detector.add((call, "result of " + call.lower(), 0))
        found.append(detector.period())
    return found


@pytest.mark.parametrize(
    ("calls", "period"),
    [("ababab", 2), ("abcabcabc", 3), ("abcdabcdabcd", 4), ("aabaabaab", 3), ("xyababab", 2)],
)
def test_the_third_repeat_of_a_block_is_a_cycle(calls: str, period: int) -> None:
    assert periods(calls) == [0] * (len(calls) - 1) + [period]


@pytest.mark.parametrize("calls", ["aaaaaa", "ababac", "abcabcabd", "abcdeabcdeabcde", "abxabxaby", "ab"])
def test_other_sequences_are_none(calls: str) -> None:
    assert not any(periods(calls))


def test_a_changed_result_is_no_cycle() -> None:
    detector = CycleDetector(12, 4, 3)
    for step in range(12):
        detector.add(("ab"[step % 2], f"result {step}", 0))
        assert detector.period() == 0


def test_new_evidence_is_no_cycle() -> None:
    detector = CycleDetector(12, 4, 3)
    for step in range(12):
        detector.add(("ab"[step % 2], "same", step // 4))
        assert detector.period() == 0


def test_clearing_forgets() -> None:
    detector = CycleDetector(12, 4, 3)
    for call in "ababa":
        detector.add((call, "", 0))
    detector.clear()
    detector.add(("b", "", 0))
    assert detector.period() == 0


def test_the_policy_sets_repeats_and_longest_period() -> None:
    assert periods("abab", repeats=2)[-1] == 2
    assert not any(periods("abcabcabc", max_period=2))


@given(st.text(alphabet="abc", max_size=14))
def test_a_period_is_found_exactly_where_the_newest_calls_repeat(calls: str) -> None:
    expected = 0
    for period in (2, 3, 4):
        newest = calls[-12:][-3 * period :]
        block = newest[:period]
        if len(newest) == 3 * period and newest == block * 3 and len(set(block)) > 1:
            expected = period
            break
    assert (periods(calls) or [0])[-1] == expected


def test_reasons_name_the_period() -> None:
    assert [reason_for(period) for period in (2, 3, 4, 5)] == [
        Reason.CYCLE_PERIOD_2,
        Reason.CYCLE_PERIOD_3,
        Reason.CYCLE_PERIOD_4,
        Reason.CYCLE_PERIOD_4,
    ]


@pytest.mark.parametrize("edges", ["abab", "xabab", "abcabc", "abcdabcd"])
def test_hand_overs_that_repeat_twice_are_ping_pong(edges: str) -> None:
    assert ping_pong(list(edges))


@pytest.mark.parametrize("edges", ["", "ab", "aba", "aaaa", "abac", "abcdeabcde"])
def test_delegate_and_return_is_not(edges: str) -> None:
    assert not ping_pong(list(edges))
