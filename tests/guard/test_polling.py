from __future__ import annotations

from typing import Any

import pytest

from guardops.guard.events import Action
from guardops.guard.policy import Poll
from guardops.guard.polling import is_terminal
from tests.guard.agent import Agent, allowed, said

JOB = {"id": "j1"}


def poller(**poll: Any) -> Agent:
    return Agent(
        tools={"job": {"poll": {"interval": 10, "max_attempts": 4, "terminal": ["done"]} | poll}},
        stall_limit=2,
    )


def test_a_poll_at_its_interval_may_repeat_without_end_of_patience() -> None:
    agent = poller(max_attempts=30)
    for _ in range(15):
        assert allowed(agent.call("job", JOB, "running"))
        agent.now += 10


def test_an_early_poll_waits_for_its_time() -> None:
    agent = poller()
    agent.call("job", JOB, "running")
    agent.now = 3
    check = agent.check("job", JOB)
    assert (check.action, check.not_before, check.ticket) == (Action.WAIT, 10, None)
    agent.now = 10
    assert allowed(agent.call("job", JOB, "running"))


def test_attempts_used_up_are_poll_exhausted() -> None:
    agent = poller()
    for _ in range(4):
        assert allowed(agent.call("job", JOB, "running"))
        agent.now += 10
    assert said(agent.check("job", JOB)) == "poll_exhausted"


def test_seconds_used_up_are_poll_exhausted() -> None:
    agent = poller(max_seconds=25)
    for _ in range(3):
        assert allowed(agent.call("job", JOB, "running"))
        agent.now += 10
    assert said(agent.check("job", JOB)) == "poll_exhausted"


def test_a_poll_after_a_terminal_state_is_no_progress() -> None:
    agent = poller()
    assert allowed(agent.call("job", JOB, {"status": "done"}))
    agent.now = 10
    assert said(agent.check("job", JOB)) == "tool_no_progress"


def test_another_job_has_its_own_contract() -> None:
    agent = poller()
    agent.call("job", JOB, {"status": "done"})
    assert allowed(agent.call("job", {"id": "j2"}, {"status": "running"}))


def test_a_poll_that_failed_for_good_is_not_asked_again() -> None:
    agent = poller()
    agent.call("job", JOB, error={"status": 404})
    agent.now = 10
    assert said(agent.check("job", JOB)) == "tool_no_progress"


def test_a_poll_that_was_throttled_waits_as_long_as_told() -> None:
    agent = poller()
    agent.call("job", JOB, error={"status": 429, "retry_after": 45})
    agent.now = 10
    assert agent.check("job", JOB).not_before == 45


def test_without_a_contract_a_changing_result_keeps_a_poll_alive_and_a_frozen_one_ends_it() -> None:
    agent = Agent()
    for step in range(8):
        assert allowed(agent.call("job", JOB, f"{step} %"))
    frozen = Agent()
    assert frozen.reasons(4, "job", JOB, result="0 %") == ["continue"] * 3 + ["repeated_call"]


@pytest.mark.parametrize(
    "result",
    [
        "done",
        " done\n",
        {"status": "done"},
        {"state": "done"},
        {"phase": "done"},
        {"job": {"status": "done"}},
    ],
)
def test_a_terminal_state_is_the_whole_text_or_a_named_field(result: Any) -> None:
    assert is_terminal(result, Poll(1, 1, terminal=frozenset({"done"})))


@pytest.mark.parametrize(
    "result", ["not done yet", "DONE", {"note": "done"}, {"status": {"text": "done"}}, None, ["done"]]
)
def test_other_results_are_not_terminal(result: Any) -> None:
    assert not is_terminal(result, Poll(1, 1, terminal=frozenset({"done"})))


def test_new_evidence_starts_a_new_wait_once_the_last_one_is_over() -> None:
    agent = poller(max_attempts=2)
    agent.call("job", JOB, {"status": "running"})
    agent.now = 10
    agent.call("job", JOB, {"status": "done"})
    agent.run.state_changed()
    assert allowed(agent.call("job", JOB, {"status": "running"}))
    agent.run.state_changed()
    agent.now = 20
    assert allowed(agent.call("job", JOB, {"status": "running"}))
    agent.run.state_changed()
    agent.now = 30
    assert said(agent.check("job", JOB)) == "poll_exhausted"
