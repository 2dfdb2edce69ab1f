"""Handing decisions out at the gate, in process; that agents carry them out is shown in faults."""

from __future__ import annotations

import gzip
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection
from litestar.testing import TestClient

from guardops.guard.bundle import read_bundle
from guardops.guard.decisions import CheckpointReply, Grant, prove
from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role, Scope
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import ApiKey, Tenant, User
from policies.pull.reading import read_newest
from runs.checkpoints.claims import claim
from runs.models import Checkpoint, Decision
from tests.factories import let_undo_time_pass, make_checkpoint, make_member, make_tenant
from tests.gate.conftest import bearer
from tests.local.waiting import until
from tests.runs.checkpoints.deciding import STOP, decided

Gate = TestClient[Any]
DIGEST = "sha256:" + "5a" * 32


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    keys.forget()


@pytest.fixture
def key(tenant: Tenant) -> dict[str, str]:
    return bearer(tenant, scopes=(Scope.CHECKPOINTS,))


@pytest.fixture
def ann(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="ann")


@pytest.fixture
def checkpoint(tenant: Tenant) -> Checkpoint:
    return make_checkpoint(tenant, opened_at=datetime.now(UTC))


def path(checkpoint: Checkpoint, wait: float = 0) -> str:
    return f"/api/v1/checkpoints/{checkpoint.checkpoint_id}?wait={wait}"


def deliverable(checkpoint: Checkpoint, by: User) -> Decision:
    return let_undo_time_pass(decided(checkpoint, by, datetime.now(UTC)))


def consume(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, decision: Decision, **changed: object
) -> Any:
    wanted = {"decision_id": str(decision.pk), "attempt_id": str(uuid.uuid4()), "artifact_digest": DIGEST}
    url = f"/api/v1/checkpoints/{checkpoint.checkpoint_id}/consume"
    return gate.post(url, json=wanted | changed, headers=key)


def while_waiting(gate: Gate, work: Callable[[], object]) -> threading.Thread:
    """Do something in another thread once a request waits."""

    def run() -> None:
        try:
            until(lambda: gate.app.state.services.waits.count > 0, 10)
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_what_nobody_has_decided_is_told_as_it_stands(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint
) -> None:
    response = gate.get(path(checkpoint), headers=key)
    reply = msgspec.json.decode(response.content, type=CheckpointReply)
    assert (response.status_code, reply.state, reply.decision) == (200, "open", None)
    assert (reply.checkpoint_id, reply.expires_at) == (checkpoint.checkpoint_id, checkpoint.expires_at)
    assert response.headers["cache-control"] == "no-store"


