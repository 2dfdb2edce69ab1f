"""Hostile events of each type: cleaned, flagged, or refused for themselves alone.

What is refused is judged before anything is stored; a good event beside it must be taken.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from litestar.testing import TestClient

from guardops.gate.events import prepare
from guardops.tenants.choices import Scope
from guardops.tenants.keys import KeyHolder
from guardops.tenants.models import Tenant
from runs.ingest.rows import Receipt
from runs.models import Checkpoint, LiveRun, RefusedWork, Run
from tests.factories import make_organisation, make_tenant
from tests.runs.ingest.wire import MAKERS

from .conftest import bearer

Gate = TestClient[Any]
Key = dict[str, str]
URL = "/api/v1/events"
KINDS = list(MAKERS)
TIMES = {
    "run.started": "started_at",
    "run.heartbeat": "at",
    "run.ended": "ended_at",
    "work.refused": "at",
    "checkpoint.opened": "opened_at",
}
TEXTS = {kind: "agent" for kind in KINDS if kind != "run.heartbeat"}
FREE = {
    "run.started": "limits",
    "run.ended": "limits",
    "work.refused": "detail",
    "checkpoint.opened": "limits",
}
HOLDER = KeyHolder(key_id=1, organisation_id=1, tenants={"acme": 1}, scopes=frozenset({"events:write"}))


def make(kind: str, **fields: Any) -> dict[str, Any]:
    return MAKERS[kind](**{TIMES[kind]: datetime.now(UTC)} | fields)


def encoded(kind: str, field: str, value: bytes) -> bytes:
    """Return an event with a field that is these bytes."""
    event = {name: value for name, value in make(kind).items() if name != field}
    return json.dumps(event).encode()[:-1] + b', "%s": %s}' % (field.encode(), value)


def with_text(kind: str, value: bytes) -> bytes:
    """Return an event with a text of these bytes: its agent, or a limit's name where it has none."""
    if kind in TEXTS:
        return encoded(kind, TEXTS[kind], b'"' + value + b'"')
    return encoded(kind, "pressure", b'{"' + value + b'": 0.5}')


def judge(kind: str, event: bytes | dict[str, Any]) -> list[tuple[str, str]]:
    """Return how an event before a good one is refused: code and field; nothing where it is taken."""
    raw = event if isinstance(event, bytes) else json.dumps(event).encode()
    body = b"[%s, %s]" % (raw, json.dumps(make(kind)).encode())
    found = prepare(body, HOLDER, Receipt(datetime.now(UTC)))
    assert len(found.rows) + len(found.rejected) == 2
    assert found.rows[-1].index == 1
    return [(result.code, result.field) for result in found.rejected]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_number_that_is_no_json_is_refused(kind: str, number: bytes) -> None:
    assert judge(kind, encoded(kind, "unknown", number)) == [("not_json", "")]


@pytest.mark.parametrize("kind", ["run.heartbeat", "run.ended"])
@pytest.mark.parametrize(
    "cost", ["NaN", "sNaN", "Infinity", "-0.000001", "100000000", "0.0000001", "1e5000", "1e-5000"]
)
def test_money_out_of_bounds_is_refused(kind: str, cost: str) -> None:
    assert judge(kind, make(kind, cost=cost)) == [("out_of_range", "cost")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [b"1e5000", b"-1e5000", b"9" * 5_000])
def test_number_beyond_any_machine_is_refused_where_it_counts(kind: str, number: bytes) -> None:
    field = {"run.started": "attempt", "work.refused": "at", "checkpoint.opened": "attempt"}.get(
        kind, "steps"
    )
    assert [blamed for _, blamed in judge(kind, encoded(kind, field, number))] == [field]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("20000-01-01T00:00:00Z", "invalid"),
        ("0001-01-01T00:00:00Z", "out_of_range"),
        ("9999-12-31T23:59:59Z", "out_of_range"),
        ("2026-11-30T12:00:00", "invalid"),
        ("tomorrow", "invalid"),
    ],
)
def test_time_that_is_no_clocks_is_refused(kind: str, time: str, code: str) -> None:
    field = TIMES[kind]
    assert judge(kind, encoded(kind, field, json.dumps(time).encode())) == [(code, field)]


