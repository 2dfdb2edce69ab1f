"""What holds on every page: axe finds nothing, nothing scrolls sideways, no policy is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.choices import StopScope
from policies.publish.stops import issue_stop, lift_stop
from policies.publish.upkeep import rotate_secret
from policies.pull.fleet import Sign, write_signs
from runs.choices import NotificationState
from runs.models import Incident, Notification, Run
from runs.notify.addresses import WebhookAddress, new_signing_secret
from runs.notify.channels import Place, create_channel
from tests.browser.conftest import LOOKS, Desk, Desks, Look
from tests.browser.seeds import insert_day, insert_run
from tests.factories import make_member
from tests.runs.alerts.scene import make_scene
from tests.runs.rows import fold, insert_rows, make_row

WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}

CROSSWISE = (LOOKS[0], LOOKS[3])
"""Each theme and each width once; the pages of every day are looked at in all four."""
EVERY_DAY = {"overview", "runs", "run"}

PAGES: dict[str, Callable[[Tenant], str]] = {
    "overview": lambda _: "/",
    "overview-tables": lambda _: "/?halts=table&steps=table&range=7d",
    "overview-none": lambda _: "/?range=1h&job=nothing",
    "runs": lambda _: "/runs/",
    "runs-none": lambda _: "/runs/?job=nothing",
    "run": lambda tenant: run_of(tenant),
    "keys": lambda _: reverse("tenants:keys"),
    "key-create": lambda _: reverse("tenants:key-create"),
    "audit": lambda _: reverse("tenants:audit"),
    "connect": lambda _: reverse("runs:connect"),
    "quality": lambda _: reverse("runs:quality"),
    "stops": lambda tenant: stops_of(tenant),
    "stop-new": lambda _: reverse("policies:stop-new"),
    "guards": lambda tenant: guards_of(tenant),
    "signing": lambda tenant: signing_of(tenant),
    "signing-rotate": lambda tenant: reverse("policies:signing-rotate", args=[tenant.slug]),
    "channels": lambda tenant: (channel_of(tenant), reverse("runs:channels"))[1],
    "channel": lambda tenant: channel_of(tenant),
    "channel-new": lambda _: reverse("runs:channel-new") + "?kind=mail",
    "sources": lambda tenant: sources_of(tenant),
    "releases": lambda tenant: releases_of(tenant),
    "source": lambda tenant: f"{sources_of(tenant)}domain/xn--pple-43d.example/",
    "incidents": lambda tenant: scene(tenant) and f"{reverse('runs:incidents')}?state=any",
    "incident": lambda tenant: reverse("runs:incident", args=[scene(tenant).pk]),
    "rules": lambda tenant: scene(tenant) and reverse("runs:rules"),
    "rule": lambda _: f"{reverse('runs:rule-edit', args=['cost'])}?tenant=acme",
    "silences": lambda tenant: scene(tenant) and reverse("runs:silences"),
    "silence-new": lambda _: reverse("runs:silence-new"),
    "not-found": lambda _: "/nowhere/",
    "nonsense": lambda _: "/?range=3y",
}


def scene(tenant: Tenant) -> Incident:
    """Leave incidents, a rule and silences of the tenant."""
    return make_scene(tenant, make_member(tenant, Role.REVIEWER), datetime.now(UTC))


def stops_of(tenant: Tenant) -> str:
    order = {"reason": "it loops", "actor": SYSTEM, "now": datetime.now(UTC)}
    lift_stop(issue_stop(tenant, StopScope.TASK, "t-1", **order).stop, actor=SYSTEM, now=order["now"])
    issue_stop(tenant, StopScope.JOB_TYPE, "research", **order)
    return reverse("policies:stops")


def signing_of(tenant: Tenant) -> str:
    for _ in range(2):
        rotate_secret(tenant, actor=SYSTEM, now=datetime.now(UTC))
    return reverse("policies:signing")


def channel_of(tenant: Tenant) -> str:
    """Make a channel with a delivery in each state."""
    now = datetime.now(UTC)
    address = WebhookAddress("https://hooks.example.com/x", (new_signing_secret(),))
    made = create_channel(Place(tenant.organisation, tenant), address, {"name": "x"}, actor=SYSTEM, now=now)
    for state in NotificationState:
        times = {"created_at": now, "due_at": now, "ended_at": None if state == "waiting" else now}
        row = {
            "kind": "test",
            "subject": uuid4(),
            "transition": "test",
            "said": "Test",
            "outcome": "It answered 200.",
        }
        Notification.objects.create(channel=made, state=state, attempts=1, message=uuid4(), **row, **times)
    return reverse("runs:channel", args=[made.pk])


def releases_of(tenant: Tenant) -> str:
    """Let one release follow another, with halts that are new, and count their runs."""
    now = datetime.now(UTC)
    insert_rows([make_row(now - timedelta(days=1), tenant_id=tenant.pk, release="r1") for _ in range(60)])
    looped = {"outcome": "halted", "halt_reason": "repeated_call", "looped": True}
    insert_rows([make_row(now, tenant_id=tenant.pk, release="r2", **looped) for _ in range(60)])
    fold(now)
    return reverse("runs:releases")


def sources_of(tenant: Tenant) -> str:
    """Let a look-alike and a tool stand out in stopped runs."""
    used = [
        {"kind": "domain", "name": "xn--pple-43d.example", "calls": 9},
        {"kind": "tool", "name": "fetch", "calls": 3},
    ]
    for _ in range(6):
        insert_run(tenant, outcome="halted", halt_reason="source_cap", detail={"sources": used})
    insert_run(tenant, detail={"sources": used})
    return reverse("runs:sources")


def guards_of(tenant: Tenant) -> str:
    for number in range(5):
        applied = f"{number}:0123456789abcdef;src=server;age=1"
        write_signs({(tenant.pk, str(uuid4())): Sign(datetime.now(UTC), applied, "", "")})
    return reverse("policies:guards")


def run_of(tenant: Tenant) -> str:
    stopped = Run.objects.filter(tenant_id=tenant.pk).exclude(halt_reason="").first()
    assert stopped is not None
    return reverse("runs:detail", args=[stopped.run_id])


def faults(desk: Desk) -> list[str]:
    """Return what axe finds, each as ``rule: element``."""
    found = Axe().run(desk.page, options=WCAG).response["violations"]
    return [f"{fault['id']}: {node['html'][:160]}" for fault in found for node in fault["nodes"]]


def complaints(desk: Desk) -> list[str]:
    """Return what pages complained of, but for the answer 404 or 400 that a page was opened for."""
    return [text for text in desk.complaints if not re.search("status of 40[04]", text)]


@pytest.fixture
def seeded(tenant: Tenant) -> Tenant:
    insert_day(tenant)
    return tenant


def faults_by_look(
    desk: Desks, user: User | None, path: str, looks: Iterable[Look] = CROSSWISE
) -> dict[str, list[str]]:
    """Open the page in every look; return what is wrong in each, without those where nothing is."""
    found = {}
    for look in looks:
        at = desk(user, look)
        at.open(path)
        wide = at.sideways_scroll()
        if wrong := [*faults(at), *complaints(at), *([f"{wide} pixels too wide"] if wide else [])]:
            found[str(look)] = wrong
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_keeps_to_the_policy(
    desk: Desks, seeded: Tenant, person: User, name: str
) -> None:
    looks = LOOKS if name in EVERY_DAY else CROSSWISE
    assert faults_by_look(desk, person, PAGES[name](seeded), looks) == {}


def test_empty_overview_is_accessible(desk: Desks, tenant: Tenant, person: User) -> None:
    assert faults_by_look(desk, person, "/") == {}


def test_login_is_accessible(desk: Desks, tenant: Tenant) -> None:
    assert faults_by_look(desk, None, "/login/") == {}


def test_open_menu_is_accessible(desk: Desks, seeded: Tenant, person: User, look: Look) -> None:
    at = desk(person, look)
    at.open("/").locator(".nav .menu summary").click()

    assert faults(at) == []
    assert at.page.get_by_role("button", name="Sign out").bounding_box() is not None


@pytest.mark.parametrize("name", ["overview", "overview-tables", "runs", "run"])
def test_page_reflows_without_scrolling_sideways(
    desk: Desks, seeded: Tenant, person: User, name: str
) -> None:
    at = desk(person)
    at.open(PAGES[name](seeded))
    too_wide = {}
    for width in (320, 360, 720, 721, 940, 941, 1180, 1181):
        at.page.set_viewport_size({"width": width, "height": 740})
        too_wide[width] = at.sideways_scroll()

    assert set(too_wide.values()) == {0}, too_wide


@pytest.mark.parametrize("name", ["overview", "runs", "run"])
def test_targets_are_large_enough_for_a_finger(desk: Desks, seeded: Tenant, person: User, name: str) -> None:
    at = desk(person, Look("light", 360))
    at.open(PAGES[name](seeded))
    small = at.page.evaluate(
        """() => [...document.querySelectorAll('button, select, summary, .btn, .seg > *, .nav-link')]
            .filter(element => element.checkVisibility())
            .map(element => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
            .filter(([, box]) => box.height > 0 && (box.height < 24 || box.width < 24))
            .map(([html]) => html)"""
    )

    assert small == []
