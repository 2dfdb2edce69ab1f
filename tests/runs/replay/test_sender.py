from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from guardops.guard.events import MAX_BODY_BYTES, MAX_EVENTS, Outcome, RunEnded
from runs.replay.sender import Sender, SendFailed, Tally, retry_after

from .little_gate import LittleGate, Reply, little_gate, problem, reply

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


def event(number: int, **fields: object) -> RunEnded:
    return RunEnded(
        run_id=UUID(int=number),
        job_type="search",
        outcome=Outcome.COMPLETED,
        started_at=NOW,
        ended_at=NOW,
        **fields,
    )


def send(gate: LittleGate, *events: RunEnded, waits: list[float] | None = None, attempts: int = 4) -> Tally:
    waited = [] if waits is None else waits
    with Sender(gate.url, "go_key", sleep=waited.append, jitter=lambda: 1.0, attempts=attempts) as sender:
        return sender.send(events)


def test_events_travel_zipped_with_the_key_to_the_events_path() -> None:
    with little_gate() as gate:
        tally = send(gate, event(1), event(2))

    assert (tally.accepted, tally.duplicates, tally.requests, tally.complete) == (2, 0, 1, True)
    assert [sent["type"] for sent in gate.requests[0]] == ["run.ended", "run.ended"]
    assert gate.headers[0]["authorization"] == "Bearer go_key"
    assert gate.headers[0]["content-encoding"] == "gzip"
    assert gate.headers[0]["path"] == "/api/v1/events"


def test_a_second_send_of_the_same_events_counts_as_duplicates() -> None:
    with little_gate() as gate:
        send(gate, event(1), event(2))
        tally = send(gate, event(1), event(2), event(3))

    assert (tally.accepted, tally.duplicates, tally.complete) == (1, 2, True)


def test_a_batch_holds_at_most_a_thousand_events() -> None:
    with little_gate() as gate:
        tally = send(gate, *(event(number) for number in range(MAX_EVENTS + 1)))

    assert [len(request) for request in gate.requests] == [MAX_EVENTS, 1]
    assert tally.accepted == MAX_EVENTS + 1


def test_a_batch_stays_under_the_cap_of_a_body() -> None:
    heavy = {f"key-{number}": "x" * 250 for number in range(20)}
    with little_gate() as gate:
        send(
            gate,
            *(event(number, attributes=heavy, halt_detail={"why": "y" * 3_900}) for number in range(999)),
        )

    assert len(gate.requests) == 2
    assert MAX_BODY_BYTES * 0.9 < gate.sizes[0] <= MAX_BODY_BYTES


def test_a_busy_gate_is_asked_again_after_the_time_it_names() -> None:
    waits: list[float] = []
    busy = Reply(503, problem(503, "busy"), {"Retry-After": "7"})
    with little_gate(busy, Reply(429, problem(429, "slow_down"), {"Retry-After": "900"})) as gate:
        tally = send(gate, event(1), waits=waits)

    assert waits == [7.0, 60.0]
    assert (tally.accepted, tally.retries) == (1, 2)
    assert gate.requests[0] == gate.requests[1] == gate.requests[2]


def test_without_a_named_time_waits_double() -> None:
    waits: list[float] = []
    with little_gate(*[Reply(503, problem(503, "busy"))] * 3) as gate:
        send(gate, event(1), waits=waits)

    assert waits == [0.5, 1.0, 2.0]


def test_a_gate_that_stays_busy_is_given_up_with_its_reason() -> None:
    with (
        little_gate(*[Reply(503, problem(503, "busy", "the database is away"))] * 4) as gate,
        pytest.raises(
            SendFailed, match=r"took nothing in 4 attempts; the last: HTTP 503 busy: the database is away"
        ),
    ):
        send(gate, event(1))


def test_a_gate_that_is_not_there_is_retried_and_given_up() -> None:
    with little_gate() as gate:
        pass
    waits: list[float] = []

    with pytest.raises(SendFailed, match="ConnectError"):
        send(gate, event(1), waits=waits)

    assert len(waits) == 3


def test_a_refused_key_is_not_retried() -> None:
    with (
        little_gate(Reply(401, problem(401, "unauthenticated", "no such key"))) as gate,
        pytest.raises(SendFailed, match="HTTP 401 unauthenticated: no such key"),
    ):
        send(gate, event(1))

    assert len(gate.requests) == 1


def test_a_rejected_event_is_counted_and_its_reason_kept() -> None:
    results = [
        {"index": 1, "status": "rejected", "code": "out_of_range", "field": "cost", "message": "too high"}
    ]
    with little_gate(Reply(body=reply(accepted=1, results=results))) as gate:
        tally = send(gate, event(1), event(2))

    assert (tally.accepted, tally.rejected, tally.complete) == (1, 1, False)
    assert tally.complaints == [f"{UUID(int=2)}: rejected out_of_range in cost too high"]


def test_a_request_whose_events_are_all_rejected_counts_each() -> None:
    results = [{"index": 0, "status": "rejected", "code": "invalid"}]
    with little_gate(Reply(422, problem(422, "all_rejected", results=results))) as gate:
        tally = send(gate, event(1))

    assert (tally.accepted, tally.rejected) == (0, 1)


def test_a_conflict_is_no_success() -> None:
    results = [{"index": 0, "status": "conflict"}]
    with little_gate(Reply(body=reply(results=results))) as gate:
        tally = send(gate, event(1))

    assert (tally.conflicts, tally.complete) == (1, False)


def test_an_answer_that_no_gate_gives_is_an_error() -> None:
    with (
        little_gate(Reply(body={"hello": "there"})) as gate,
        pytest.raises(SendFailed, match="none that a gate gives"),
    ):
        send(gate, event(1))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        ("Mon, 30 Nov 2026 10:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 09:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
