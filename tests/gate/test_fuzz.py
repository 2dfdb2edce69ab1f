"""Whatever is sent, the answer is a reply or a problem below 500, and every stored row can be read."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, get_args

import pytest
import schemathesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient
from schemathesis import GenerationMode
from schemathesis.schemas import APIOperation

from guardops.gate.openapi import document, vectors
from guardops.guard.wire import Event
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from policies.models import GuardInstance
from policies.pull.fleet import write_signs
from runs.models import LiveRun, RefusedWork, Run
from tests.factories import make_tenant
from tests.runs.ingest.wire import MAKERS

from .conftest import bearer, now_event

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

HOSTILE_TEXTS = ["a\0b", "a\ud800b", "\u202e", "x" * 5_000, "", "NaN", "1e5000", "20000-01-01T00:00:00Z"]
HOSTILE_NUMBERS = [-1, 0, 2**31, 2**63, 2**64, 10**400, 1e308, 5e-324, -0.0, float("inf"), float("nan")]

PULL_HEADERS = ("If-None-Match", "GuardOps-Guard", "GuardOps-Applied", "GuardOps-Reject", "GuardOps-Tenant")
HOSTILE_HEADERS = [
    b"\0",
    b"\xff\xfe",
    "§ü漢".encode(),
    b"*",
    b'"',
    b'""',
    b'W/"a.1.0123456789abcdef"',
    b'"a.99999999999999999999.0123456789abcdef", "b.1.0"',
    b"9" * 16 + b":0123456789abcdef;src=server;age=" + b"9" * 32,
    b"9" * 400 + b":0123456789abcdef;wrong_hash",
    b"1:0123456789abcdef;src=\0;age=\xb2",
    "1:0123456789abcdef;src=server;age=٣".encode(),
    b"1:0123456789abcdef;age=1;age=2;age=3;age=4",
    b"1:0123456789ABCDEF;wrong hash",
    b"0198c0de-7a11-7000-8000-5eed006d77e1",
    b"{0198c0de-7a11-7000-8000-5eed006d77e1}",
    b"x" * 200_000,
]
WORDS = ("etag", "applied", "reject")
hostile_headers = st.sampled_from(HOSTILE_HEADERS) | st.binary(max_size=60)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FIELDS = {kind.__struct_config__.tag: [*kind.__struct_fields__, "unknown"] for kind in get_args(Event)}
OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in schemathesis.openapi.from_dict(document()).get_all_operations()
}


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
    for live in LiveRun.objects.filter(tenant_id=tenant.pk):
        json.dumps([live.detail, live.pressures, live.sources]).encode()
        assert 1970 <= live.started_at.year < 2200
    for work in RefusedWork.objects.filter(tenant_id=tenant.pk):
        json.dumps([work.detail, work.envelope]).encode()
        assert 1970 <= work.at.year < 2200


def test_hostile_value_is_refused_for_its_event_or_stored(
    gate: Gate, tenant: Tenant, key: dict[str, str]
) -> None:
    for kind, fields in FIELDS.items():
        for field in fields:
            lines = [
                json.dumps(MAKERS[kind]()).encode().removesuffix(b"}")
                + b',"%s":%s}' % (field.encode(), value)
                for value in HOSTILE
            ]
            last = json.dumps(now_event(agent=f"after {kind} {field}")).encode()
            reply = send(gate, key, b"\n".join([*lines, last])).json()
            rejected = [result["index"] for result in reply["results"] if result["status"] == "rejected"]
            assert len(HOSTILE) not in rejected, (kind, field)
            assert reply["accepted"] + len(rejected) + reply["duplicates"] == len(HOSTILE) + 1, (kind, field)
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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where in plain data there is something, from the outside in."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *places(item, (*path, key))]]


@st.composite
def mutants(draw: st.DrawFn) -> dict[str, Any]:
    """Return a full event of any type in which a few things are missing, doubled or something else."""
    event = deepcopy(draw(st.sampled_from([*vectors().values()])))
    event.pop("tenant")
    for _ in range(draw(st.integers(1, 4))):
        *path, last = draw(st.sampled_from(places(event)))
        parent = event
        for step in path:
            parent = parent[step]
        change = draw(st.sampled_from(["drop", "replace", "hostile", "swap", "repeat"]))
        if change == "drop":
            del parent[last]
        elif change == "replace":
            parent[last] = draw(json_values)
        elif change == "hostile":
            parent[last] = draw(st.sampled_from(HOSTILE_TEXTS) | st.sampled_from(HOSTILE_NUMBERS))
        elif change == "swap":
            parent[last] = deepcopy(event[draw(st.sampled_from(sorted(event)))])
        elif isinstance(parent[last], list):
            parent[last] = parent[last] * draw(st.sampled_from([2, 7, 60]))
        if not event:
            break
    return event


@FUZZ
@given(events=st.lists(mutants(), min_size=1, max_size=6))
def test_any_change_of_a_good_event_is_answered(
    gate: Gate, tenant: Tenant, key: dict[str, str], events: list[dict[str, Any]]
) -> None:
    reply = send(gate, key, json.dumps([*events, now_event()]).encode()).json()
    assert len(events) not in [result["index"] for result in reply["results"]]
    read_all(tenant)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "misfits"])
def test_whatever_the_document_tells_to_send_is_answered(gate: Gate, mode: GenerationMode) -> None:
    tenant = make_tenant()
    key = bearer(tenant, scopes=tuple(Scope))
    for operation in OPERATIONS.values():
        if mode is GenerationMode.POSITIVE or operation.method == "post" or operation.query:
            ask(gate, key, operation, mode)
    read_all(tenant)


def ask(gate: Gate, key: dict[str, str], operation: APIOperation, mode: GenerationMode) -> None:
    @FUZZ
    @given(case=operation.as_strategy(generation_mode=mode))
    def each(case: schemathesis.Case) -> None:
        request = case.as_transport_kwargs(base_url="http://testserver")
        names = ("Content-Type", "Content-Encoding", "GuardOps-Backfill", *PULL_HEADERS)
        sent = request["headers"]
        headers: dict[str, Any] = {
            name: sent[name].encode("utf-8", "replace") for name in names if name in sent
        }
        content = json.dumps(request["json"]).encode() if "json" in request else request.get("data") or b""
        response = gate.request(
            case.method,
            request["url"],
            params=request.get("params"),
            content=content,
            headers={**key, **headers},
        )
        assert response.status_code < 500, response.text

    each()


@FUZZ
@given(text=st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_text_in_a_text_field_is_stored(
    gate: Gate, tenant: Tenant, key: dict[str, str], text: str
) -> None:
    response = send(gate, key, json.dumps([now_event(agent=text, attributes={"a": text})]).encode())
    assert response.json()["accepted"] == 1
    read_all(tenant)


@FUZZ
@given(
    headers=st.dictionaries(
        st.sampled_from((*PULL_HEADERS, "Authorization", "User-Agent", "Accept-Encoding")), hostile_headers
    )
)
def test_any_headers_of_a_pull_are_answered(gate: Gate, tenant: Tenant, headers: dict[str, bytes]) -> None:
    key = bearer(tenant, scopes=(Scope.BUNDLE_READ,))
    response = gate.get("/api/v1/bundle", headers={**key, **headers})
    assert response.status_code in (200, 304, 400, 401, 403), response.text
    signs = gate.app.state.services.fleet.take()
    assert len(repr(signs)) < 4_000
    write_signs(signs)


def test_hostile_header_of_a_pull_is_ignored_or_refused(gate: Gate, tenant: Tenant) -> None:
    key = bearer(tenant, scopes=(Scope.BUNDLE_READ,))
    guard = {"GuardOps-Guard": b"0198c0de-7a11-7000-8000-5eed006d77e1"}
    for name in (*PULL_HEADERS, "User-Agent"):
        for value in HOSTILE_HEADERS:
            response = gate.get("/api/v1/bundle", headers={**key, **guard, name: value})
            expected = 403 if name == "GuardOps-Tenant" else 200
            assert response.status_code == expected, (name, value[:60], response.text)
            write_signs(gate.app.state.services.fleet.take())
    for seen in GuardInstance.objects.all():
        seen.full_clean()


@FUZZ
@given(
    asked=st.dictionaries(
        st.text(max_size=20), st.fixed_dictionaries({}, optional=dict.fromkeys(WORDS, st.text())), max_size=4
    )
)
def test_whatever_is_asked_of_several_tenants_is_answered(
    gate: Gate, tenant: Tenant, asked: dict[str, dict[str, str]]
) -> None:
    key = bearer(tenant, scopes=(Scope.BUNDLE_READ,))
    body = json.dumps({"tenants": {tenant.slug: {}} | asked}).encode()
    response = gate.post("/api/v1/bundles", content=body, headers=key)
    assert response.status_code in (200, 400), response.text
    write_signs(gate.app.state.services.fleet.take())
