from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest

from guardops.guard.agent_run import AgentRun
from guardops.guard.calls import Stopped, ToolCall
from guardops.guard.events import Action, StepOutcome
from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from tests.guard.agent import STARTED_AT

TOOLS = ["search", "pay"]
PAY = {"tools": {"pay": {"class": "side_effect"}}}


class Clock:
    """Seconds that pass only while a run sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def start(clock: Clock, **policy: Any) -> AgentRun:
    guard = Guard(
        Policy.from_mapping(policy),
        jitter=lambda: 0.0,
        now=lambda: STARTED_AT,
        sleep=clock.sleep,
        asleep=clock.asleep,
    )
    return guard.run(job_type="t", clock=clock)


def search(q: str) -> dict[str, str]:
    return {"found": q}


async def search_async(q: str) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"found": q}


def failing(error: Exception) -> Any:
    def function(**args: Any) -> None:
        raise error

    return function


def test_a_result_is_told_to_the_model_as_text_and_kept_as_it_is(clock: Clock) -> None:
    run = start(clock)
    result = run.call("search", {"q": "a"}, search)
    assert (result.content, result.value, result.is_error) == ('{"found":"a"}', {"found": "a"}, False)
    assert str(run.call("say", {}, lambda: "plain text")) == "plain text"
    assert run.call("none", {}, lambda: None).content == "null"
    assert "object" in run.call("odd", {}, lambda: {1, 2} and object()).content


def test_a_failure_is_classified_and_told_to_the_model(clock: Clock) -> None:
    run = start(clock)
    error = ValueError("no such city")
    result = run.call("search", {"q": "a"}, failing(error))
    assert result.is_error
    assert result.error is error
    assert result.content == "search failed: ValueError: no such city"
    again = run.call("search", {"q": "a"}, search)
    assert again.reason == "tool_no_progress"
    assert again.value is None
    [failed, refused] = run.end().last_steps
    assert (failed.outcome, failed.error_class) == (StepOutcome.ERROR, "permanent")
    assert refused.outcome is StepOutcome.REFUSED


def test_a_refusal_is_text_and_the_tool_is_not_called(clock: Clock) -> None:
    run = start(clock, **PAY)
    paid: list[str] = []
    first = run.call("pay", {"to": "x"}, lambda to: paid.append(to))
    second = run.call("pay", {"to": "x"}, lambda to: paid.append(to))
    assert (first.is_error, second.is_error) == (False, True)
    assert second.reason == "duplicate_side_effect"
    assert "already been done" in second.content
    assert paid == ["x"]


def test_a_nudge_after_a_result_stands_in_the_content(clock: Clock) -> None:
    run = start(clock, stall_limit=1)
    run.call("search", {"q": "a"}, search, progressed=True)
    result = run.call("search", {"q": "b"}, search, progressed=lambda value: value != {"found": "b"})
    assert result.content.startswith('{"found":"b"}\n\nThe last 1 steps brought the task no further.')
    assert result.reason == "no_progress"


def test_what_cannot_tell_progress_stops_nothing(clock: Clock) -> None:
    def broken(value: Any) -> bool:
        raise KeyError("broken")

    assert not start(clock).call("search", {"q": "a"}, search, progressed=broken).is_error


def test_tools_are_off_in_the_forced_turn_and_a_call_in_it_stops_the_run(clock: Clock) -> None:
    run = start(clock, max_steps=1)
    assert run.tools(TOOLS) == TOOLS
    run.turn(answered=False)
    first = run.call("search", {"q": "a"}, search)
    assert first.reason == "step_budget"
    assert "Answer with what you have" in first.content
    sibling = run.call("search", {"q": "b"}, search)  # of the same turn
    assert (sibling.value, sibling.reason) == (None, "step_budget")
    assert run.tools(TOOLS) == []
    run.turn(answered=False)
    with pytest.raises(Stopped) as stopped:
        run.call("search", {"q": "c"}, search)
    assert stopped.value.action is Action.HALT
    with pytest.raises(Stopped):
        run.tools(TOOLS)


def test_an_answer_in_the_forced_turn_is_a_forced_answer(clock: Clock) -> None:
    run = start(clock, max_steps=1)
    run.call("search", {"q": "a"}, search)
    assert run.tools(TOOLS) == []
    run.turn(answered=True)
    assert run.end().outcome == "completed_forced"


def test_a_loop_that_never_asks_for_its_tools_ends_all_the_same(clock: Clock) -> None:
    run = start(clock, max_steps=1)

    def loop() -> None:
        for number in range(100):
            run.call("search", {"q": number}, search)

    with pytest.raises(Stopped):
        loop()


def test_a_turn_beyond_the_limit_answers_its_calls_with_text(clock: Clock) -> None:
    run = start(clock, max_turns=1)
    run.tools(TOOLS)
    assert run.turn().action is Action.FORCE_ANSWER
    assert run.call("search", {"q": "a"}, search).reason == "max_turns"
    assert run.tools(TOOLS) == []


def test_escalation_is_raised_with_its_reason(clock: Clock) -> None:
    class Denied(Exception):
        status_code = 401

    run = start(clock)
    with pytest.raises(Stopped) as stopped:
        run.call("search", {"q": "a"}, failing(Denied()))
    assert (stopped.value.action, stopped.value.reason) == (Action.ESCALATE, "tool_auth_error")
    assert run.end().outcome == "escalated"


def test_an_order_to_stop_is_met_before_the_next_model_call(clock: Clock) -> None:
    run = start(clock)
    run.stop()
    with pytest.raises(Stopped) as stopped:
        run.tools(TOOLS)
    assert stopped.value.reason == "operator_stop"


def test_a_call_that_has_to_wait_is_made_when_it_may(clock: Clock) -> None:
    run = start(clock)
    run.call("search", {"q": "a"}, failing(TimeoutError()))
    assert run.call("search", {"q": "a"}, search).value == {"found": "a"}
    assert clock.slept == [1.0]


def test_a_call_that_would_wait_beyond_the_runs_time_is_refused_with_text(clock: Clock) -> None:
    run = start(clock, max_seconds=0.5)
    run.call("search", {"q": "a"}, failing(TimeoutError()))
    result = run.call("search", {"q": "a"}, search)
    assert result.is_error
    assert "no time to wait" in result.content
    assert clock.slept == []


def test_an_interrupt_goes_through_and_leaves_a_write_uncertain(clock: Clock) -> None:
    def interrupted(**args: Any) -> None:
        raise KeyboardInterrupt

    run = start(clock, **PAY)
    for tool in ("search", "pay"):
        with pytest.raises(KeyboardInterrupt):
            run.call(tool, {"x": 1}, interrupted)
    event = run.end()
    assert {row.tool: row.uncertain for row in event.ledger} == {"search": False, "pay": True}
    assert event.halt_detail == {"in_flight": ["pay"]}


def test_an_asynchronous_tool_given_to_call_is_said_to_be_one(clock: Clock) -> None:
    result = start(clock).call("search", {"q": "a"}, search_async)
    assert isinstance(result.error, TypeError)
    assert "acall" in result.content


class TestAsync:
    def test_a_coroutine_function_is_awaited_and_a_plain_one_runs_in_a_thread(self, clock: Clock) -> None:
        class Callable:
            async def __call__(self, q: str) -> str:
                return q

        async def work() -> list[Any]:
            run = start(clock)
            here = threading.get_ident()
            there = await run.acall("where", {}, threading.get_ident)
            assert there.value != here
            return [
                (await run.acall("a", {"q": "1"}, search_async)).value,
                (await run.acall("b", {"q": "2"}, Callable())).value,
                (await run.acall("c", {}, partial(search_async, q="3"))).value,
                (await run.acall("d", {"q": "4"}, failing(ValueError("x")))).content,
            ]

        assert asyncio.run(work()) == [{"found": "1"}, "2", {"found": "3"}, "d failed: ValueError: x"]

    def test_equal_calls_at_once_run_once(self, clock: Clock) -> None:
        ran: list[int] = []

        async def slow(q: str) -> str:
            ran.append(1)
            await asyncio.sleep(0.01)
            return q

        async def work() -> list[Any]:
            run = start(clock)
            return await asyncio.gather(*(run.acall("search", {"q": "a"}, slow) for _ in range(8)))

        results = asyncio.run(work())
        assert len(ran) == 1
        assert sorted(str(result.reason) for result in results) == ["None", *["duplicate_in_flight"] * 7]

    def test_a_cancelled_write_is_uncertain_and_a_cancelled_read_timed_out(self, clock: Clock) -> None:
        async def hang(x: int) -> None:
            await asyncio.sleep(60)

        async def work() -> AgentRun:
            run = start(clock, **PAY)
            for tool in ("search", "pay"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await run.acall(tool, {"x": 1}, hang)
            assert (await run.acall("search", {"x": 1}, lambda x: x)).value == 1
            return run

        event = asyncio.run(work()).end()
        assert {row.tool: row.uncertain for row in event.ledger} == {"search": False, "pay": True}

    def test_a_cancelled_thread_still_reports_what_it_brings(self, clock: Clock) -> None:
        go = threading.Event()

        def slow(x: int) -> int:
            go.wait(5)
            return x

        async def work() -> AgentRun:
            run = start(clock, **PAY)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await run.acall("pay", {"x": 1}, slow)
            go.set()
            for _ in range(500):
                if not run.state.in_flight:
                    break
                await asyncio.sleep(0.01)
            return run

        event = asyncio.run(work()).end()
        assert [(step.tool, step.outcome) for step in event.last_steps] == [("pay", StepOutcome.OK)]
        assert not event.ledger[0].uncertain

    def test_waits_are_awaited(self, clock: Clock) -> None:
        async def work() -> Any:
            run = start(clock)
            await run.acall("search", {"q": "a"}, failing(TimeoutError()))
            return await run.acall("search", {"q": "a"}, search_async)

        assert asyncio.run(work()).value == {"found": "a"}
        assert clock.slept == [1.0]

    def test_a_batch_of_coroutines_runs_at_the_same_time(self, clock: Clock) -> None:
        barrier = asyncio.Barrier(3)

        async def meet(q: int) -> int:
            async with asyncio.timeout(5):
                await barrier.wait()
            return q

        async def work() -> list[Any]:
            run = start(clock)
            return await run.acalls([ToolCall("meet", {"q": number}, meet) for number in range(3)])

        assert [result.value for result in asyncio.run(work())] == [0, 1, 2]


class TestBatches:
    def test_calls_run_side_by_side_and_come_back_in_order(self, clock: Clock) -> None:
        barrier = threading.Barrier(3)

        def meet(q: int) -> int:
            barrier.wait(5)
            time.sleep((3 - q) / 100)
            return q

        results = start(clock).calls([ToolCall("meet", {"q": number}, meet) for number in range(3)])
        assert [result.value for result in results] == [0, 1, 2]

    def test_an_equal_read_shares_its_twins_result(self, clock: Clock) -> None:
        ran: list[str] = []

        def once(q: str) -> str:
            ran.append(q)
            return q

        results = start(clock).calls([ToolCall("search", {"q": "a"}, once)] * 3)
        assert [result.value for result in results] == ["a"] * 3
        assert ran == ["a"]

    def test_an_equal_write_is_refused(self, clock: Clock) -> None:
        ran: list[str] = []
        run = start(clock, **PAY)
        results = run.calls([ToolCall("pay", {"q": "a"}, lambda q: ran.append(q))] * 2)
        assert [result.reason for result in results] == [None, "duplicate_in_flight"]
        assert ran == ["a"]

    def test_a_batch_counts_once_for_the_stall(self, clock: Clock) -> None:
        run = start(clock, stall_limit=2)
        for turn in range(2):
            results = run.calls(
                [ToolCall("search", {"q": f"{turn}{number}"}, search) for number in range(5)],
                progressed=False,
            )
        assert [bool(result.reason) for result in results].count(True) == 1
        assert run.counts.steps == 10

    def test_a_stop_within_a_batch_makes_none_of_its_calls(self, clock: Clock) -> None:
        ran: list[str] = []
        run = start(clock, tools={"pay": {"class": "side_effect"}, "rm": {"forbidden": True}})
        calls = [ToolCall("pay", {"q": "a"}, lambda q: ran.append(q)), ToolCall("rm", {}, lambda: None)]
        with pytest.raises(Stopped) as stopped:
            run.calls(calls)
        assert stopped.value.reason == "forbidden_tool"
        assert ran == []
        event = run.end()
        assert not any(row.uncertain or row.in_flight for row in event.ledger)

    def test_a_stop_by_a_result_is_raised_when_all_are_done(self, clock: Clock) -> None:
        class Denied(Exception):
            status_code = 401

        ran: list[str] = []
        run = start(clock)
        calls = [
            ToolCall("a", {}, failing(Denied())),
            ToolCall("b", {"q": "b"}, lambda q: ran.append(q)),
        ]
        with pytest.raises(Stopped):
            run.calls(calls)
        assert ran == ["b"]

    def test_the_rest_of_a_turn_after_a_forced_answer_is_told_so(self, clock: Clock) -> None:
        run = start(clock, max_steps=2)
        results = run.calls([ToolCall("search", {"q": number}, search) for number in range(4)])
        assert [result.value is None for result in results] == [False, False, True, True]
        assert run.tools(TOOLS) == []

    def test_no_calls_are_no_results(self, clock: Clock) -> None:
        assert start(clock).calls([]) == []
