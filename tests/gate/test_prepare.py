"""Bodies that no well-meaning sender makes: what becomes of the good events in them, and what they cost."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime

import pytest

from guardops.gate.events import Prepared, prepare
from guardops.tenants.keys import KeyHolder
from runs.ingest.decode import BadBody
from runs.ingest.rows import Receipt
from tests.runs.ingest.wire import encode, make_event

HOLDER = KeyHolder(key_id=1, organisation_id=1, tenants={"acme": 1}, scopes=frozenset({"events:write"}))


def prepared(body: bytes) -> Prepared:
    return prepare(body, HOLDER, Receipt(datetime.now(UTC)))


@pytest.mark.parametrize("form", ["[{good}, {bad}]", '{{"events": [{good}, {bad}]}}'])
@pytest.mark.parametrize(
    ("value", "code"),
    [("NaN", "not_json"), ("-Infinity", "not_json"), ("[" * 5_000 + "]" * 5_000, "too_deep")],
    ids=["nan", "infinity", "deep"],
)
def test_value_that_no_decoder_takes_is_refused_for_its_event(form: str, value: str, code: str) -> None:
    event = json.dumps(make_event())
    found = prepared(form.format(good=event, bad=event.replace('"0.042"', value)).encode())
    assert (found.total, len(found.rows)) == (2, 1)
    assert [(result.index, result.code) for result in found.rejected] == [(1, code)]


def test_first_line_that_is_broken_leaves_the_others() -> None:
    found = prepared(b'd"}\n' + json.dumps(make_event()).encode())
    assert [(result.index, result.code) for result in found.rejected] == [(0, "not_json")]
    assert len(found.rows) == 1


@pytest.mark.parametrize(
    "body",
    [b"[" + b"0," * 500_000 + b"0]", b'{"events": [' + b"0," * 500_000 + b"0]}", b"{}\n" * 500_000],
    ids=["array", "object", "lines"],
)
def test_body_of_very_many_events_takes_no_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadBody) as error:
            prepared(body)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()
    assert error.value.code == "too_many_events"


def test_event_of_very_many_values_leaves_the_others() -> None:
    found = prepared(encode(make_event(), make_event(unknown=[0] * 300_000)))
    assert [(result.index, result.code) for result in found.rejected] == [(1, "too_large")]
    assert len(found.rows) == 1


def test_strings_without_an_end_are_looked_at_once() -> None:
    # Looked at from each of its quotes this would take hours.
    with pytest.raises(BadBody):
        prepared(b"[" * 5_000 + b'\\"' * 500_000)
