"""What attackers wrote, in every text that GuardOps keeps, on every page that shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.urls import reverse
from litestar.testing import TestClient

from guardops.gate.app import make_app
from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import RunEnded, RunHeartbeat, RunStarted, WorkRefused
from guardops.shown import visible_text
from guardops.tenants import keys
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.models import Change, JobPolicy
from runs.models import Channel, Checkpoint, Incident, LiveRun, Run, RunSource
from tests.browser.conftest import Desks
from tests.browser.watch import Watch
from tests.factories import make_key, make_member, make_run_id
from tests.hostile.events import hostile_event
from tests.hostile.payloads import PAYLOADS, endless
from tests.hostile.rows import (
    DECIDED,
    FILLED,
    SAFE,
    decide_hostile_checkpoints,
    insert_hostile_rows,
    text_fields,
)


@pytest.fixture
def posted(tenant: Tenant) -> list[Run]:
    """Sixty of each event through the real gate, their texts shifted by one payload each."""
    keys.forget()
    _, plain = make_key(tenant, now=datetime.now(UTC))
    events = [event for shift in range(len(PAYLOADS)) for event in hostile_events(shift)]
    with TestClient(make_app()) as gate:
        reply = gate.post("/api/v1/events", json=events, headers={"Authorization": f"Bearer {plain}"})
    assert reply.json()["accepted"] == len(events), reply.text
    return list(Run.objects.for_tenants([tenant.pk]).order_by("-ended_at"))


@pytest.fixture
def handed_over(tenant: Tenant) -> list[Checkpoint]:
    """Sixty checkpoints through the real gate, each text of each with every payload once."""
    keys.forget()
    _, plain = make_key(tenant, now=datetime.now(UTC))
    events = [hostile_checkpoint(shift) for shift in range(len(PAYLOADS))]
    with TestClient(make_app()) as gate:
        reply = gate.post("/api/v1/events", json=events, headers={"Authorization": f"Bearer {plain}"})
    assert reply.json().get("accepted") == len(events), reply.text
    return list(Checkpoint.objects.for_tenants([tenant.pk]).order_by("pk"))


def hostile_checkpoint(shift: int) -> dict[str, Any]:
    """Return a checkpoint with a call to approve and a write of unknown outcome."""
    opened_at = datetime.now(UTC) - timedelta(seconds=shift)
    opened = hostile_event(CheckpointOpened, endless(shift), opened_at=opened_at.isoformat())
    opened["expires_at"] = (opened_at + timedelta(hours=1)).isoformat()
    opened["pending"].append(opened["pending"][0] | {"args_hash": f"uncertain-{shift}", "uncertain": True})
    opened.pop("tenant")
    return opened


def hostile_events(shift: int) -> list[dict[str, Any]]:
    """Return a run that ended, delegated work of its task that was refused, and a run that lives."""
    now = datetime.now(UTC) - timedelta(seconds=60 + shift)
    started = now - timedelta(seconds=30)
    ended = hostile_event(RunEnded, endless(shift), run_id=str(make_run_id(started)), outcome="halted")
    ended |= {"started_at": started.isoformat(), "ended_at": now.isoformat()}
    refused = hostile_event(WorkRefused, endless(shift + 3))
    refused["envelope"]["root_task_id"] = ended["root_task_id"]
    live = str(make_run_id(started))
    begun = hostile_event(RunStarted, endless(shift + 5), run_id=live, started_at=started.isoformat())
    beat = hostile_event(RunHeartbeat, endless(shift + 7), run_id=live, seq=1)
    events = [ended, refused, begun, beat]
    for event in events:
        event.pop("external_id", None)
        event.pop("tenant", None)
    return events


def test_runs_of_attackers_are_only_text(desk: Desks, posted: list[Run], person: User) -> None:
    watch = Watch(desk(person))
    live = LiveRun.objects.values_list("run_id", flat=True)[:12]
    lists = ["/", "/?halts=table&steps=table", "/runs/?size=200", "/runs/?size=200&sort=cost", "/runs/live/"]
    lists += ["/releases/?days=30", "/sources/", "/sources/?view=table&page=2", *sources_of_attackers()]
    for path in lists:
        watch.open(path)
    for run_id in [*(run.run_id for run in posted), *live]:
        watch.open(reverse("runs:detail", args=[run_id]))

    assert watch.refused == []
    assert watch.faults == {}
    assert watch.unread(PAYLOADS) == []


def test_checkpoints_of_attackers_are_only_text(
    desk: Desks, handed_over: list[Checkpoint], tenant: Tenant, person: User
) -> None:
    watch = Watch(desk(person))
    pages = [reverse("runs:checkpoint", args=[one.checkpoint_id]) for one in handed_over]
    form = reverse("runs:checkpoint-decide", args=[handed_over[0].checkpoint_id])
    for path in ["/review/?size=200", f"{form}?action=resume", f"{form}?action=approve", *pages]:
        watch.open(path)
    read_while_open = watch.unread(PAYLOADS)
    decide_hostile_checkpoints(tenant, person)
    for path in ["/review/?state=any&size=200", "/settings/audit/", *pages[:5]]:
        watch.open(path)

    assert watch.refused == []
    assert watch.faults == {}
    assert read_while_open == []


def sources_of_attackers() -> list[str]:
    """Return pages of some sources that are called like the payloads."""
    sources = RunSource.objects.order_by("kind", "name").values_list("kind", "name").distinct()[:8]
    assert sources
    return [reverse("runs:source", args=source) for source in sources]


def test_things_of_attackers_are_only_text(desk: Desks, posted: list[Run], tenant: Tenant) -> None:
    person = make_member(tenant.organisation, Role.ADMIN)
    insert_hostile_rows(tenant, person, posted)
    watch = Watch(desk(person))
    pages = [
        *("/settings/account/", "/settings/organisations/", "/settings/members/", "/settings/keys/"),
        *("/settings/audit/", "/settings/keys/new/", "/settings/members/invite/", "/settings/storage/"),
        "/settings/health/",
        *("/views/runs/", "/connect/", "/stops/", "/stops/new/", "/guards/", "/policies/", "/runs/"),
        *("/blocklist/", "/blocklist/?tab=removed", "/blocklist/?tab=proposed"),
        f"/settings/organisations/{tenant.organisation.slug}/",
        *("/alerts/?state=any", "/alerts/rules/", "/alerts/rules/?tenant=acme", "/alerts/silences/"),
        *(f"/alerts/{incident.pk}/" for incident in Incident.objects.all()[:15]),
        *("/alerts/channels/", f"/alerts/channels/{Channel.objects.earliest('pk').pk}/"),
        *(f"/changes/{change.pk}/" for change in Change.objects.all()[:6]),
        *(f"/policies/versions/?{place_of(policy)}" for policy in JobPolicy.objects.all()[:6]),
        *(f"/policies/edit/?{place_of(policy)}" for policy in JobPolicy.objects.all()[:6]),
        *(reverse("runs:detail", args=[run.run_id]) for run in posted[:6]),
        *(reverse("runs:review", args=[run.run_id]) for run in posted[:3]),
    ]
    for path in pages:
        watch.open(path)

    assert watch.refused == []
    assert watch.faults == {}
    assert watch.unread(PAYLOADS) == []


def place_of(policy: JobPolicy) -> str:
    return urlencode({"tenant": "acme", "job": visible_text(policy.job_type)})


def test_every_text_of_ours_is_filled_or_can_hold_no_attack() -> None:
    filled = {f"{model.__name__}.{field}" for model, fields in FILLED.items() for field in fields}
    assert set(text_fields()) == filled | SAFE | DECIDED


def test_addresses_of_attackers_are_only_text(desk: Desks, posted: list[Run], person: User) -> None:
    watch = Watch(desk(person))
    for payload in PAYLOADS:
        query = urlencode({"job": payload, "q": payload, "sort": payload})
        watch.open(f"/runs/?{query}")
    for payload in PAYLOADS[::12]:
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
