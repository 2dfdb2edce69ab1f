from __future__ import annotations

import json
from typing import Any

import pytest

from guardops.guard.events import MAX_EVENT_BYTES
from guardops.guard.replies import ResultStatus
from runs.ingest.decode import BadBody

from .wire import decode_all, encode, make_event


def nested(depth: int) -> dict[str, Any]:
    """Return objects within each other, ``depth`` of them."""
    found: dict[str, Any] = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


def only_rejection(body: bytes) -> tuple[str, str]:
    _, decoded = decode_all(body)
    assert len(decoded.rejected) == 1
    assert decoded.rejected[0].status is ResultStatus.REJECTED
    return decoded.rejected[0].code, decoded.rejected[0].field


def test_array_gives_its_events_in_order() -> None:
    events = [make_event(job_type=name) for name in ("a", "b", "c")]
    arrivals, _ = decode_all(encode(*events))
    assert [(found.index, found.event.job_type) for found in arrivals] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]


def test_object_gives_the_events_it_holds() -> None:
    assert decode_all(json.dumps({"events": [make_event()]}).encode())[1].total == 1


def test_lines_give_an_event_each() -> None:
    lines = b"\r\n".join(json.dumps(make_event(job_type=name)).encode() for name in "ab") + b"\n\n"
    assert [found.event.job_type for found in decode_all(lines)[0]] == ["a", "b"]


def test_single_object_is_an_event() -> None:
    assert decode_all(json.dumps(make_event()).encode())[0][0].event.job_type == "research"


def test_single_object_over_several_lines_is_an_event() -> None:
    assert len(decode_all(json.dumps(make_event(), indent=1).encode())[0]) == 1


def test_byte_order_mark_is_skipped() -> None:
    assert decode_all(b"\xef\xbb\xbf" + encode(make_event()))[1].total == 1


def test_empty_array_holds_nothing() -> None:
    assert decode_all(b"[]")[1].total == 0


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"x", b"5", b'""', b"{", b"[", b"[1,2", b"[" * 100_000, b'{"a":1}{', b"\xff\xfe[]", b"[NaN]"],
)
def test_body_that_is_no_json_is_refused_whole(body: bytes) -> None:
    with pytest.raises(BadBody) as error:
        decode_all(body)
    assert error.value.code == "not_json"


def test_events_that_are_no_array_are_refused_whole() -> None:
    with pytest.raises(BadBody) as error:
        decode_all(b'{"events": 5}')
    assert error.value.code == "not_events"


def test_more_than_a_thousand_events_are_refused_whole() -> None:
    with pytest.raises(BadBody) as error:
        decode_all(b"[" + b",".join([b"{}"] * 1_001) + b"]")
    assert error.value.code == "too_many_events"
    assert decode_all(b"[" + b",".join([b"{}"] * 1_000) + b"]")[1].total == 1_000


def test_broken_line_is_rejected_and_the_others_taken() -> None:
    good = json.dumps(make_event()).encode()
    arrivals, decoded = decode_all(b"\n".join([good, b"{broken", good]))
    assert [found.index for found in arrivals] == [0, 2]
    assert [(result.index, result.code) for result in decoded.rejected] == [(1, "not_json")]


@pytest.mark.parametrize(
    ("overrides", "code", "field"),
    [
        ({"type": None}, "missing_field", "type"),
        ({"type": "run.paused"}, "unknown_type", "type"),
        ({"type": 5}, "unknown_type", "type"),
        ({"type": ["run.ended"]}, "unknown_type", "type"),
        ({"job_type": None}, "missing_field", "job_type"),
        ({"job_type": ""}, "out_of_range", "job_type"),
        ({"job_type": "x" * 129}, "out_of_range", "job_type"),
        ({"steps": -1}, "out_of_range", "steps"),
        ({"steps": 10**9 + 1}, "out_of_range", "steps"),
        ({"steps": 10**40}, "out_of_range", "steps"),
        ({"steps": "five"}, "invalid", "steps"),
        ({"steps": 1.5}, "invalid", "steps"),
        ({"outcome": "fine"}, "invalid", "outcome"),
        ({"run_id": "not-a-uuid"}, "invalid", "run_id"),
        ({"started_at": "20000-01-01T00:00:00Z"}, "invalid", "started_at"),
        ({"started_at": "yesterday"}, "invalid", "started_at"),
        ({"tokens": {"input": -1}}, "out_of_range", "tokens.input"),
        ({"peaks": {"stall": 40_000}}, "out_of_range", "peaks.stall"),
        ({"sources": [{"kind": "planet", "name": "x"}]}, "invalid", "sources[0].kind"),
        ({"sources": [{"kind": "tool", "name": "x"}] * 21}, "out_of_range", "sources"),
        ({"last_steps": [{"step": 1}]}, "missing_field", "last_steps[0].tool"),
        ({"attributes": {str(n): "x" for n in range(21)}}, "out_of_range", "attributes"),
        ({"unknown": nested(32)}, "too_deep", ""),
        ({"unknown": {str(n): 0 for n in range(1_001)}}, "too_many_keys", ""),
        ({"unknown": "x" * MAX_EVENT_BYTES}, "too_large", ""),
    ],
)
def test_event_that_breaks_a_rule_is_rejected_with_its_field(
    overrides: dict[str, Any], code: str, field: str
) -> None:
    assert only_rejection(encode(make_event(**overrides), make_event())) == (code, field)


