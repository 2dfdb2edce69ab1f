from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from guardops.guard.delivery import DENIED_SECONDS, Delivery, NotNow

from .gate import Gate, takes

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def delivery(gate: Gate) -> Delivery:
    return Delivery("http://gate.example/", "go_key", transport=gate.transport, now=lambda: AT)


def records(*ids: str) -> list[bytes]:
    return [msgspec.json.encode({"type": "run.ended", "external_id": name}) for name in ids]


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["external_id"] for event in events]


def test_a_batch_is_one_request_with_the_key(gate: Gate, delivery: Delivery) -> None:
    delivery.deliver(records("a", "b"))
    assert [ids(events) for events in gate.requests] == [["a", "b"]]
    assert gate.headers["Authorization"] == "Bearer go_key"
    assert gate.headers["Content-Encoding"] == "gzip"


def test_what_the_gate_has_already_counts_as_delivered(gate: Gate, delivery: Delivery) -> None:
    gate.answer = lambda events: takes(events, {"index": 0, "status": "duplicate"})
    delivery.deliver(records("a"))


@pytest.mark.parametrize("status", ["rejected", "conflict"])
def test_what_the_gate_refuses_for_good_is_named_in_the_log(
    gate: Gate, delivery: Delivery, caplog: pytest.LogCaptureFixture, status: str
) -> None:
    refusal = {"index": 1, "status": status, "code": "invalid", "field": "cost"}
    gate.answer = lambda events: takes(events, refusal)
    delivery.deliver(records("a", "b", "c"))
    assert len(gate.requests) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"The gate refused run.ended b: {status} invalid in cost."
    ]


@pytest.mark.parametrize("status", [413, 422])
def test_a_refused_request_is_split_until_only_the_refused_events_are_lost(
    gate: Gate, delivery: Delivery, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    def answer(events: list[dict[str, Any]]) -> httpx.Response:
        return httpx.Response(status, json={}) if "bad" in ids(events) else takes(events)

    gate.answer = answer
    delivery.deliver(records("a", "b", "bad", "c", "d"))
    assert ids(gate.taken) == ["a", "b", "c", "d"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "run.ended bad" in caplog.text


def test_a_request_of_which_every_event_was_refused_is_not_split(gate: Gate, delivery: Delivery) -> None:
    results = [{"index": index, "status": "rejected", "code": "invalid"} for index in range(3)]
    gate.answer = lambda events: httpx.Response(422, json={"results": results})
    delivery.deliver(records("a", "b", "c"))
    assert len(gate.requests) == 1


@pytest.mark.parametrize("status", [302, 400, 404, 408, 429, 500, 502, 503])
def test_any_other_answer_is_no_delivery(gate: Gate, delivery: Delivery, status: int) -> None:
    gate.says(status)
    with pytest.raises(NotNow) as caught:
        delivery.deliver(records("a"))
    assert caught.value.wait is None


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_waits_long(gate: Gate, delivery: Delivery, status: int) -> None:
    gate.says(status)
    with pytest.raises(NotNow) as caught:
        delivery.deliver(records("a"))
    assert caught.value.wait == DENIED_SECONDS


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("7", 7.0), ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0), ("soon", None), ("9e9", 3600.0)],
)
def test_retry_after_is_honoured(gate: Gate, delivery: Delivery, asked: str, seconds: float | None) -> None:
    gate.says(503, **{"Retry-After": asked})
    with pytest.raises(NotNow) as caught:
        delivery.deliver(records("a"))
    assert caught.value.wait == seconds


def test_an_answer_of_somebody_else_is_no_delivery(gate: Gate, delivery: Delivery) -> None:
    gate.answer = lambda events: httpx.Response(200, text="<html>Log in to the network</html>")
    with pytest.raises(NotNow):
        Delivery(
            "http://gate.example", "k", transport=httpx.MockTransport(lambda r: gate.answer([]))
        ).deliver(records("a"))


def test_a_gate_that_cannot_be_reached_is_no_delivery() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(NotNow):
        Delivery("http://gate.example", "k", transport=httpx.MockTransport(refuse)).deliver(records("a"))
