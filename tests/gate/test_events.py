from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from litestar.testing import TestClient

from guardops.gate import events as endpoint
from guardops.gate.app import make_app
from guardops.guard.events import MAX_BODY_BYTES
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.keys import forget, revoke_key
from guardops.tenants.models import ApiKey, Tenant
from runs.ingest import record
from runs.models import Run
from tests.factories import make_key, make_organisation, make_tenant

from .conftest import bearer, now_event

Gate = TestClient[Any]
URL = "/api/v1/events"


def problem(response: Any) -> tuple[int, str, bool]:
    """Return a problem's status, code and whether to retry, having checked its form."""
    document = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert document["status"] == response.status_code
    assert document["request_id"] == response.headers["guardops-request-id"]
    assert document["title"]
    assert document["type"] == f"/api/v1/docs#{document['code']}"
    assert (
        not document["retryable"] or response.status_code == 408 or int(response.headers["retry-after"]) >= 1
    )
    return response.status_code, document["code"], document["retryable"]


def test_events_are_stored_in_the_tenant_of_the_key(gate: Gate, tenant: Tenant, key: dict[str, str]) -> None:
    response = gate.post(URL, json=[now_event(), now_event()], headers=key)
    assert response.status_code == 200
    assert response.json() == {
        "accepted": 2,
        "duplicates": 0,
        "results": [],
        "bundle_revision": 0,
        "bundle_revisions": None,
        "unknown_fields": 0,
    }
    assert Run.objects.filter(tenant_id=tenant.pk).count() == 2


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/x-ndjson", "Application/JSON; charset=UTF-8"]
)
def test_lines_are_taken_under_each_type(gate: Gate, key: dict[str, str], media_type: str) -> None:
    lines = "\n".join(json.dumps(now_event()) for _ in range(3))
    response = gate.post(URL, content=lines, headers=key | {"Content-Type": media_type})
    assert response.json()["accepted"] == 3


def test_gzipped_body_is_inflated(gate: Gate, key: dict[str, str]) -> None:
    content = gzip.compress(json.dumps({"events": [now_event()]}).encode())
    response = gate.post(URL, content=content, headers=key | {"Content-Encoding": "gzip"})
    assert response.json()["accepted"] == 1


def test_gzip_of_several_members_is_inflated(gate: Gate, key: dict[str, str]) -> None:
    content = gzip.compress(b"[") + gzip.compress(json.dumps(now_event()).encode()) + gzip.compress(b"]")
    response = gate.post(URL, content=content, headers=key | {"Content-Encoding": "gzip"})
    assert response.json()["accepted"] == 1


def test_chunked_body_is_read(gate: Gate, key: dict[str, str]) -> None:
    content = json.dumps([now_event()]).encode()
    response = gate.post(URL, content=iter([content[:50], content[50:]]), headers=key)
    assert response.json()["accepted"] == 1


def test_only_events_that_were_not_plainly_accepted_are_named(gate: Gate, key: dict[str, str]) -> None:
    stored = now_event()
    gate.post(URL, json=[stored], headers=key)
    sent = [
        now_event(),
        stored,
        stored | {"steps": 9},
        now_event(cost="-1"),
        now_event(agent="a\0"),
        now_event(type="run.paused"),
        now_event(colour="red"),
    ]
    reply = gate.post(URL, json=sent, headers=key).json()
    assert (reply["accepted"], reply["duplicates"], reply["unknown_fields"]) == (3, 1, 1)
    assert [
        (result["index"], result["status"], result["code"], result.get("field"))
        for result in reply["results"]
    ] == [
        (1, "duplicate", "duplicate", None),
        (2, "conflict", "different_body", "run_id"),
        (3, "rejected", "out_of_range", "cost"),
        (4, "sanitized", "sanitized", None),
        (5, "rejected", "unknown_type", "type"),
    ]


def test_resend_gets_the_same_reply_each_time(gate: Gate, key: dict[str, str]) -> None:
    body = json.dumps([now_event() for _ in range(20)])
    gate.post(URL, content=body, headers=key)
    replies = [gate.post(URL, content=body, headers=key).json() for _ in range(4)]
    assert replies[0]["duplicates"] == 20
    assert all(reply == replies[0] for reply in replies)


def test_every_event_rejected_is_422_and_says_why(gate: Gate, key: dict[str, str]) -> None:
    response = gate.post(URL, json=[now_event(steps=-1), now_event(job_type=None), 7], headers=key)
    assert problem(response) == (422, "every_event_rejected", False)
    assert [result["code"] for result in response.json()["results"]] == [
        "out_of_range",
        "missing_field",
        "not_object",
    ]
    assert not Run.objects.exists()


