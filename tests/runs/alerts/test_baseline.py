from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from runs.alerts.baseline import LoopRateDetector
from runs.alerts.comparing import compare
from runs.alerts.usual import Baseline, History
from tests.benchmarks.detector import labelled, measure
from tests.shared import shared

DAY = 1_440
HOUR = 60
Minutes = dict[int, list[dict[str, Any]]]


def rows_of(rng: random.Random, tasks: int, rate: float, release: str = "r1") -> dict[str, Any]:
    looped = sum(rng.random() < rate for _ in range(tasks))
    return {"release": release, "tasks": tasks, "looped_tasks": looped}


def series(*parts: tuple[int, float], tasks: int = 3, seed: int = 1) -> Minutes:
    """Return minutes, part after part: how many of them, at which rate."""
    rng, minutes = random.Random(seed), Minutes()
    for length, rate in parts:
        for _ in range(length):
            minutes[len(minutes)] = [rows_of(rng, tasks, rate)]
    return minutes


def play(detector: LoopRateDetector, minutes: Minutes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for minute, rows in minutes.items():
        events += detector.tick(minute, rows)
    return events


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["rule"]) for event in events]


def test_the_core_needs_no_framework_and_no_settings() -> None:
    code = (
        "import sys; from runs.alerts.baseline import LoopRateDetector as D;"
        " print(D().tick(1, []), 'django' in sys.modules)"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[] False"


def test_a_rate_five_times_the_usual_opens_and_what_ends_it_resolves() -> None:
    events = play(LoopRateDetector(), series((2 * DAY, 0.03), (HOUR, 0.3), (3 * HOUR, 0.03)))

    assert kinds(events) == [("open", "spike"), ("resolve", "spike")]
    assert 2 * DAY - 30 < events[0]["started"] <= events[0]["at"] < 2 * DAY + 30
    assert events[0]["looped"] / events[0]["tasks"] > 0.15
    assert events[1]["id"] == events[0]["id"]


def test_the_first_day_is_silent_since_nothing_is_usual_yet() -> None:
    assert play(LoopRateDetector(), series((DAY - HOUR, 0.03), (HOUR, 0.9))) == []


def test_a_minute_given_twice_changes_nothing() -> None:
    minutes = series((2 * DAY, 0.03), (HOUR, 0.3), (HOUR, 0.03))
    once, twice = LoopRateDetector(), LoopRateDetector()
    events = play(once, minutes)
    doubled = []
    for minute, rows in minutes.items():
        doubled += twice.tick(minute, rows)
        doubled += twice.tick(minute, rows)

    assert doubled == events
    assert twice.state() == once.state()


def test_it_goes_on_from_its_state_and_history_as_if_nothing_had_been() -> None:
    minutes = series((2 * DAY, 0.03), (HOUR, 0.3), (HOUR, 0.03))
    whole = LoopRateDetector()
    expected = play(whole, minutes)
    events, state, history = [], {}, History()
    for minute, rows in minutes.items():
        detector = LoopRateDetector(json.loads(json.dumps(state)))
        detector.history = history
        events += detector.tick(minute, rows)
        state = detector.state()

    assert events == expected
    assert json.dumps(state) == json.dumps(whole.state())


def test_what_crosses_again_within_half_an_hour_reopens() -> None:
    minutes = series((2 * DAY, 0.03), (HOUR, 0.4), (30, 0.0), (HOUR, 0.6))

    events = play(LoopRateDetector(), minutes)

    assert kinds(events)[:3] == [("open", "spike"), ("resolve", "spike"), ("reopen", "spike")]
    assert len({event["id"] for event in events}) == 1


def test_six_hours_without_runs_end_an_incident() -> None:
    minutes = series((2 * DAY, 0.03), (20, 0.6))
    minutes |= {minute: [] for minute in range(len(minutes), len(minutes) + 7 * HOUR)}

    events = play(LoopRateDetector(), minutes)

    assert (events[-1]["type"], events[-1]["how"]) == ("resolve", "no_runs")


def test_what_lasts_three_days_is_the_new_usual() -> None:
    minutes = series((2 * DAY, 0.02), (5 * DAY, 0.1))

    events = play(LoopRateDetector(), minutes)

    assert [event["how"] for event in events if event["type"] == "resolve"] == ["new_normal"]
    assert kinds(events).count(("open", "spike")) == 1


def with_release(rate: float, *, beside: int, others: float = 0.03) -> Minutes:
    """Return three days, then eight hours in which a new release runs beside the old one."""
    rng = random.Random(5)
    minutes = series((3 * DAY, 0.03), tasks=4)
    for _ in range(8 * HOUR):
        new = rows_of(rng, 4 - beside, rate, "r2")
        minutes[len(minutes)] = [rows_of(rng, beside, others), new]
    return minutes


def test_a_release_that_loops_more_than_what_runs_beside_it_opens_once() -> None:
    events = play(LoopRateDetector(), with_release(0.25, beside=2))

    verdicts = [event for event in events if event["rule"] == "release" and event["type"] != "resolve"]
    assert len(verdicts) == 1
    assert verdicts[0]["release"] == "r2"
    assert [event["type"] for event in events if event["type"] == "open"] == ["open"]


def test_a_release_that_loops_like_what_runs_beside_it_is_none_of_them() -> None:
    assert [event["rule"] for event in play(LoopRateDetector(), with_release(0.03, beside=2))] == []


def test_a_release_is_not_blamed_for_what_hits_everything_at_once() -> None:
    events = play(LoopRateDetector(), with_release(0.3, beside=2, others=0.3))

    assert kinds(events) == [("open", "spike")]


def test_a_bad_release_that_runs_no_more_is_over_in_an_hour() -> None:
    minutes = with_release(0.1, beside=3)
    rng = random.Random(8)
    minutes |= {minute: [rows_of(rng, 4, 0.03)] for minute in range(len(minutes), len(minutes) + 3 * HOUR)}

    events = play(LoopRateDetector(), minutes)

    opened = next(event for event in events if event["type"] == "open")
    assert opened["rule"] == "release"
    assert ("resolve", "gone") in [(event["type"], event.get("how")) for event in events]


def test_releases_without_end_take_bounded_room() -> None:
    detector = LoopRateDetector()
    for minute in range(3 * DAY):
        detector.tick(minute, [{"release": f"r{minute}", "tasks": 1, "looped_tasks": 0}])

    assert len(json.dumps(detector.state())) < 60_000


def test_a_release_whose_rate_rose_long_after_it_came_is_not_judged_for_it() -> None:
    usual = Baseline(limit=0.03, dispersion=1.0, rate=0.025, tasks=5_000)
    early, late = [[0, 200, 4, 0, 0]], [[1, 40, 30, 0, 0]]

    assert compare(late + late, usual) is not None
    assert compare(early + late, usual) is None


def test_what_is_usual_leaves_incidents_out() -> None:
    history = History()
    for minute in range(3 * DAY):
        history.add(minute, "r1", 10, 5 if 2 * DAY <= minute < 2 * DAY + 300 else 0)

    known = history.usual(3 * DAY, [(None, 2 * DAY, 2 * DAY + 299)])
    blind = history.usual(3 * DAY)

    assert known is not None
    assert blind is not None
    assert known.rate < 0.01 < blind.rate


@pytest.mark.shared
def test_the_labelled_series_are_found_with_next_to_no_false_alarm() -> None:
    """Some of them: the recorded bad releases, and every tenth of those simulated."""
    some = [
        each
        for place, each in enumerate(labelled(shared("alerts/dev_series.jsonl.gz")))
        if (each.source == "agentdojo" and any(label.fire for label in each.labels)) or place % 10 == 0
    ]

    found = measure(some)

    assert found["recorded releases alerted"] == "7 of 7"
    assert found["false on recorded releases"] == 0
    assert found["false incidents a 100 series-weeks"] <= 4  # one
    assert found["false in outage, drop, silence, surge"] == 0
    assert found["found of detectable steps"] >= 0.7
