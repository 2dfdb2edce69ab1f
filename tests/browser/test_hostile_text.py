"""What attackers wrote, in every text that GuardOps keeps, on every page that shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.urls import reverse
from litestar.testing import TestClient

from guardops.gate.app import make_app
from guardops.guard.events import RunEnded
from guardops.tenants import keys
from guardops.tenants.models import Tenant, User
from runs.models import Run
from tests.browser.conftest import Desks
from tests.browser.watch import Watch
from tests.factories import make_key, make_run_id
from tests.hostile.events import hostile_event
from tests.hostile.payloads import PAYLOADS, endless


@pytest.fixture
def posted(tenant: Tenant) -> list[Run]:
    """Sixty runs through the real gate, their texts shifted by one payload each."""
    keys.forget()
    _, plain = make_key(tenant, now=datetime.now(UTC))
    now = datetime.now(UTC) - timedelta(minutes=1)
    events = [hostile_run(shift, now - timedelta(seconds=shift)) for shift in range(len(PAYLOADS))]
    with TestClient(make_app()) as gate:
        reply = gate.post("/api/v1/events", json=events, headers={"Authorization": f"Bearer {plain}"})
    assert reply.json()["accepted"] == len(PAYLOADS), reply.text
    return list(Run.objects.for_tenants([tenant.pk]).order_by("-ended_at"))


def hostile_run(shift: int, ended_at: datetime) -> dict[str, Any]:
    started_at = ended_at - timedelta(seconds=30)
    event = hostile_event(
        RunEnded,
        endless(shift),
        run_id=str(make_run_id(started_at)),
        outcome="halted",
        started_at=started_at.isoformat(),
        ended_at=ended_at.isoformat(),
    )
    del event["external_id"], event["tenant"]
    return event


def test_runs_of_attackers_are_only_text(desk: Desks, posted: list[Run], person: User) -> None:
    watch = Watch(desk(person))
    for path in ("/", "/?halts=table&steps=table", "/runs/?size=200", "/runs/?size=200&sort=cost"):
        watch.open(path)
    for run in posted:
        watch.open(reverse("runs:detail", args=[run.run_id]))

    assert watch.faults == {}
    assert watch.unread(PAYLOADS) == []


def test_addresses_of_attackers_are_only_text(desk: Desks, posted: list[Run], person: User) -> None:
    watch = Watch(desk(person))
    for payload in PAYLOADS:
        query = urlencode({"job": payload, "q": payload, "sort": payload})
        watch.open(f"/runs/?{query}")
    for payload in PAYLOADS[::6]:
        watch.open(f"/?{urlencode({'job': payload, 'release': payload, 'range': payload})}")
        watch.open(f"/login/?{urlencode({'next': payload})}")

    assert watch.faults == {}


def test_watch_sees_what_an_attacker_reached(desk: Desks, tenant: Tenant) -> None:
    watch = Watch(desk(None))
    watch.open("/login/")
    page = watch.desk.page
    page.evaluate("""() => {
        document.body.insertAdjacentHTML('beforeend', '<bdi><b>x</b></bdi><i onclick="x()">\u202e</i>');
        document.body.insertAdjacentHTML('beforeend', '<img src="//attacker.example/x.gif">');
    }""")
    page.wait_for_function("window.broken.length > 0")
    watch.look("spoilt")

    assert {fault.partition(":")[0] for fault in watch.faults["spoilt"]} >= {
        "address",
        "attribute",
        "hidden",
        "in a text",
    }
