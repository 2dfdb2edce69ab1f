from __future__ import annotations

import pytest

from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from runs.replay.play import Player
from runs.replay.report import Report, Share, counted, has_answer, is_cut_loop
from runs.replay.timing import Calendar
from runs.replay.traces import Trace, read_json_object, read_traces
from tests.shared import shared

from .recordings import call, loop, trace
from .test_play import UNTIL

SEND = Policy.from_mapping({"tools": {"send": {"class": "side_effect"}}})


def report(*traces: Trace, policy: Policy = SEND) -> Report:
    found = Report()
    list(counted(map(Player(policy, Calendar(UNTIL)).play, traces), found))
    return found


def test_groups_count_runs_stops_nudges_refusals_and_news() -> None:
    found = report(
        trace(call("a")),
        trace(*loop(4), call("b", "other")),
        trace(*loop(5), call("b", "other")),
        trace(*loop(5), outcome="failed"),
    )

    group = found.groups["lab", "search", "completed"]
    assert (group.runs, group.stopped, group.nudged, group.refused, group.with_news) == (3, 1, 2, 2, 1)
    assert found.groups["lab", "search", "failed"].runs == 1
    assert found.reasons == {Reason.REPEATED_CALL: 2}


def test_a_stop_for_a_doubled_side_effect_harms_nobody() -> None:
    sent = [call("a", "sent", tool="send")] * 4
    found = report(trace(*sent, call("b", "other"), ended="answer"), trace(*loop(), ended="answer"))

    assert found.reasons[Reason.DUPLICATE_SIDE_EFFECT] == 1
    assert found.harmed() == Share(1, 2)
    assert found.harmed_with_news() == Share(0, 2)


def test_harm_is_counted_for_each_job_type() -> None:
    found = report(trace(*loop()), trace(call("a")), trace(call("a"), job_type="mail"))

    assert found.harmed("search") == Share(1, 2)
    assert found.harmed("mail") == Share(0, 1)


@pytest.mark.parametrize(
    ("recorded", "answered"),
    [
        (trace(), True),
        (trace(ended="answer"), True),
        (trace(ended="cap"), False),
        (trace(outcome="failed", ended="answer"), False),
        (trace(outcome="unknown"), False),
    ],
)
def test_a_run_has_an_answer_when_it_succeeded_and_no_cap_cut_it(recorded: Trace, answered: bool) -> None:
    assert has_answer(recorded) is answered


def test_a_cut_loop_has_twelve_calls_one_of_them_four_times() -> None:
    others = [call(str(number)) for number in range(9)]
    dojo = {"source": "agentdojo", "ended": "cap"}

    assert is_cut_loop(trace(*others, *loop(4), **dojo))
    assert not is_cut_loop(trace(*others, *loop(3), **dojo))
    assert not is_cut_loop(trace(*others[:7], *loop(4), **dojo))
    assert not is_cut_loop(trace(*others, *loop(4), **dojo | {"ended": "answer"}))
    assert not is_cut_loop(trace(*others, *loop(4), **dojo | {"source": "lab"}))


def test_lines_show_the_table_and_both_figures() -> None:
    dojo = {"source": "agentdojo", "ended": "cap", "outcome": "failed"}
    text = "\n".join(report(trace(*loop(12), **dojo), trace(call("a"), ended="answer")).lines())

    assert "agentdojo  search    failed        1        1  100.0%" in text
    assert "are stopped (at least 97%): 1 of 1 (100.00%)" in text
    assert "search    0 of 1 (0.00%)" in text


def test_lines_of_no_runs_say_so() -> None:
    assert "none of that kind" in "\n".join(report().lines())


@pytest.mark.shared
def test_recorded_loops_are_caught_and_recorded_successes_left_alone() -> None:
    policy = Policy.from_mapping(read_json_object(shared("data/tools.json")))

    found = report(*read_traces(shared("data/runs.jsonl.gz")), policy=policy)

    assert found.caught.whole > 100
    assert found.caught.value >= 0.97
    assert found.harmed().whole > 7_000
    assert found.harmed().value <= 0.005
    assert found.harmed_with_news().value <= 0.0025
