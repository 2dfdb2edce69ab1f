from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from guardops.guard.delivery import Delivery
from guardops.guard.events import MAX_EVENT_BYTES, Outcome, RunEnded, RunHeartbeat, RunStarted, WorkRefused
from guardops.guard.reporter import Pace, Reporter
from guardops.guard.spool import Spool
from tests.local.waiting import until

from .gate import Gate, takes

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NEVER = 1e9


class Run:
    """An open run that counts how often it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0

    def heartbeat(self) -> RunHeartbeat:
        self.asked += 1
        return RunHeartbeat(external_id=self.name, seq=self.asked, steps=self.asked)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def reporter(gate: Gate, spool: Spool, clock: Clock) -> Iterator[Reporter]:
    """A reporter without a thread, whose ticks the test calls, and whose back-off is the longest."""
    delivery = Delivery("http://gate.example", "k", transport=gate.transport, now=lambda: AT)
    reporter = Reporter(spool, delivery, clock=clock, jitter=lambda: 1.0, threaded=False)
    yield reporter
    reporter.close(0)


def ended(name: str, **fields: Any) -> RunEnded:
    return RunEnded(
        job_type="t", outcome=Outcome.COMPLETED, started_at=AT, ended_at=AT, external_id=name, **fields
    )


def started(name: str) -> RunStarted:
    return RunStarted(job_type="t", started_at=AT, external_id=name)


def told(gate: Gate) -> list[str]:
    return [f"{event['type'].removeprefix('run.')} {event['external_id']}" for event in gate.taken]


def test_the_start_is_told_before_the_end(reporter: Reporter, gate: Gate) -> None:
    reporter.ended(ended("b"), "b")
    reporter.started(started("a"), "a", Run("a"))
    reporter.tick()
    assert told(gate) == ["started a", "ended b"]


def test_an_event_is_on_disk_before_anything_is_sent(reporter: Reporter, spool: Spool, gate: Gate) -> None:
    reporter.ended(ended("a"), "a")
    assert gate.requests == []
    [path] = spool.folder.glob("*.events")
    assert b'"external_id":"a"' in path.read_bytes()


def test_what_was_sent_is_not_sent_again(reporter: Reporter, gate: Gate) -> None:
    reporter.ended(ended("a"), "a")
    reporter.tick()
    reporter.tick()
    assert told(gate) == ["ended a"]


def test_back_off_doubles_up_to_a_minute_and_ends_with_the_first_success(
    reporter: Reporter, gate: Gate, clock: Clock
) -> None:
    gate.says(503)
    reporter.ended(ended("a"), "a")
    asked_at = []
    for _ in range(3_000):
        before = len(gate.requests)
        reporter.tick()
        if len(gate.requests) > before:
            asked_at.append(clock.now - 1_000)
        clock.now += 0.1
    assert [round(moment) for moment in asked_at] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    gate.__init__()  # type: ignore[misc]
    clock.now += 60
    reporter.tick()
    assert told(gate) == ["ended a"]
    gate.says(503)
    reporter.ended(ended("b"), "b")
    reporter.tick()
    clock.now += 1.0
    reporter.tick()
    assert len(gate.requests) == 3


def test_retry_after_is_waited_for(reporter: Reporter, gate: Gate, clock: Clock) -> None:
    gate.says(503, **{"Retry-After": "20"})
    reporter.ended(ended("a"), "a")
    for seconds, requests in ((0, 1), (19.9, 1), (21.1, 2)):
        clock.now = 1_000 + seconds
        reporter.tick()
        assert len(gate.requests) == requests


def test_a_refused_key_is_asked_with_every_five_minutes(reporter: Reporter, gate: Gate, clock: Clock) -> None:
    gate.says(401)
    reporter.ended(ended("a"), "a")
    for seconds, requests in ((0, 1), (299, 1), (302, 2)):
        clock.now = 1_000 + seconds
        reporter.tick()
        assert len(gate.requests) == requests
    gate.answer = Gate().answer
    clock.now += 302
    reporter.tick()
    assert told(gate) == ["ended a"]


def test_open_runs_tell_how_far_they_are_every_thirty_seconds(
    reporter: Reporter, gate: Gate, clock: Clock
) -> None:
    run = Run("a")
    reporter.started(started("a"), "a", run)
    for _ in range(61):
        reporter.tick()
        clock.now += 1
    assert told(gate) == ["started a", "heartbeat a", "heartbeat a"]
    reporter.ended(ended("a"), "a")
    clock.now += 60
    reporter.tick()
    assert told(gate)[-1] == "ended a"
    assert run.asked == 2


def test_while_offline_only_the_newest_heartbeat_of_a_run_is_kept(
    reporter: Reporter, gate: Gate, clock: Clock
) -> None:
    runs = [Run("a"), Run("b")]
    gate.says(503)
    for run in runs:
        reporter.started(started(run.name), run.name, run)
    for _ in range(5):
        clock.now += 30
        reporter.tick()
    reporter.ended(ended("b"), "b")
    gate.answer = Gate().answer
    clock.now += 61
    reporter.tick()
    assert told(gate) == ["started a", "started b", "ended b", "heartbeat a"]
    assert gate.taken[-1]["seq"] == runs[0].asked


def test_a_run_that_was_forgotten_is_not_asked(reporter: Reporter, gate: Gate, clock: Clock) -> None:
    reporter.started(started("a"), "a", Run("a"))
    clock.now += 30
    reporter.tick()
    assert told(gate) == ["started a"]


def test_a_run_that_cannot_be_asked_stops_nothing(reporter: Reporter, gate: Gate, clock: Clock) -> None:
    class Broken(Run):
        def heartbeat(self) -> RunHeartbeat:
            raise RuntimeError("broken")

    runs = [Broken("a"), Run("b")]
    for run in runs:
        reporter.started(started(run.name), run.name, run)
    clock.now += 30
    reporter.tick()
    assert told(gate) == ["started a", "started b", "heartbeat b"]


def test_refused_work_is_told(reporter: Reporter, gate: Gate) -> None:
    reporter.refused(WorkRefused(reason="deadline", refusal_id=UUID(int=1)))
    reporter.tick()
    assert [event["type"] for event in gate.taken] == ["work.refused"]


def test_secrets_are_hidden_before_they_are_written(reporter: Reporter, spool: Spool, gate: Gate) -> None:
    reporter.ended(ended("a", attributes={"note": "Bearer abcdefghijk"}), "a")
    assert all(b"abcdefghijk" not in path.read_bytes() for path in spool.folder.iterdir())
    reporter.tick()
    assert gate.taken[0]["attributes"] == {"note": "***"}


def test_what_was_dropped_is_told_with_the_next_run(tmp_path: Path, gate: Gate, clock: Clock) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=4_000)
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(spool, delivery, clock=clock, threaded=False)
    for number in range(40):
        reporter.ended(ended(f"{number}"), f"{number}")
    while reporter.tick() == 0:
        pass
    delivered = len(gate.taken)
    for name in ("last", "later"):
        reporter.ended(ended(name), name)
        reporter.tick()
    assert gate.taken[-2]["attributes"] == {"spool_dropped": f"{40 - delivered} ended"}
    assert "attributes" not in gate.taken[-1]
    reporter.close(0)


def test_an_event_that_is_too_large_loses_its_lists_and_says_so(reporter: Reporter, gate: Gate) -> None:
    reporter.ended(ended("a", halt_detail={"text": "word " * MAX_EVENT_BYTES}), "a")
    reporter.tick()
    assert gate.taken[0]["truncated"] == [
        "attributes",
        "halt_detail",
        "interventions",
        "last_steps",
        "ledger",
    ]


def test_an_event_that_cannot_be_written_stops_nothing(reporter: Reporter, gate: Gate) -> None:
    reporter.ended(ended("a", halt_detail={"what": object()}), "a")
    reporter.ended(ended("b", attributes={"half": "\ud800"}), "b")
    reporter.ended(ended("c"), "c")
    reporter.tick()
    assert "ended c" in told(gate)


def test_many_events_are_sent_in_requests_of_at_most_a_thousand(reporter: Reporter, gate: Gate) -> None:
    for number in range(2_500):
        reporter.ended(ended(f"{number}"), f"{number}")
    while reporter.tick() == 0:
        pass
    assert len(gate.taken) == 2_500
    assert max(map(len, gate.requests)) <= 1_000
    assert len(gate.requests) <= 4


def test_the_thread_sends_at_once_and_the_rest_at_the_end(spool: Spool, gate: Gate) -> None:
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(spool, delivery, pace=Pace(heartbeat=NEVER, adopt=NEVER))
    reporter.ended(ended("a"), "a")
    until(lambda: told(gate) == ["ended a"])
    reporter.ended(ended("b"), "b")
    assert reporter.close(5)
    assert told(gate) == ["ended a", "ended b"]
    assert list(spool.folder.iterdir()) == []


def test_close_waits_no_longer_than_told_and_leaves_the_rest_in_the_spool(spool: Spool) -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        time.sleep(1.0)
        raise httpx.ReadTimeout("slow", request=request)

    delivery = Delivery("http://gate.example", "k", transport=httpx.MockTransport(hang))
    reporter = Reporter(spool, delivery, pace=Pace(heartbeat=NEVER, adopt=NEVER))
    reporter.ended(ended("a"), "a")
    began = time.monotonic()
    assert not reporter.close(0.1)
    assert time.monotonic() - began < 0.9
    heir = Spool(spool.folder)
    assert heir.adopt() == 1
    heir.close()


def test_close_asks_a_gate_that_was_away_again_for_as_long_as_told(spool: Spool, gate: Gate) -> None:
    gate.says(503)
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(spool, delivery, pace=Pace(first_wait=0.02, longest_wait=0.02))
    reporter.ended(ended("a"), "a")
    until(lambda: gate.requests)

    def comes_back(events: list[dict[str, Any]]) -> httpx.Response:
        return takes(events) if len(gate.requests) > 4 else httpx.Response(503)

    gate.answer = comes_back
    assert reporter.close(30)
    assert told(gate) == ["ended a"]


def test_the_end_of_a_process_does_not_wait_for_a_gate_that_is_away(spool: Spool, gate: Gate) -> None:
    gate.says(503)
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(spool, delivery, pace=Pace(first_wait=0.01, longest_wait=0.01, at_exit=30))
    reporter.ended(ended("a"), "a")
    began = time.monotonic()
    assert not reporter.close()
    assert time.monotonic() - began < 10


def test_a_process_that_reported_nothing_sends_what_others_left(spool: Spool, gate: Gate) -> None:
    before = Spool(spool.folder)
    before.append(1, msgspec.json.encode(ended("before")))
    before.close()
    assert Reporter(spool, Delivery("http://gate.example", "k", transport=gate.transport)).close(30)
    assert told(gate) == ["ended before"]


def test_what_a_process_before_left_is_sent(spool: Spool, reporter: Reporter, gate: Gate) -> None:
    before = Spool(spool.folder)
    before.append(1, msgspec.json.encode(ended("before")))
    before.close()
    reporter.tick()
    assert told(gate) == ["ended before"]