@pytest.mark.parametrize("kind", ["run.started", "work.refused"])
def test_deadline_that_is_no_clocks_is_refused(kind: str) -> None:
    envelope = {"root_task_id": "t", "deadline": "9999-12-31T23:59:59-10:00"}
    assert judge(kind, make(kind, envelope=envelope)) == [("out_of_range", "envelope.deadline")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [33, 5_000])
def test_nesting_without_end_is_refused(kind: str, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    assert judge(kind, encoded(kind, "unknown", deep)) == [("too_deep", "")]


@pytest.mark.parametrize("kind", FREE)
def test_free_object_nested_without_end_is_refused(kind: str) -> None:
    deep = b'{"a":' * 40 + b"1" + b"}" * 40
    assert [code for code, _ in judge(kind, encoded(kind, FREE[kind], deep))] == ["too_deep"]


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_a_thousand_keys_are_refused(kind: str) -> None:
    event = make(kind, unknown={str(number): 0 for number in range(1_001)})
    assert judge(kind, event) == [("too_many_keys", "")]


@pytest.mark.parametrize("kind", KINDS)
def test_event_over_its_size_is_refused(kind: str) -> None:
    assert judge(kind, make(kind, unknown="x" * 2**18)) == [("too_large", "")]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("run.started", "limits", {"x": "y" * 4_096}),
        ("run.ended", "halt_detail", {"x": "y" * 4_096}),
        ("work.refused", "detail", {"x": "y" * 4_096}),
        ("checkpoint.opened", "limits", {"x": "y" * 4_096}),
    ],
)
def test_free_object_over_its_size_is_refused(kind: str, field: str, value: dict[str, str]) -> None:
    assert judge(kind, make(kind, **{field: value})) == [("too_large", field)]


CHAIN = {"root_task_id": "t", "chain": [{"agent": "a"}] * 33}
SOURCE = {"kind": "tool", "name": "a"}


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("run.started", "attempt", 0),
        ("run.started", "attempt", 1_001),
        ("run.started", "job_type", ""),
        ("run.started", "job_type", "x" * 129),
        ("run.started", "root_task_id", "x" * 129),
        ("run.started", "envelope.chain", CHAIN),
        ("run.started", "envelope.hops_remaining", {"root_task_id": "t", "hops_remaining": -1}),
        ("run.started", "envelope.descendants_budget", {"root_task_id": "t", "descendants_budget": 10**10}),
        ("run.started", "envelope.signature", {"root_task_id": "t", "signature": "x" * 81}),
        ("run.heartbeat", "seq", -1),
        ("run.heartbeat", "seq", 10**9 + 1),
        ("run.heartbeat", "steps", 10**9 + 1),
        ("run.heartbeat", "pressure[...]", {"max_steps": -0.1}),
        ("run.heartbeat", "pressure[...]", {"max_steps": 100.5}),
        ("run.heartbeat", "pressure", {f"limit {number}": 0.5 for number in range(33)}),
        ("run.heartbeat", "sources", [SOURCE] * 6),
        ("run.ended", "sources", [SOURCE] * 21),
        ("work.refused", "reason", ""),
        ("work.refused", "reason", "x" * 65),
        ("work.refused", "envelope.chain", CHAIN),
        ("checkpoint.opened", "reason", ""),
        ("checkpoint.opened", "reason", "x" * 65),
        ("checkpoint.opened", "question", "x" * 4_097),
        ("checkpoint.opened", "unresolved", ["x"] * 21),
        ("checkpoint.opened", "sub_agents", -1),
        ("checkpoint.opened", "expires_at", "1970-01-01T00:00:00Z"),
        ("checkpoint.opened", "artifact.digest", {"digest": ""}),
        ("checkpoint.opened", "artifact.digest", {"digest": "x" * 81}),
        ("checkpoint.opened", "artifact.text", {"digest": "x", "text": "x" * 16_385}),
        ("checkpoint.opened", "spent.cost", {"cost": "NaN"}),
        ("checkpoint.opened", "remaining.cost", {"cost": "0.0000001"}),
        ("checkpoint.opened", "spent.steps", {"steps": 10**9 + 1}),
        ("checkpoint.opened", "refused.at", {"tool": "a", "args_hash": "b", "at": "9999-12-31T23:59:59Z"}),
    ],
)
def test_value_out_of_its_bounds_is_refused_and_named(kind: str, field: str, value: Any) -> None:
    sent = field.partition(".")[0].partition("[")[0]
    assert judge(kind, make(kind, **{sent: value})) == [("out_of_range", field)]


