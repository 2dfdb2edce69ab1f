"""Whatever is sent, the answer is a reply or a problem below 500, and every stored run can be read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient

from guardops.guard.events import RunEnded
from guardops.tenants.models import Tenant
from runs.models import Run

from .conftest import now_event

Gate = TestClient[Any]
URL = "/api/v1/events"
FUZZ = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

HOSTILE = [
    b"\0",
    b"\xed\xa0\x80",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e5000",
    b"-1e5000",
    b"1e400",
    b"9" * 5_000,
    b"-0",
    b"0.1",
    b"1E-400",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    rb'"\u0000"',
    rb'"\ud800"',
    rb'"\udfff\ud800"',
    rb'"\ud83d\ude00"',
    rb'"\u202e"',
    rb'"\uffff"',
    b'"20000-01-01T00:00:00Z"',
    b'"0001-01-01T00:00:00Z"',
    b'"9999-12-31T23:59:59.999999Z"',
    b'"NaN"',
    b'"1e5000"',
    b'"-Infinity"',
    b'"%s%n"',
    b'"' + b"x" * 300_000 + b'"',
    b"[" * 5_000 + b"]" * 5_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"a":1,"a":2}',
    b'[{"kind":"tool","name":"a"}]',
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FIELDS = list(RunEnded.__struct_fields__)


def send(gate: Gate, key: dict[str, str], content: bytes, **headers: str) -> Any:
    response = gate.post(URL, content=content, headers=key | headers)
    assert response.status_code < 500, response.text
    if response.status_code != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["code"]
    return response


def read_all(tenant: Tenant) -> None:
    for run in Run.objects.filter(tenant_id=tenant.pk):
        json.dumps(run.detail).encode()
        assert 1970 <= run.at.year < 2200


def test_hostile_value_is_refused_for_its_event_or_stored(
    gate: Gate, tenant: Tenant, key: dict[str, str]
) -> None:
    for field in [*FIELDS, "unknown"]:
        lines = [
            json.dumps(now_event()).encode().removesuffix(b"}") + b',"%s":%s}' % (field.encode(), value)
            for value in HOSTILE
        ]
        last = json.dumps(now_event(agent=f"after {field}")).encode()
        reply = send(gate, key, b"\n".join([*lines, last])).json()
        rejected = [result["index"] for result in reply["results"] if result["status"] == "rejected"]
        assert len(HOSTILE) not in rejected, field
        assert reply["accepted"] == len(HOSTILE) + 1 - len(rejected), field
    read_all(tenant)


@FUZZ
@given(content=st.binary(max_size=200))
@example(content=b"[" * 100_000)
@example(content=b'{"a":' * 100_000)
@example(content=b'[{"type":"run.ended"' + b',"a":1' * 3_000 + b"}]")
def test_any_bytes_are_answered(gate: Gate, key: dict[str, str], content: bytes) -> None:
    send(gate, key, content)
    send(gate, key, content, **{"Content-Encoding": "gzip"})


@FUZZ
@given(content=json_values.map(lambda value: json.dumps(value).encode()))
def test_any_json_is_answered(gate: Gate, key: dict[str, str], content: bytes) -> None:
    send(gate, key, content)


@FUZZ
@given(changes=st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4))
def test_any_value_in_any_field_is_answered(
    gate: Gate, tenant: Tenant, key: dict[str, str], changes: dict[str, Any]
) -> None:
    send(gate, key, json.dumps([now_event(), {**now_event(), **changes}]).encode())
    read_all(tenant)


@FUZZ
@given(text=st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_text_in_a_text_field_is_stored(
    gate: Gate, tenant: Tenant, key: dict[str, str], text: str
) -> None:
    response = send(gate, key, json.dumps([now_event(agent=text, attributes={"a": text})]).encode())
    assert response.json()["accepted"] == 1
    read_all(tenant)