def test_empty_list_stores_nothing(gate: Gate, key: dict[str, str]) -> None:
    assert gate.post(URL, json=[], headers=key).json()["accepted"] == 0


TOO_LARGE = gzip.compress(b" " * (MAX_BODY_BYTES + 1), mtime=0)


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", {}, 400, "not_json"),
        (b"hello", {}, 400, "not_json"),
        (b'[{"type"', {}, 400, "not_json"),
        (b"\xff\xfe\x00", {}, 400, "not_json"),
        (b'{"events": 1}', {}, 400, "not_events"),
        (b"not gzip", {"Content-Encoding": "gzip"}, 400, "bad_encoding"),
        (gzip.compress(b"[]", mtime=0)[:-4], {"Content-Encoding": "gzip"}, 400, "bad_encoding"),
        (gzip.compress(b"[]", mtime=0) + b"tail", {"Content-Encoding": "gzip"}, 400, "bad_encoding"),
        (b"[]", {"Content-Encoding": "br"}, 415, "unsupported_encoding"),
        (b"[]", {"Content-Encoding": "gzip, gzip"}, 415, "unsupported_encoding"),
        (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
        (b"[]", {"Content-Type": "application/json; charset=latin-1"}, 415, "unsupported_media_type"),
        (b"[" + b",".join([b"{}"] * 1_001) + b"]", {}, 413, "too_many_events"),
        (b" " * (MAX_BODY_BYTES + 1), {}, 413, "body_too_large"),
        (TOO_LARGE, {"Content-Encoding": "gzip"}, 413, "body_too_large"),
    ],
)  # fmt: skip
def test_body_that_cannot_be_used_is_refused_whole(
    gate: Gate, key: dict[str, str], content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    headers = {"Content-Type": "application/json"} | key | headers
    assert problem(gate.post(URL, content=content, headers=headers)) == (status, code, False)


def test_chunked_body_over_the_cap_is_refused(gate: Gate, key: dict[str, str]) -> None:
    response = gate.post(URL, content=iter([b" " * 2**20] * 9), headers=key)
    assert problem(response) == (413, "body_too_large", False)


def test_body_of_exactly_the_cap_is_taken(gate: Gate, key: dict[str, str]) -> None:
    content = json.dumps([now_event()]).encode().ljust(MAX_BODY_BYTES)
    assert gate.post(URL, content=content, headers=key).json()["accepted"] == 1


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer go_x_y", "Basic abc", f"Bearer go_{'0' * 12}_{'0' * 64}"]
)
def test_request_without_a_good_key_is_refused(gate: Gate, header: str | None) -> None:
    response = gate.post(
        URL, json=[now_event()], headers={"Authorization": header} if header is not None else {}
    )
    assert problem(response) == (401, "unauthenticated", False)
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_revoked_key_is_refused(gate: Gate, tenant: Tenant) -> None:
    row, plain = make_key(tenant, now=datetime.now(UTC))
    revoke_key(row, actor=SYSTEM, now=datetime.now(UTC))
    forget()
    response = gate.post(URL, json=[now_event()], headers={"Authorization": f"Bearer {plain}"})
    assert problem(response) == (401, "key_revoked", False)


def test_key_without_the_scope_is_refused(gate: Gate, tenant: Tenant) -> None:
    response = gate.post(URL, json=[now_event()], headers=bearer(tenant, scopes=(Scope.BUNDLE_READ,)))
    assert problem(response) == (403, "missing_scope", False)


def test_key_of_one_tenant_takes_its_own_name_and_no_other(
    gate: Gate, tenant: Tenant, key: dict[str, str]
) -> None:
    other = make_tenant()
    reply = gate.post(
        URL, json=[now_event(tenant=tenant.slug), now_event(tenant=other.slug)], headers=key
    ).json()
    assert reply["accepted"] == 1
    assert (reply["results"][0]["index"], reply["results"][0]["code"]) == (1, "unknown_tenant")
    assert not Run.objects.filter(tenant_id=other.pk).exists()


def test_key_of_several_tenants_stores_each_event_in_its_own(gate: Gate) -> None:
    organisation = make_organisation()
    one, two = (make_tenant(organisation=organisation) for _ in range(2))
    Tenant.objects.filter(pk=two.pk).update(bundle_revision=7)
    sent = [now_event(tenant=one.slug), now_event(tenant=two.slug), now_event(), now_event(tenant="nobody")]
    reply = gate.post(URL, json=sent, headers=bearer(one, two)).json()
    assert reply["accepted"] == 2
    assert [(result["index"], result["code"], result["field"]) for result in reply["results"]] == [
        (2, "unknown_tenant", "tenant"),
        (3, "unknown_tenant", "tenant"),
    ]
    assert reply["bundle_revision"] is None
    assert reply["bundle_revisions"] == {one.slug: 0, two.slug: 7}
    assert [Run.objects.filter(tenant_id=tenant.pk).count() for tenant in (one, two)] == [1, 1]


