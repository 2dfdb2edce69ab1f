"""Bundles from a real gate that is killed, drained, and hears nothing: what waits is told all the same.

One gate serves the whole module; what it holds of tenants that a flush has removed harms nobody. How guards
fare while the database is away is in `test_ingest_database`. By hand: `python -m tests.faults.pulls`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Thread

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import Tenant
from policies.publish import bundles
from tests.conftest import address_of_database
from tests.factories import make_key, make_tenant
from tests.gate_process import GateProcess
from tests.local.waiting import until

from .pulls import PATH, PullingGuard, editor, pull_under_kills

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'LISTEN %%' AND pid <> ALL (%s)"""


@pytest.fixture(scope="module")
def shared_gate(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[GateProcess]:
    with django_db_blocker.unblock(), GateProcess(address_of_database()) as gate:
        yield gate


@pytest.fixture
def gate(shared_gate: GateProcess) -> GateProcess:
    if shared_gate.process is None:
        shared_gate.start()
        shared_gate.wait_ready()
    return shared_gate


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def guard(gate: GateProcess, tenant: Tenant) -> PullingGuard:
    return PullingGuard(gate, make_key(tenant, scopes=(Scope.BUNDLE_READ,), now=datetime.now(UTC))[1])


def test_gate_killed_under_a_writer_tears_no_bundle_and_every_guard_gets_on(
    gate: GateProcess, tenant: Tenant, guard: PullingGuard
) -> None:
    seen = pull_under_kills(gate, guard.key, tenant.slug, editor(tenant), seconds=2.0, kill_every=1.0)
    assert (seen.wrong, seen.behind, seen.client_behind) == ([], 0, False)
    assert seen.edits > 10
    assert seen.answers[0] > 0


def test_lost_notification_costs_at_most_five_seconds(
    guard: PullingGuard, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.hold()
    monkeypatch.setattr(bundles, "CHANNEL", "where_nobody_listens")
    revision = editor(tenant)(0)
    assert guard.revision() == revision
    assert guard.seconds <= 5.5  # five seconds, and the moment before the edit


def test_revoked_key_ends_its_wait_within_five_seconds(guard: PullingGuard, tenant: Tenant) -> None:
    key, guard.key = make_key(tenant, now=datetime.now(UTC))
    guard.hold()
    revoke_key(key, actor=SYSTEM, now=datetime.now(UTC))
    guard.thread.join()
    assert (guard.status, b'"key_revoked"' in guard.body) == (401, True)
    assert guard.seconds <= 5.5


def listeners(but: list[int]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(LISTENERS, [but])
        return [pid for (pid,) in cursor.fetchall()]


def test_connection_that_listens_is_made_again_and_misses_nothing(
    guard: PullingGuard, tenant: Tenant
) -> None:
    edit = editor(tenant)
    guard.hold()
    before = until(lambda: listeners([]))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) AS pid", [before])
    assert edit(0) == guard.revision()  # published while nobody listened
    assert guard.seconds <= 5.5
    assert until(lambda: listeners(before))
    guard.hold()
    assert edit(1) == guard.revision()


async def wait_many(guard: PullingGuard, count: int, stop: Thread) -> list[bytes]:
    """Let so many guards wait, then stop the gate; return all that came on each connection."""
    request = (
        f"GET {PATH}?wait=60 HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {guard.key}\r\n"
        f"If-None-Match: {guard.etag}\r\n\r\n"
    )
    pairs = await asyncio.gather(*(asyncio.open_connection(*guard.gate.address) for _ in range(count)))
    for _, writer in pairs:
        writer.write(request.encode())
    # Asked after them and answered after them.
    assert await asyncio.to_thread(guard.gate.ask, "/livez", 30) == 200
    await asyncio.sleep(0.2)
    stop.start()
    answers = await asyncio.gather(*(reader.read() for reader, _ in pairs))
    for _, writer in pairs:
        writer.close()
    return answers


def test_gate_that_is_told_to_end_answers_a_thousand_waits(guard: PullingGuard) -> None:
    guard.ask()
    stop = Thread(target=guard.gate.stop)
    answers = asyncio.run(wait_many(guard, 1_000, stop))
    stop.join()
    statuses = [re.findall(rb"HTTP/1.1 (\d+)", answer) for answer in answers]
    assert statuses == [[b"304"]] * 1_000
    assert all(b"guardops-long-poll: 1" in answer for answer in answers)  # it had been let wait