@pytest.mark.parametrize("kind", ["run.started", "run.heartbeat", "run.ended", "checkpoint.opened"])
@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ({"run_id": None}, "missing_field"),
        ({"run_id": None, "external_id": ""}, "missing_field"),
        ({"external_id": "job-1"}, "invalid"),
    ],
)
def test_run_with_no_id_or_two_is_refused(kind: str, ids: dict[str, Any], code: str) -> None:
    assert [found for found, _ in judge(kind, make(kind, **ids))] == [code]


@pytest.mark.parametrize("kind", ["run.paused", "checkpoint.closed", "RUN.STARTED", "run.started ", ""])
def test_unknown_type_is_refused_and_the_rest_of_the_post_goes_on(kind: str) -> None:
    assert judge("run.started", make("run.started") | {"type": kind}) == [("unknown_type", "type")]


def post(gate: Gate, key: Key, *events: bytes | dict[str, Any]) -> dict[str, Any]:
    """Post events and return the reply."""
    raws = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    response = gate.post(URL, content=b"[" + b",".join(raws) + b"]", headers=key)
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


def named(reply: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(result["index"], result["status"], result["code"]) for result in reply["results"]]


def test_text_that_no_database_stores_is_cleaned_and_flagged(gate: Gate, key: Key) -> None:
    texts = [rb"a\u0000b", rb"a\ud800b", rb"a\udfffb"]
    events = [with_text(kind, text) for kind in KINDS for text in texts]
    reply = post(gate, key, *events)
    assert reply["accepted"] == len(events)
    assert named(reply) == [(index, "sanitized", "sanitized") for index in range(len(events))]
    for model, field in (
        (Run, "agent"),
        (LiveRun, "agent"),
        (LiveRun, "pressure_limit"),
        (RefusedWork, "agent"),
        (Checkpoint, "agent"),
    ):
        rows = model.objects.filter(sanitized=True, **{field: "a\ufffdb"})
        assert rows.count() == len(texts)


def test_key_that_comes_twice_is_flagged_and_the_last_one_counts(gate: Gate, key: Key) -> None:
    events = [encoded(kind, "tenant", b'"nobody", "tenant": null') for kind in KINDS]
    reply = post(gate, key, *events)
    assert (reply["accepted"], named(reply)) == (5, [(index, "sanitized", "sanitized") for index in range(5)])
    for model in (Run, LiveRun, RefusedWork, Checkpoint):
        assert not model.objects.filter(sanitized=False).exists()


def test_wrong_clock_is_refused_for_nothing_and_placed_at_its_receipt(gate: Gate, key: Key) -> None:
    now = datetime.now(UTC)
    times = [now + timedelta(days=days) for days in (-4_000, 400)]
    reply = post(gate, key, *(make(kind, **{TIMES[kind]: time}) for kind in KINDS for time in times))
    assert (reply["accepted"], reply["results"]) == (10, [])
    for model, placed in (
        (Run, "at"),
        (LiveRun, "started_at"),
        (RefusedWork, "at"),
        (Checkpoint, "opened_at"),
    ):
        for row in model.objects.all():
            assert row.clock_suspect
            assert getattr(row, placed) == row.received_at


def test_backfill_needs_its_scope_and_then_keeps_the_time(gate: Gate, tenant: Tenant, key: Key) -> None:
    time = datetime.now(UTC) - timedelta(days=390)
    events = [make(kind, **{TIMES[kind]: time}) for kind in KINDS]
    backfill = {"GuardOps-Backfill": "1"}
    response = gate.post(URL, json=events, headers=key | backfill)
    assert (response.status_code, response.json()["code"]) == (403, "missing_scope")
    allowed = bearer(tenant, scopes=(Scope.EVENTS_WRITE, Scope.EVENTS_BACKFILL))
    assert post(gate, allowed | backfill, *events)["accepted"] == 5
    for model in (Run, LiveRun, RefusedWork, Checkpoint):
        assert not model.objects.filter(clock_suspect=True).exists()


