"""Keys at a real gate: how soon a revoked one is refused, and how the two of a rotation work side by side."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from guardops.tenants.actors import SYSTEM
from guardops.tenants.keys import revoke_key
from guardops.tenants.rotation import rotate_key
from tests.factories import make_key, make_tenant
from tests.gate_process import GateProcess

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def gate(database_url: str) -> Iterator[GateProcess]:
    with GateProcess(database_url) as gate:
        yield gate


def ask(gate: GateProcess, key: str) -> tuple[int, str]:
    """Send no events with the key; return the status and the code of the answer."""
    with closing(http.client.HTTPConnection(*gate.address, timeout=10)) as client:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        client.request("POST", "/api/v1/events", b"[]", headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read()).get("code", "")


def test_a_revoked_key_is_refused_within_five_seconds_and_its_successor_is_not(gate: GateProcess) -> None:
    now = datetime.now(UTC)
    key, old = make_key(make_tenant(), now=now)
    _, new = rotate_key(key, grace=timedelta(days=1), actor=SYSTEM, now=now)
    assert [ask(gate, plain)[0] for plain in (old, new)] == [200, 200]
    revoke_key(key, actor=SYSTEM, now=datetime.now(UTC))
    revoked = time.monotonic()
    while (refused := ask(gate, old))[0] == 200 and time.monotonic() < revoked + 10:
        time.sleep(0.1)
    assert time.monotonic() - revoked <= 5.5  # five seconds, and the time of one question
    assert refused == (401, "key_revoked")
    assert ask(gate, new)[0] == 200