def test_a_decision_is_handed_out_signed_once_it_can_no_longer_be_undone(
    gate: Gate, tenant: Tenant, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    decision = decided(checkpoint, ann, datetime.now(UTC))
    assert gate.get(path(checkpoint), headers=key).json()["decision"] is None
    let_undo_time_pass(decision)
    reply = msgspec.json.decode(gate.get(path(checkpoint), headers=key).content, type=CheckpointReply)
    assert reply.decision is not None
    now = datetime.now(UTC)
    bundle = read_bundle(gzip.decompress(read_newest([tenant.pk], now)[tenant.pk].packed), tenant=tenant.slug)
    prove(
        reply.decision,
        checkpoint_id=checkpoint.checkpoint_id,
        tenant=tenant.slug,
        artifact_digest=DIGEST,
        now=now,
        keys=bundle.signing,
    )
    decision.refresh_from_db()
    assert (reply.state, decision.delivered_at is not None) == ("delivered", True)


def test_a_wait_ends_with_a_stop_at_once(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    other = while_waiting(gate, lambda: decided(checkpoint, ann, datetime.now(UTC), STOP))
    began = time.monotonic()
    reply = gate.get(path(checkpoint, 30), headers=key).json()
    other.join()
    assert (reply["decision"]["action"], time.monotonic() - began < 8) == ("stop", True)


def test_a_wait_ends_when_the_time_to_undo_is_over_which_nobody_notifies(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    decision = decided(checkpoint, ann, datetime.now(UTC))
    other = while_waiting(gate, lambda: let_undo_time_pass(decision))
    began = time.monotonic()
    assert gate.get(path(checkpoint, 30), headers=key).json()["decision"]["action"] == "resume"
    other.join()
    assert time.monotonic() - began < 8


def test_a_wait_goes_on_while_a_checkpoint_is_only_claimed(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    other = while_waiting(gate, lambda: claim(checkpoint, actor=ann, now=datetime.now(UTC)))
    began = time.monotonic()
    reply = gate.get(path(checkpoint, 1.5), headers=key).json()
    other.join()
    assert (reply["state"], reply["decision"], time.monotonic() - began >= 1.5) == ("claimed", None, True)


def test_a_wait_ends_with_the_checkpoints_time(gate: Gate, tenant: Tenant, key: dict[str, str]) -> None:
    now = datetime.now(UTC)
    short = make_checkpoint(tenant, opened_at=now, expires_at=now + timedelta(seconds=1))
    reply = gate.get(path(short, 30), headers=key).json()
    assert (reply["state"], reply["decision"]["action"]) == ("expired", "stop")


def test_a_wait_ends_soon_after_its_key_is_revoked(
    gate: Gate, tenant: Tenant, key: dict[str, str], checkpoint: Checkpoint
) -> None:
    held = ApiKey.objects.get()
    other = while_waiting(gate, lambda: revoke_key(held, actor=SYSTEM, now=datetime.now(UTC)))
    began = time.monotonic()
    response = gate.get(path(checkpoint, 30), headers=key)
    other.join()
    assert (response.status_code, response.json()["code"]) == (401, "key_revoked")
    assert time.monotonic() - began < 6


def test_a_gate_that_goes_down_answers_who_waits(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint
) -> None:
    def go_down() -> None:
        with gate.portal() as portal:
            portal.call(gate.app.state.services.drain)

    other = while_waiting(gate, go_down)
    began = time.monotonic()
    assert gate.get(path(checkpoint, 30), headers=key).json()["state"] == "open"
    other.join()
    assert time.monotonic() - began < 8


def test_held_waits_take_no_thread(gate: Gate, tenant: Tenant, key: dict[str, str]) -> None:
    now = datetime.now(UTC)
    held = [make_checkpoint(tenant, opened_at=now, expires_at=now + timedelta(hours=1)) for _ in range(40)]
    with ThreadPoolExecutor(40) as pool:
        waits = [pool.submit(gate.get, path(one, 2.5), headers=key) for one in held]
        until(lambda: gate.app.state.services.waits.count == 40, 10)
        began = time.monotonic()
        assert gate.get("/readyz").status_code == 200
        assert gate.get(path(held[0]), headers=key).status_code == 200
        assert time.monotonic() - began < 2
        assert {wait.result().status_code for wait in waits} == {200}


def test_the_same_attempt_may_ask_for_its_grant_again_and_another_is_told_who_has_it(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    decision = deliverable(checkpoint, ann)
    gate.get(path(checkpoint), headers=key)
    attempt = str(uuid.uuid4())
    first, again = (consume(gate, key, checkpoint, decision, attempt_id=attempt) for _ in range(2))
    grant = msgspec.json.decode(first.content, type=Grant)
    assert (first.status_code, again.content, str(grant.attempt_id)) == (200, first.content, attempt)
    assert (grant.attempt, grant.decision.decision_id) == (2, decision.pk)
    other = consume(gate, key, checkpoint, decision)
    assert (other.status_code, other.json()["code"]) == (409, "already_consumed")
    assert attempt in other.json()["detail"]


def test_of_many_attempts_at_once_one_has_the_grant(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    decision = deliverable(checkpoint, ann)
    gate.get(path(checkpoint), headers=key)
    with ThreadPoolExecutor(8) as pool:
        tried = pool.map(lambda _: consume(gate, key, checkpoint, decision).status_code, range(16))
    assert sorted(tried) == [200] + [409] * 15


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"artifact_digest": "sha256:another"}, 409, "wrong_artifact"),
        ({"decision_id": str(uuid.UUID(int=7))}, 404, "unknown_checkpoint"),
        ({"attempt_id": "me"}, 400, "bad_request"),
        ({"artifact_digest": "x" * 81}, 400, "bad_request"),
    ],
)
def test_a_consumption_that_does_not_fit_is_refused(
    gate: Gate,
    key: dict[str, str],
    checkpoint: Checkpoint,
    ann: User,
    changed: dict[str, str],
    status: int,
    code: str,
) -> None:
    decision = deliverable(checkpoint, ann)
    gate.get(path(checkpoint), headers=key)
    response = consume(gate, key, checkpoint, decision, **changed)
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_what_was_not_handed_out_or_has_expired_is_not_granted(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint, ann: User
) -> None:
    decision = decided(checkpoint, ann, datetime.now(UTC))
    early = consume(gate, key, checkpoint, decision)
    assert (early.status_code, early.json()["code"]) == (409, "not_delivered")
    let_undo_time_pass(decision)
    gate.get(path(checkpoint), headers=key)
    Decision.objects.filter(pk=decision.pk).update(expires_at=datetime.now(UTC))
    late = consume(gate, key, checkpoint, decision)
    assert (late.status_code, late.json()["code"]) == (410, "decision_expired")


def test_bodies_that_make_no_sense_are_refused(
    gate: Gate, key: dict[str, str], checkpoint: Checkpoint
) -> None:
    url = f"/api/v1/checkpoints/{checkpoint.checkpoint_id}/consume"
    for body in (b"", b"{", b"[]", b"[" * 100_000, b'{"decision_id": 3}', b"\xff\xfe", b'{"a":"\\ud800"}'):
        response = gate.post(url, content=body, headers=key | {"Content-Type": "application/json"})
        assert response.status_code == 400, body
    for name in ("no-uuid", "%00", "1" * 300, "%F0%9F"):
        response = gate.get(f"/api/v1/checkpoints/{name}", headers=key)
        assert (response.status_code, response.json()["code"]) == (404, "unknown_checkpoint"), name
    assert gate.get(path(checkpoint) + "&wait=61", headers=key).status_code == 400


def test_other_tenants_and_other_keys_get_nothing(
    gate: Gate, tenant: Tenant, checkpoint: Checkpoint, ann: User
) -> None:
    decision = deliverable(checkpoint, ann)
    foreign = bearer(make_tenant(), scopes=(Scope.CHECKPOINTS,))
    response = gate.get(path(checkpoint), headers=foreign)
    assert (response.status_code, response.json()["code"]) == (404, "unknown_checkpoint")
    assert consume(gate, foreign, checkpoint, decision).status_code == 404
    named = foreign | {"GuardOps-Tenant": tenant.slug}
    assert gate.get(path(checkpoint), headers=named).json()["code"] == "unknown_tenant"
    for scope in set(Scope) - {Scope.CHECKPOINTS}:
        lesser = bearer(tenant, scopes=(scope,))
        assert gate.get(path(checkpoint), headers=lesser).json()["code"] == "missing_scope", scope
        assert consume(gate, lesser, checkpoint, decision).json()["code"] == "missing_scope", scope
    assert gate.get(path(checkpoint)).status_code == 401