def test_key_for_checkpoints_alone_sends_nothing_else(gate: Gate, tenant: Tenant) -> None:
    reply = post(gate, bearer(tenant, scopes=(Scope.CHECKPOINTS,)), *map(make, KINDS))
    refused = [index for index, kind in enumerate(KINDS) if kind != "checkpoint.opened"]
    assert named(reply) == [(index, "rejected", "missing_scope") for index in refused]
    assert Checkpoint.objects.count() == 1


def test_key_for_policies_alone_sends_no_checkpoint(gate: Gate, tenant: Tenant) -> None:
    key = bearer(tenant, scopes=(Scope.BUNDLE_READ,))
    response = gate.post(URL, json=[make("checkpoint.opened")], headers=key)
    assert (response.status_code, response.json()["code"]) == (403, "missing_scope")
    assert not Checkpoint.objects.exists()


def test_same_id_in_two_tenants_is_two_and_neither_reply_tells(gate: Gate, key: Key) -> None:
    other = bearer(make_tenant())
    for events in ([make("run.started"), make("run.heartbeat"), make("work.refused")], [make("run.ended")]):
        assert post(gate, key, *events) == post(gate, other, *events)
    assert (Run.objects.count(), LiveRun.objects.count(), RefusedWork.objects.count()) == (2, 4, 2)


def test_key_of_several_tenants_writes_to_those_alone(gate: Gate, transactional_db: None) -> None:
    organisation = make_organisation()
    one, two, third = (make_tenant(organisation=organisation) for _ in range(3))
    slugs = (one.slug, two.slug, third.slug, None)
    reply = post(gate, bearer(one, two), *(make(kind, tenant=slug) for kind in KINDS for slug in slugs))
    assert reply["accepted"] == 10
    assert named(reply) == [
        (index, "rejected", "unknown_tenant") for index in range(20) if slugs[index % 4] not in slugs[:2]
    ]
    assert reply["bundle_revisions"] == {one.slug: 0, two.slug: 0}
    for model, rows in ((Run, 1), (LiveRun, 2), (RefusedWork, 1), (Checkpoint, 1)):
        tenants = model.objects.order_by("tenant_id").values_list("tenant_id", flat=True)
        assert list(tenants) == [one.pk] * rows + [two.pk] * rows


def test_unknown_field_is_counted_and_one_of_the_servers_has_no_effect(
    gate: Gate, tenant: Tenant, key: Key
) -> None:
    owned = {"tenant_id": 1, "received_at": "2001-01-01T00:00:00Z", "sanitized": True, "clock_suspect": True}
    reply = post(gate, key, *(make(kind, colour="red", **owned) for kind in KINDS))
    assert (reply["accepted"], reply["results"], reply["unknown_fields"]) == (5, [], 25)
    for model in (Run, LiveRun, RefusedWork, Checkpoint):
        for row in model.objects.all():
            assert (row.tenant_id, row.sanitized, row.clock_suspect) == (tenant.pk, False, False)
            assert row.received_at.year > 2001


def test_every_type_counts_against_the_rate_of_its_key(gate: Gate, key: Key) -> None:
    services = gate.app.state.services
    services.rates = type(services.rates)(per_second=0.5)
    assert post(gate, key, *map(make, KINDS))["accepted"] == 5
    response = gate.post(URL, json=[make("run.heartbeat")], headers=key)
    assert (response.status_code, response.json()["code"]) == (429, "rate_limited")
    assert int(response.headers["retry-after"]) >= 1


def test_mixed_post_is_taken_gzipped_and_in_chunks(gate: Gate, key: Key) -> None:
    content = gzip.compress(json.dumps(list(map(make, KINDS))).encode())
    chunks = iter([content[:40], content[40:90], content[90:]])
    reply = gate.post(URL, content=chunks, headers=key | {"Content-Encoding": "gzip"}).json()
    assert (reply["accepted"], reply["results"]) == (5, [])


def test_resend_of_a_mixed_post_gets_the_same_reply_each_time(gate: Gate, key: Key) -> None:
    run_id = make("run.started")["run_id"]
    events = [make(kind, run_id=run_id) for kind in KINDS[:3]] + [make("work.refused"), make("run.heartbeat")]
    assert post(gate, key, *events)["accepted"] == 5
    replies = [post(gate, key, *events) for _ in range(4)]
    assert (replies[0]["accepted"], replies[0]["duplicates"]) == (0, 5)
    assert all(reply == replies[0] for reply in replies)
