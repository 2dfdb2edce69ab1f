"""The blocklist in the browser: a source blocked and taken back by keyboard; axe on every page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import cycle

from playwright.sync_api import Page

from guardops.tenants.models import Tenant, User
from policies.choices import BlockAction, Origin, SourceKind
from policies.models import BlockedSource
from policies.publish.sources import Reach, Wanted, block_sources, remove_sources
from tests.browser.conftest import LOOKS, Desks
from tests.browser.seeds import insert_run
from tests.browser.test_every_page import faults_by_look
from tests.browser.watch import Watch
from tests.hostile.payloads import PAYLOADS

NOW = datetime.now(UTC)


def seed(tenant: Tenant, person: User) -> BlockedSource:
    """Block sources of every kind and let runs use some; take one off the list again, return another."""
    reach = Reach(tenant.organisation, tenant)
    wanted = [
        Wanted("docs-mirror.example", reason="tarpit: 46 pages of nothing", note="seen by Kim"),
        Wanted("g\u043e\u043egle.example", origin=Origin.PROPOSED, evidence="/runs/"),
        Wanted("a-very-long-name-that-never-ends.and-its-host.example", exact=True),
        Wanted("browser.fetch_next", SourceKind.TOOL, action=BlockAction.LIMIT, most=3),
        Wanted("short.example", expires_at=NOW + timedelta(days=7)),
    ]
    outcomes, _ = block_sources(reach, wanted, actor=person, now=NOW)
    block_sources(Reach(), [Wanted("everywhere.example", reason="malware")], actor=person, now=NOW)
    [gone], _ = block_sources(reach, [Wanted("gone.example")], actor=person, now=NOW - timedelta(days=2))
    sources = [outcome.source for outcome in (outcomes[0], gone) if outcome.source]
    remove_sources(reach, [sources[1].pk], actor=person, now=NOW)
    marks = {"kind": "domain", "calls": 3, "quarantined": True, "proposed": True}
    for name in ("trap.example", "docs-mirror.example", "co.uk", "\u202etxt.exe"):
        stopped = {"outcome": "halted", "answer": "none", "halt_reason": "domain_cap"}
        insert_run(tenant, detail={"sources": [{**marks, "name": name}]}, **stopped)
    insert_run(tenant, detail={"sources": [{**marks, "name": "trap.example"}]})
    return sources[0]


def test_every_page_is_accessible(desk: Desks, tenant: Tenant, person: User) -> None:
    standing = seed(tenant, person)
    main = ["/blocklist/", "/blocklist/add/?name=trap.example&evidence=/runs/&origin=proposed"]
    others = [
        *("/blocklist/?tab=removed", "/blocklist/proposed/", "/runs/sources/used/?name=trap.example"),
        f"/blocklist/remove/?source={standing.pk}",
    ]
    looked_at = [(page, LOOKS) for page in main]
    looked_at += [(page, [look]) for page, look in zip(others, cycle(LOOKS), strict=False)]
    found = {page: faults_by_look(desk, person, page, looks) for page, looks in looked_at}
    assert {page: faults for page, faults in found.items() if faults} == {}


def press(page: Page, name: str) -> None:
    """Go to a button by keyboard, as somebody without a mouse does, and press it."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if name in (page.evaluate("document.activeElement.innerText") or ""):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"no way to {name!r} by keyboard")


def test_source_is_blocked_and_taken_back_by_keyboard(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_run(tenant, detail={"sources": [{"kind": "domain", "name": "trap.example", "calls": 1}]})
    at = desk(person)
    page = at.open("/blocklist/")
    page.keyboard.press("n")
    page.get_by_label("Names").focus()
    page.keyboard.type("https://www.Trap.example/page/2")
    press(page, "Look at what it does")
    page.get_by_role("link", name="1 completed run").wait_for()
    press(page, "Block 1 for")
    page.get_by_text("Published for 1 tenant").wait_for()
    assert BlockedSource.objects.get(removed_at=None).name == "trap.example"
    press(page, "Take it back")
    page.get_by_role("heading", name="Take back").wait_for()
    press(page, "Take it back")
    page.get_by_role("heading", name="Revert: Block trap.example").wait_for()
    assert not BlockedSource.objects.filter(removed_at=None).exists()
    assert at.complaints == []


def test_names_and_reasons_of_attackers_are_only_text(desk: Desks, tenant: Tenant, person: User) -> None:
    wanted = [
        Wanted(f"tool-{number}", SourceKind.TOOL, reason=payload[:300], note=payload)
        for number, payload in enumerate(PAYLOADS)
    ]
    wanted += [Wanted(payload, SourceKind.TOOL) for payload in PAYLOADS]
    block_sources(Reach(tenant.organisation, tenant), wanted, actor=person, now=NOW)
    marks = {"kind": "domain", "calls": 3, "proposed": True}
    stopped = {"outcome": "halted", "answer": "none", "halt_reason": "domain_cap"}
    insert_run(tenant, detail={"sources": [{**marks, "name": name} for name in PAYLOADS]}, **stopped)
    watch = Watch(desk(person))
    for path in ("/blocklist/", "/blocklist/?page=2", "/blocklist/proposed/", "/runs/sources/proposed/"):
        watch.open(path)
    assert watch.faults == {}
    assert watch.unread(PAYLOADS) == []
