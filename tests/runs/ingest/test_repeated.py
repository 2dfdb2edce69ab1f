from __future__ import annotations

import json

import msgspec
import pytest

from guardops.guard import events
from runs.ingest.decode import Arrival

from .wire import MAKERS, decode_all, encode, make_event, make_heartbeat


def arrive(event: bytes) -> Arrival:
    arrivals, decoded = decode_all(b"[" + event + b"]")
    assert not decoded.rejected
    return arrivals[0]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("form", [None, (",", ":"), (" , ", " : ")], ids=["plain", "tight", "wide"])
def test_event_with_each_key_once_is_not_flagged(kind: str, form: tuple[str, str] | None) -> None:
    event = MAKERS[kind](colour="red", other={"type": "x", "steps": [{"a": 1}, {"a": 2}]})
    assert not arrive(json.dumps(event, separators=form).encode()).sanitized


@pytest.mark.parametrize("kind", MAKERS)
def test_key_twice_is_flagged_whatever_the_type(kind: str) -> None:
    event = json.dumps(MAKERS[kind](agent="a")).encode()
    assert arrive(event.replace(b'"agent": "a"', b'"agent": "a", "agent": "b"')).sanitized


@pytest.mark.parametrize(
    "twice",
    [
        b'"steps":1,"steps":2',
        b'"steps":1,"steps":1',
        b'"steps":1,"st\\u0065ps":2',
        b'"steps" :1,"steps" :2',
        b'"unknown":{"a":1,"a":2},"steps":2',
        b'"limits":{"a":1,"b":[{"c":1,"c":2}]},"steps":2',
        b'"steps":1,"steps":2,"agent":"\\u0022:"',
        b'"steps":1,"steps":2,"agent":"\\":"',
        b'"steps":1,"steps":2,"unknown":99999999999999999999999',
        b'"policy":{"mode":"off"},"policy":{"mode":"off"},"steps":2',
    ],
)
def test_key_twice_is_flagged_at_every_level_and_in_every_spelling(twice: bytes) -> None:
    event = msgspec.json.encode(make_event(mark=7)).replace(b'"mark":7', twice)
    arrival = arrive(event)
    assert arrival.sanitized
    assert isinstance(arrival.event, events.RunEnded)
    assert arrival.event.steps in (1, 2)


def test_last_of_keys_that_come_twice_counts() -> None:
    body = encode(make_heartbeat(steps=1)).replace(b'"steps": 1', b'"steps": 1, "steps": 2')
    event = decode_all(body)[0][0].event
    assert isinstance(event, events.RunHeartbeat)
    assert event.steps == 2


def test_event_as_a_guard_encodes_it_is_not_flagged() -> None:
    event = decode_all(encode(make_event()))[0][0].event
    assert isinstance(event, events.RunEnded)
    assert not arrive(msgspec.json.encode(event)).sanitized
