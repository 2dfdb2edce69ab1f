from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from guardops.guard.calls import Stopped
from guardops.guard.delivery import Delivery
from guardops.guard.events import Answer, Outcome
from guardops.guard.policy import Policy
from guardops.guard.reporter import Reporter
from guardops.guard.session import AgentRun, Guard
from guardops.guard.spool import Spool

from .gate import Gate

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def guard(gate: Gate, tmp_path: Path) -> Iterator[Guard]:
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(Spool(tmp_path / "spool"), delivery, threaded=False)
    with Guard(
        Policy.from_mapping({"max_steps": 2}), reporter=reporter, tenant="acme", now=lambda: AT
    ) as guard:
        yield guard


def told(guard: Guard, gate: Gate) -> list[dict[str, Any]]:
    """Return the events that the gate has by now."""
    assert guard.reporter is not None
    while guard.reporter.tick() == 0:
        pass
    return gate.taken


def test_a_run_is_told_at_its_start_and_at_its_end(guard: Guard, gate: Gate) -> None:
    with guard.run(job_type="research", agent="a", release="r1", external_id="job-1") as run:
        run.call("search", {"q": "x"}, lambda q: q)
        [start] = told(guard, gate)
        assert start["type"] == "run.started"
        assert (start["external_id"], start["tenant"], start["agent"]) == ("job-1", "acme", "a")
        assert start["limits"]["max_steps"] == 2
    end = told(guard, gate)[-1]
    assert (end["type"], end["external_id"], end["tenant"]) == ("run.ended", "job-1", "acme")
    assert (end["outcome"], end["answer"], end["steps"], end["release"]) == ("completed", "full", 1, "r1")
    assert start["guard"]["instance"] == end["guard"]["instance"] != ""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("x"), "failed"),
        (KeyboardInterrupt(), "cancelled"),
        (asyncio.CancelledError(), "cancelled"),
        (SystemExit(1), "failed"),
    ],
)
def test_a_run_that_is_left_by_an_exception_has_not_completed(
    guard: Guard, gate: Gate, error: BaseException, outcome: str
) -> None:
    with pytest.raises(type(error)), guard.run(job_type="t"):
        raise error
    end = told(guard, gate)[-1]
    assert (end["outcome"], end.get("answer", "none")) == (outcome, "none")
    assert end["attributes"] == {"error": type(error).__name__}


def test_a_stopped_run_is_told_as_it_stands(guard: Guard, gate: Gate) -> None:
    def loop() -> None:
        with guard.run(job_type="t") as run:
            run.stop()
            run.tools([])

    with pytest.raises(Stopped):
        loop()
    end = told(guard, gate)[-1]
    assert (end["outcome"], end["halt_reason"]) == ("halted", "operator_stop")
    assert "attributes" not in end


def test_async_blocks_do_the_same(guard: Guard, gate: Gate) -> None:
    async def work() -> None:
        async with guard.run(job_type="t") as run:
            await run.acall("search", {"q": "x"}, lambda q: q)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert told(guard, gate)[-1]["outcome"] == "cancelled"


def test_a_run_ends_once(guard: Guard, gate: Gate) -> None:
    with guard.run(job_type="t") as run:
        first = run.end(Outcome.UNRESOLVED, answer=Answer.NONE)
        assert run.end(Outcome.COMPLETED) is first
    assert [event["type"] for event in told(guard, gate)] == ["run.started", "run.ended"]
    assert gate.taken[-1]["outcome"] == "unresolved"


def test_attributes_are_cut_to_what_the_gate_takes(guard: Guard, gate: Gate) -> None:
    with guard.run(job_type="t") as run:
        run.attributes.update({f"k{number}": "v" * 300 for number in range(30)})
        run.attributes["half"] = "\ud800"
    attributes = told(guard, gate)[-1]["attributes"]
    assert len(attributes) == 20
    assert {len(value) for value in attributes.values()} == {256}


def test_labels_are_cut_and_made_writable(guard: Guard, gate: Gate) -> None:
    with guard.run(job_type="j" * 300, agent="\ud800", external_id="e" * 300, root_task_id="r" * 300):
        pass
    start, end = told(guard, gate)
    for event in (start, end):
        assert (len(event["job_type"]), event["agent"], len(event["external_id"])) == (128, "?", 128)


def test_a_run_without_a_job_type_does_not_start(guard: Guard) -> None:
    with pytest.raises(ValueError, match="job type"):
        guard.run(job_type="")


def test_a_heartbeat_says_how_near_a_run_is_to_its_limits(guard: Guard, gate: Gate) -> None:
    run = guard.run(job_type="t", external_id="job-1")
    run.tools([])
    run.turn(1_000, 100, "0.25")
    run.call("fetch", {"url": "https://a.example/"}, lambda url: url)
    first, second = run.heartbeat(), run.heartbeat()
    assert (first.external_id, first.run_id, first.tenant) == ("job-1", None, "acme")
    assert (second.seq, second.steps, second.turns, str(second.cost)) == (2, 1, 1, "0.25")
    assert second.pressure["max_steps"] == 0.5
    assert [source.name for source in second.sources] == ["a.example", "fetch"]


def test_a_plain_guard_tells_nobody(tmp_path: Path) -> None:
    guard = Guard()
    with guard.run(job_type="t") as run:
        assert isinstance(run, AgentRun)
    assert guard.close()


def test_an_asynchronous_loop_and_its_thread_share_a_run(guard: Guard) -> None:
    async def work() -> list[Any]:
        async with guard.run(job_type="t", policy=Policy()) as run:
            return await asyncio.gather(
                *(run.acall("search", {"q": number}, lambda q: q) for number in range(20))
            )

    assert [result.value for result in asyncio.run(work())] == list(range(20))