def test_same_id_in_two_tenants_is_two_runs_and_neither_reply_tells(gate: Gate, tenant: Tenant) -> None:
    other, event = make_tenant(), now_event()
    replies = [
        gate.post(URL, json=[event | {"steps": steps}], headers=bearer(owner)).json()
        for steps, owner in enumerate((tenant, other))
    ]
    assert replies[0] == replies[1]
    assert Run.objects.count() == 2


def test_server_owned_field_has_no_effect(gate: Gate, tenant: Tenant, key: dict[str, str]) -> None:
    owned = {
        "tenant_id": 1,
        "ingest_mark": 1,
        "received_at": "2001-01-01T00:00:00Z",
        "looped": True,
        "completes": False,
    }
    reply = gate.post(URL, json=[now_event(**owned)], headers=key).json()
    assert reply["unknown_fields"] == 5
    run = Run.objects.get()
    assert (run.tenant_id, run.looped, run.completes, run.received_at.year > 2001) == (
        tenant.pk,
        False,
        True,
        True,
    )


def test_old_run_is_kept_and_flagged(gate: Gate, key: dict[str, str]) -> None:
    gate.post(URL, json=[now_event(ended_at=datetime.now(UTC) - timedelta(days=36))], headers=key)
    run = Run.objects.get()
    assert run.clock_suspect
    assert run.at == run.received_at


def test_backfill_needs_its_scope_and_then_keeps_the_time(
    gate: Gate, tenant: Tenant, key: dict[str, str]
) -> None:
    event = now_event(ended_at=datetime.now(UTC) - timedelta(days=60))
    backfill = {"GuardOps-Backfill": "1"}
    assert problem(gate.post(URL, json=[event], headers=key | backfill)) == (403, "missing_scope", False)
    allowed = bearer(tenant, scopes=(Scope.EVENTS_WRITE, Scope.EVENTS_BACKFILL)) | backfill
    assert gate.post(URL, json=[event], headers=allowed).json()["accepted"] == 1
    run = Run.objects.get()
    assert (run.clock_suspect, run.at) == (False, run.ended_at)


def test_key_over_its_rate_is_told_when_to_come_back(gate: Gate, key: dict[str, str]) -> None:
    services = gate.app.state.services
    services.rates = type(services.rates)(per_second=0.5)
    assert gate.post(URL, json=[now_event()] * 5, headers=key).status_code == 200
    response = gate.post(URL, json=[now_event()], headers=key)
    assert problem(response) == (429, "rate_limited", True)
    assert response.headers["retry-after"] == "2"


def test_body_is_held_until_its_runs_are_stored(
    gate: Gate, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def look_and_record(rows: Any) -> Any:
        held.append(gate.app.state.services.bodies._held)
        return record.record_runs(rows)

    monkeypatch.setattr(endpoint, "record_runs", look_and_record)
    response = gate.post(URL, json=[now_event()], headers=key)
    assert held == [int(response.request.headers["content-length"])]
    assert gate.app.state.services.bodies._held == 0


def test_busy_tenant_is_told_to_come_back(
    gate: Gate, tenant: Tenant, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LOCK_TIMEOUT", "50ms")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [record.LOCK_SPACE, tenant.pk])
        assert problem(gate.post(URL, json=[now_event()], headers=key)) == (503, "busy", True)
    assert not Run.objects.exists()
    assert gate.post(URL, json=[now_event()], headers=key).status_code == 200


def test_database_out_of_reach_is_503_and_stores_nothing(
    gate: Gate, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(endpoint, "record_runs", fail)
    response = gate.post(URL, json=[now_event()], headers=key)
    assert problem(response) == (503, "unavailable", True)
    assert not Run.objects.exists()


def test_unforeseen_failure_is_a_problem_that_names_no_detail(
    gate: Gate, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(endpoint, "record_runs", fail)
    response = gate.post(URL, json=[now_event()], headers=key)
    assert problem(response) == (500, "internal", False)
    assert "secret" not in response.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_method_is_not_allowed(gate: Gate, method: str) -> None:
    response = gate.request(method, URL)
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/event", "/api/v1/events/1", "/%00", "/api/v1/%2e%2e/events/x"]
)
def test_other_path_is_not_found(gate: Gate, path: str) -> None:
    assert problem(gate.get(path)) == (404, "not_found", False)


def test_use_of_a_key_is_written_down_when_the_gate_ends(transactional_db: None) -> None:
    tenant = make_tenant()
    with TestClient(make_app()) as gate:
        gate.post(URL, json=[], headers=bearer(tenant))
    assert ApiKey.objects.get().last_used_at is not None