def test_event_with_as_much_as_is_allowed_is_taken() -> None:
    deep = make_event(unknown=nested(31))
    wide = make_event(unknown={str(n): 0 for n in range(1_000 - 8)})
    large = make_event(attributes={"a": "x"}, unknown="")
    large["unknown"] = "x" * (MAX_EVENT_BYTES - len(json.dumps(large)))
    assert len(decode_all(encode(deep, wide, large))[0]) == 3


@pytest.mark.parametrize("element", [5, "text", None, [], True])
def test_element_that_is_no_object_is_rejected(element: Any) -> None:
    assert only_rejection(encode(element, make_event())) == ("not_object", "")


def test_nesting_too_deep_for_any_decoder_is_rejected_alone() -> None:
    deep = b'{"type":"run.ended","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    body = (
        b"["
        + json.dumps(make_event()).encode()
        + b" , "
        + deep
        + b","
        + json.dumps(make_event()).encode()
        + b"]"
    )
    arrivals, decoded = decode_all(body)
    assert [found.index for found in arrivals] == [0, 2]
    assert [(result.index, result.code) for result in decoded.rejected] == [(1, "too_deep")]


def test_unknown_fields_are_counted_at_every_level() -> None:
    event = make_event(
        colour="red", policy={"mode": "shadow", "mood": 1}, sources=[{"kind": "tool", "name": "a", "x": 1}]
    )
    arrivals, decoded = decode_all(encode(event, make_event()))
    assert decoded.unknown_fields == 3
    assert arrivals[0].event.policy.mode == "shadow"


def test_unknown_number_beyond_a_machine_word_is_ignored() -> None:
    body = encode(make_event(big=1)).replace(b'"big": 1', b'"big": ' + b"9" * 5_000)
    assert decode_all(body)[1].unknown_fields == 1


def test_last_of_duplicate_keys_counts() -> None:
    body = encode(make_event(steps=1)).replace(b'"steps": 1', b'"steps": 1, "steps": 2')
    assert decode_all(body)[0][0].event.steps == 2


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (rb"a\u0000b", "a\ufffdb"),
        (rb"a\ud800b", "a\ufffdb"),
        (rb"a\uDFFFb", "a\ufffdb"),
        (rb"\ud83d\u0000", "\ufffd\ufffd"),
        (rb"\ud800\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
def test_nul_or_lone_surrogate_is_cleaned_and_flagged(sent: bytes, kept: str) -> None:
    body = encode(make_event(agent="AGENT"), make_event()).replace(b"AGENT", sent)
    first, second = decode_all(body)[0]
    assert (first.event.agent, first.sanitized) == (kept, True)
    assert not second.sanitized


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(rb"\ud83d\ude00", "\U0001f600"), (rb"\\u0000", r"\u0000"), (rb"\u00e9\u0001", "\xe9\x01")],
)
def test_escape_that_can_be_stored_stays(sent: bytes, kept: str) -> None:
    arrival = decode_all(encode(make_event(agent="AGENT")).replace(b"AGENT", sent))[0][0]
    assert (arrival.event.agent, arrival.sanitized) == (kept, False)


def test_nul_in_a_key_is_cleaned() -> None:
    arrival = decode_all(encode(make_event(attributes={"a\0b": "c"})))[0][0]
    assert arrival.event.attributes == {"a\ufffdb": "c"}


def test_bytes_that_are_no_utf8_are_rejected() -> None:
    assert (
        only_rejection(encode(make_event(agent="AGENT"), make_event()).replace(b"AGENT", b"\xff"))[0]
        == "not_json"
    )
