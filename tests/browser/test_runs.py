"""The runs list and the page of a run as people use them: menus, orders, pages, hostile text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from guardops.guard import events
from guardops.tenants.models import Tenant, User
from runs.ingest.record import record_runs
from runs.ingest.rows import Receipt, project
from tests.browser.conftest import LOOKS, Desks, Look
from tests.browser.seeds import HOSTILE
from tests.browser.test_every_page import faults
from tests.factories import make_run_event
from tests.runs.rows import insert_rows, make_row


@pytest.fixture
def listed(tenant: Tenant) -> Tenant:
    """Sixty runs of a minute each: every third halted, each dearer than the one before."""
    now = datetime.now(UTC)
    insert_rows(
        make_row(
            now - timedelta(minutes=number),
            tenant_id=tenant.pk,
            outcome="completed" if number % 3 else "halted",
            halt_reason="" if number % 3 else "no_progress",
            cost=number,
        )
        for number in range(1, 61)
    )
    return tenant


def test_filter_from_a_menu_narrows_in_place(desk: Desks, listed: Tenant, person: User) -> None:
    at = desk(person)
    page = at.open("/runs/")
    expect(page.locator("#run-count")).to_have_text("60 runs")

    page.locator("summary", has_text="Outcome").click()
    page.get_by_label("Halted").check()
    expect(page.locator("#run-count")).to_have_text("20 runs")
    expect(page.get_by_label("Halted")).to_be_visible()
    assert page.url.endswith("/runs/?range=24h&outcome=halted")
    assert faults(at) == []

    page.reload()
    expect(page.locator("#run-count")).to_have_text("20 runs")
    page.get_by_role("link", name="Outcome Halted").click()
    expect(page.locator("#run-count")).to_have_text("60 runs")
    assert at.complaints == []


def test_order_and_pages_are_in_the_address_and_go_back(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?stopped=1&size=6")
    page.get_by_role("link", name="Cost").click()
    expect(page.get_by_role("columnheader", name="Cost")).to_have_attribute("aria-sort", "descending")
    first = page.locator("#runs tbody tr").first
    expect(first).to_contain_text("$60.00")

    page.get_by_role("link", name="Next").click()
    expect(first).to_contain_text("$42.00")
    assert "sort=-cost" in page.url

    page.go_back()
    expect(first).to_contain_text("$60.00")
    page.go_forward()
    expect(first).to_contain_text("$42.00")
    page.get_by_role("link", name="Previous").click()
    expect(first).to_contain_text("$60.00")


def test_order_survives_another_filter(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?sort=cost")
    page.locator("summary", has_text="Outcome").click()
    page.get_by_label("Halted").check()
    expect(page.locator("#runs tbody tr").first).to_contain_text("$3.00")


def test_list_works_with_scripts_off(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person, java_script_enabled=False).open("/runs/")
    page.locator("summary", has_text="Outcome").click()
    page.get_by_label("Halted").check()
    page.get_by_role("button", name="Apply").and_(page.locator(".sheet button")).locator(
        "visible=true"
    ).click()
    expect(page.locator("#run-count")).to_have_text("20 runs")
    page.get_by_role("link", name="Took").click()
    expect(page.get_by_role("columnheader", name="Took")).to_have_attribute("aria-sort", "descending")
    page.locator("#runs tbody a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Stopped after 5 steps: nothing new was learned"
    )


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_run_full_of_hostile_text_stays_text(desk: Desks, tenant: Tenant, person: User, look: Look) -> None:
    text = HOSTILE * 4
    event = make_run_event(
        ended_at=datetime.now(UTC),
        job_type=text[:128],
        agent=text[:128],
        root_task_id=text[:128],
        release=text[:128],
        outcome=events.Outcome.HALTED,
        halt_reason=text[:64],
        last_steps=[events.Step(step=1, tool=text[:128], args=text * 9)],
        interventions=[events.Intervention(step=1, action=events.Action.HALT, reason=text[:64])],
        ledger=[events.LedgerRow(fingerprint=text[:80], tool=text[:128], last_error=text[:64])],
        sources=[events.Source(kind=events.SourceKind.DOMAIN, name=text)],
        limits={text: text, "max_steps": [text]},
        halt_detail={text: text},
        attributes={text[:64]: text},
    )
    receipt = Receipt(at=datetime.now(UTC))
    record_runs([project(event, receipt, index=0, tenant_id=tenant.pk, sanitized=False)])

    at = desk(person, look)
    for path in (f"/runs/{event.run_id}/", "/runs/"):
        page = at.open(path)
        for summary in page.locator("main details > summary").all():
            summary.click()
        dom = page.evaluate("document.documentElement.outerHTML")
        assert "\u202e" not in dom
        assert page.locator("main img").count() == 0
        assert at.sideways_scroll() == 0
        assert faults(at) == []
    assert at.complaints == []
