from __future__ import annotations

from guardops.guard.stall import ErrorStreak, StallCounter


def test_unproductive_steps_add_up_and_a_productive_one_resets() -> None:
    stall = StallCounter()
    for _ in range(5):
        stall.note(productive=False)
    assert (stall.count, stall.reached(6), stall.reached(5)) == (5, False, True)
    stall.note(productive=True)
    assert (stall.count, stall.peak) == (0, 5)


def test_a_limit_of_zero_allows_no_unproductive_step_but_every_productive_one() -> None:
    stall = StallCounter()
    stall.note(productive=True)
    assert not stall.reached(0)
    stall.note(productive=False)
    assert stall.reached(0)


def test_only_distinct_calls_feed_the_streak() -> None:
    streak = ErrorStreak()
    for fingerprint in ("a", "a", "b"):
        streak.note("search", "permanent", [fingerprint])
    assert streak.count == 2


def test_another_tool_or_class_starts_a_new_streak() -> None:
    streak = ErrorStreak()
    streak.note("search", "permanent", ["a"])
    streak.note("search", "permanent", ["b"])
    streak.note("search", "unknown", ["c"])
    assert streak.count == 1
    streak.note("read", "unknown", ["d"])
    assert (streak.count, streak.peak) == (1, 2)


def test_a_batch_counts_once() -> None:
    streak = ErrorStreak()
    streak.note("search", "permanent", ["a", "b", "c"])
    assert streak.count == 1


def test_clearing_ends_the_streak() -> None:
    streak = ErrorStreak()
    streak.note("search", "permanent", ["a"])
    streak.clear()
    assert streak.count == 0
    assert not streak.reached(0)
