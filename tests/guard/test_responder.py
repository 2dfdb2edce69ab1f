"""Parallel calls: what was proposed together climbs one rung only, and is counted once where it must be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from guardops.guard.answers import Check
from guardops.guard.events import Action
from tests.guard.agent import Agent, said


def batch(agent: Agent, number: int, calls: list[tuple[str, dict[str, Any]]], **report: Any) -> list[str]:
    """Put a parallel batch through the guard, all checks before any result; return all it said."""
    checks = [agent.check(tool, args, batch=number) for tool, args in calls]
    report = {"result": "r", **report}
    tickets = [check.ticket for check in checks if check.ticket is not None]
    return [said(check) for check in checks] + [
        said(agent.run.observe(ticket, **report)) for ticket in tickets
    ]


def test_eight_identical_calls_in_a_batch_run_once_and_are_one_warning() -> None:
    agent = Agent()
    checks = [agent.check("read", batch=1) for _ in range(8)]
    assert [check.action for check in checks] == [Action.CONTINUE, Action.NUDGE, *[Action.REFUSE] * 6]
    assert {said(check) for check in checks[1:]} == {"duplicate_in_flight"}
    assert agent.run.end().halt_reason is None


def test_eight_identical_calls_in_threads_run_once_and_stop_nothing() -> None:
    agent, together = Agent(), Barrier(8)

    def propose(_: int) -> Check:
        together.wait()
        return agent.check("read", {"q": "x"})

    with ThreadPoolExecutor(8) as pool:
        checks = list(pool.map(propose, range(8)))
    assert sum(check.allowed for check in checks) == 1
    assert {said(check) for check in checks if not check.allowed} == {"duplicate_in_flight"}
    assert {check.action for check in checks} == {Action.CONTINUE, Action.NUDGE, Action.REFUSE}


def test_a_duplicate_of_a_later_flight_is_another_trip() -> None:
    agent = Agent()
    for expected in (Action.NUDGE, Action.FORCE_ANSWER):
        ticket = agent.ticket("read")
        assert agent.check("read").action is expected
        agent.run.observe(ticket, result="r")


def test_a_batch_counts_once_for_the_stall_counter_and_its_calls_for_the_steps() -> None:
    agent = Agent()
    said_last: list[str] = []
    for number in range(6):
        calls = [("f", {"i": number, "j": j}) for j in range(3)]
        said_last = batch(agent, number, calls, progressed=False)
        assert agent.run.state.stall.count == number + 1
    assert said_last == ["continue"] * 5 + ["no_progress"]
    assert agent.run.end().steps == 18


def test_one_productive_call_makes_the_batch_productive() -> None:
    agent = Agent()
    first, second = (agent.ticket("f", {"i": i}, batch=1) for i in range(2))
    agent.run.observe(first, result="a", progressed=False)
    agent.run.observe(second, result="b", progressed=True)
    assert agent.run.state.stall.count == 0


def test_a_batch_counts_once_for_the_error_streak() -> None:
    agent = Agent()
    for number in range(4):
        batch(agent, number, [("f", {"i": number, "j": j}) for j in range(4)], error={"status": 404})
    assert agent.run.state.streak.count == 4
    assert batch(agent, 9, [("f", {"i": 9})], error={"status": 404})[-1] == "error_streak"


def test_a_cycle_of_batches_is_seen_whatever_the_order_of_their_calls() -> None:
    agent = Agent()
    answers: list[str] = []
    for number in range(3):
        calls: list[tuple[str, dict[str, Any]]] = [("a", {}), ("b", {})]
        answers = batch(agent, number, calls[:: 1 if number % 2 else -1])
    assert answers[-1] == "cycle_period_2"


def test_a_batch_may_not_go_beyond_the_steps_left() -> None:
    agent = Agent(max_steps=3)
    checks = [agent.check("f", {"i": i}, batch=1) for i in range(5)]
    assert [check.allowed for check in checks] == [True] * 3 + [False] * 2
    assert [check.action for check in checks[3:]] == [Action.FORCE_ANSWER, Action.FORCE_ANSWER]


def test_calls_of_the_batch_that_was_stopped_are_refused_and_only_later_ones_halt() -> None:
    agent = Agent(max_steps=1)
    ticket = agent.ticket("a", batch=1)
    assert agent.check("b", batch=1).action is Action.FORCE_ANSWER
    assert agent.check("c", batch=1).action is Action.FORCE_ANSWER
    agent.run.observe(ticket, result="r")
    assert agent.check("d", batch=2).action is Action.HALT


def test_results_of_calls_in_flight_are_still_recorded_after_a_stop() -> None:
    agent = Agent(max_steps=2)
    first, second = (agent.ticket("f", {"i": i}, batch=1) for i in range(2))
    agent.run.stop()
    assert agent.run.observe(first, result="a").action is Action.HALT
    assert agent.run.observe(second, result="b").action is Action.HALT
    assert agent.run.end().steps == 2
