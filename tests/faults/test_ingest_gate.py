"""The gate under kills, restarts, slow clients and a frozen broker: real processes on loopback."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from guardops.local.valkey import Valkey
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from runs.models import IngestSpan, LiveRun, Run, RunSource
from runs.rollup.recount import recount
from tests.factories import make_key, make_tenant
from tests.gate_process import FoldProcess, GateProcess
from tests.local.waiting import until

from .posting import Posting, agents, make_mixed_posts, make_post

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

FROZEN_SECONDS = 60.0 if os.environ.get("CI") else 3.0  # the promise is for a minute


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def key(tenant: Tenant) -> str:
    return make_key(tenant, scopes=[Scope.EVENTS_WRITE], now=datetime.now(UTC))[1]


@pytest.fixture
def gate(database_url: str) -> Iterator[GateProcess]:
    with GateProcess(database_url) as gate:
        yield gate


def stored(tenant: Tenant) -> list[str]:
    return sorted(Run.objects.filter(tenant_id=tenant.pk).values_list("agent", flat=True))


def ask_to_inflate(gate: GateProcess, key: str, body: bytes) -> int:
    with closing(http.client.HTTPConnection(*gate.address, timeout=30)) as client:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        client.request("POST", "/api/v1/events", body, headers | {"Content-Encoding": "gzip"})
        return client.getresponse().status


def peak_bytes(gate: GateProcess) -> int:
    """Return the most memory that the gate has had."""
    status = Path(f"/proc/{gate.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_gate_killed_at_random_keeps_every_run_once_and_none_alive_that_ended(
    gate: GateProcess, tenant: Tenant, key: str
) -> None:
    rng = random.Random(20261130)
    posts = make_mixed_posts(2_000)
    posting = Posting(gate, key)

    def kill_at_random() -> None:
        for count in sorted(rng.sample(range(20, 1_900), 6)):
            posting.wait_for(count)
            time.sleep(rng.random() / 50)
            acknowledged = set(posting.acknowledged)
            gate.restart()
            kept = set(stored(tenant))
            assert {agent for place in acknowledged for agent in agents([posts[place]])} <= kept

    posting.post_all(posts, meanwhile=kill_at_random)
    assert posting.answers[0] > 0, "no connection broke: nothing was killed under load"
    assert stored(tenant) == agents(posts)
    living = LiveRun.objects.filter(tenant_id=tenant.pk).values_list("agent", flat=True)
    assert sorted(living) == sorted(f"live/{place}" for place in range(2_000))
    assert sum(IngestSpan.objects.values_list("runs", flat=True)) == 6_000


def test_five_resends_at_once_change_nothing(gate: GateProcess, tenant: Tenant, key: str) -> None:
    posts = [make_post(place, runs=40) for place in range(5)]
    sources = [{"kind": "domain", "name": "a.example"}]
    for events in posts:
        for event in events:
            event["sources"] = sources
    Posting(gate, key).post_all([posts[place % 5] for place in range(25)])
    assert stored(tenant) == agents(posts)
    assert RunSource.objects.count() == 5 * 39


def test_rolling_restarts_fail_no_client(gate: GateProcess, tenant: Tenant, key: str) -> None:
    posting = Posting(gate, key, clients=4, keep_alive=False)
    posts = [make_post(place) for place in range(300)]

    def roll() -> None:
        for count in range(25, 276, 25):
            posting.wait_for(count)
            assert gate.stop() == -signal.SIGTERM
            gate.start()

    posting.post_all(posts, meanwhile=roll)
    assert set(posting.answers) == {200}
    assert stored(tenant) == agents(posts)


def test_sigterm_answers_the_post_under_way(gate: GateProcess, tenant: Tenant, key: str) -> None:
    with socket.create_connection(gate.address, timeout=20) as client:
        client.sendall(
            b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n" % key.encode()
        )
        assert client.recv(4_096).startswith(b"HTTP/1.1 100")
        client.sendall(b"[")
        gate.signal(signal.SIGTERM)
        until(lambda: gate.ask("/readyz", timeout=0.2) != 200)
        client.sendall(b"]")
        assert client.recv(4_096).startswith(b"HTTP/1.1 200")
    assert gate.stop() == -signal.SIGTERM


def test_five_hundred_half_sent_bodies_delay_no_probe_and_no_post(
    gate: GateProcess, tenant: Tenant, key: str
) -> None:
    head = (
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n[" % key.encode()
    )
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(gate.address)) for _ in range(500)]
        for client in slow:
            client.sendall(head)
        for path in ("/livez", "/readyz"):
            asked = time.monotonic()
            assert gate.ask(path) == 200
            assert time.monotonic() - asked < 1.0
        posting = Posting(gate, key, clients=1)
        posting.post_all([make_post(0)])
        assert posting.slowest < 1.0
        slow[0].settimeout(30)
        assert slow[0].recv(4_096).startswith(b"HTTP/1.1 408")
    assert len(stored(tenant)) == 3


def test_bombs_are_refused_and_take_no_memory(gate: GateProcess, key: str) -> None:
    bomb = gzip.compress(b"[" + b" " * 200_000_000)
    assert ask_to_inflate(gate, key, gzip.compress(b"[]")) == 200
    before = peak_bytes(gate)
    for _ in range(3):
        assert ask_to_inflate(gate, key, bomb) == 413
    assert peak_bytes(gate) - before < 20_000_000


def test_chunked_body_over_the_cap_is_refused_and_read_to_its_end(gate: GateProcess, key: str) -> None:
    with closing(http.client.HTTPConnection(*gate.address, timeout=30)) as client:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        client.request("POST", "/api/v1/events", iter([b" " * 2**20] * 12), headers, encode_chunked=True)
        response = client.getresponse()
        assert (response.status, json.load(response)["code"]) == (413, "body_too_large")
        client.request("POST", "/api/v1/events", iter([b"[", b"]"]), headers, encode_chunked=True)
        assert client.getresponse().status == 200


def test_frozen_broker_delays_no_post_and_every_count_is_exact(
    database_url: str, tenant: Tenant, key: str, tmp_path: Path
) -> None:
    valkey = Valkey(tmp_path)
    valkey.prepare()
    broker = subprocess.Popen(valkey.command())
    try:
        until(valkey.is_ready)
        broker.send_signal(signal.SIGSTOP)
        with (
            GateProcess(database_url, BROKER_URL=valkey.url) as gate,
            FoldProcess(database_url, BROKER_URL=valkey.url),
        ):
            posting = Posting(gate, key, clients=2)
            frozen_until = time.monotonic() + FROZEN_SECONDS
            posts = []
            while time.monotonic() < frozen_until or len(posts) < 50:
                more = [make_post(len(posts) + place) for place in range(10)]
                posting.acknowledged.clear()
                posting.post_all(more)
                posts += more
            assert posting.slowest < 5.0
            assert set(posting.answers) == {200}
            until(lambda: not IngestSpan.objects.exists())
    finally:
        broker.send_signal(signal.SIGCONT)
        broker.kill()
        broker.wait()
    assert stored(tenant) == agents(posts)
    assert recount() == []
