"""The review queue as people use it: by keyboard, while others work on it too, and for several at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from guardops.guard.decisions import DecisionAction
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.choice import Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import decide
from runs.models import Checkpoint
from tests.browser.conftest import LOOKS, Desks, Look
from tests.browser.test_every_page import faults
from tests.browser.test_lists import focused_row, press, selected
from tests.factories import make_checkpoint, make_member

REASONS = ("no_progress", "repeated_call", "tool_auth_error", "step_budget")
STOP = Choice(DecisionAction.STOP, reason="enough")


def open_one(tenant: Tenant, minutes: int, **fields: Any) -> Checkpoint:
    now = datetime.now(UTC)
    return make_checkpoint(tenant, opened_at=now - timedelta(minutes=minutes), received_at=now, **fields)


@pytest.fixture
def waiting(tenant: Tenant) -> list[Checkpoint]:
    """Four checkpoints, the most urgent first."""
    return [
        open_one(tenant, 40 - 8 * number, reason=reason, job_type="research" if number else "coding")
        for number, reason in enumerate(REASONS)
    ]


@pytest.fixture
def kim(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="kim")


def rows_of(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('[data-rows] > tr')].map(row => row.id)")
    return found


def ask_now(page: Page) -> None:
    """Have the page ask for what is new, as it does every eight seconds."""
    with page.expect_response(re.compile("/review/new/")):
        page.evaluate("htmx.trigger('#queue-live', 'resume')")


def heights(page: Page) -> list[float]:
    found: list[float] = page.evaluate(
        "[...document.querySelectorAll('[data-rows] > tr')].map(row => row.getBoundingClientRect().top)"
    )
    return found


def test_rows_are_claimed_chosen_and_opened_by_keyboard(
    desk: Desks, waiting: list[Checkpoint], person: User
) -> None:
    at = desk(person)
    page = at.open("/review/")
    press(page, "c x")  # nothing is selected yet
    expect(page.get_by_role("button", name="Release")).to_have_count(0)
    press(page, "j j c")
    row = page.locator("[data-rows] > tr").nth(1)
    expect(row.get_by_role("button", name="Release")).to_be_visible()
    expect(row).to_contain_text("you")
    assert (selected(page), focused_row(page)) == ([1], 1)
    press(page, "x j x")
    expect(page.locator("[data-chosen]")).to_have_text("2 chosen.")
    press(page, "k c")
    expect(row.get_by_role("button", name="Claim")).to_be_visible()
    assert (selected(page), focused_row(page)) == ([1], 1)

    press(page, "?")
    help_ = page.get_by_role("dialog", name="Keyboard")
    for key in ("j", "k", "Enter", "c", "x", "/"):
        expect(help_.locator("dt").filter(has_text=re.compile(f"^{key}$"))).to_be_visible()
    press(page, "Escape /")
    page.keyboard.type("cx")  # into the search
    expect(row.get_by_role("button", name="Claim")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    page.evaluate("document.activeElement.blur()")
    press(page, "j Enter")
    expect(page).to_have_url(re.compile(f"/review/{waiting[2].checkpoint_id}/"))
    assert at.complaints == []


def test_decision_leads_to_the_next_row_of_the_same_list(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User
) -> None:
    page = desk(person).open("/review/?job=research")
    press(page, "j Enter")
    page.wait_for_url(f"**/review/{waiting[1].checkpoint_id}/**")
    press(page, "s")
    page.get_by_role("dialog").get_by_role("button", name="Stop the run").press("Enter")
    page.wait_for_url("**/review/?job=research#row-*")
    assert rows_of(page)[0] == f"row-acme-{waiting[2].checkpoint_id.hex}"
    assert (selected(page), focused_row(page)) == ([0], 0)


def test_open_queue_says_what_is_new_and_moves_no_row(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User, kim: User
) -> None:
    at = desk(person)
    page = at.open("/review/")
    press(page, "j j")
    before, places = rows_of(page), heights(page)
    new = open_one(tenant, 59)  # more urgent than all
    open_one(tenant, 1)
    claim(waiting[0], actor=kim, now=datetime.now(UTC))
    decide(waiting[3], STOP, actor=kim, now=datetime.now(UTC), version=1)
    ask_now(page)

    pill = page.get_by_role("link", name="2 new checkpoints")
    expect(pill).to_be_visible()
    expect(page.locator("#queue-news")).to_have_text("2 new checkpoints")
    rows = page.locator("[data-rows] > tr")
    expect(rows.nth(0)).to_contain_text("kim")
    expect(rows.nth(0).get_by_role("button")).to_have_count(0)
    expect(rows.nth(3)).to_contain_text("Stopped")
    expect(rows.nth(3).get_by_role("checkbox")).to_be_disabled()
    assert (rows_of(page), heights(page)) == (before, places)
    assert (selected(page), focused_row(page)) == ([1], 1)
    assert faults(at) == []

    press(page, "n")
    expect(rows).to_have_count(5)
    assert rows_of(page)[0] == f"row-acme-{new.checkpoint_id.hex}"
    expect(pill).to_have_count(0)
    assert at.complaints == []


def test_queue_says_when_it_can_not_ask_any_more(
    desk: Desks, waiting: list[Checkpoint], person: User
) -> None:
    page = desk(person).open("/review/")
    expect(page.locator("#queue-live")).to_have_attribute("hx-trigger", re.compile(r"every ([1-9]|10)s"))

    def fail(route: Route) -> None:
        route.abort()

    page.route("**/review/new/**", fail)
    page.evaluate("htmx.trigger('#queue-live', 'resume')")
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    expect(page.locator("#as-of")).to_contain_text("Stale, last answer")
    page.unroute("**/review/new/**", fail)
    ask_now(page)
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_hidden()
    expect(page.locator("#as-of")).to_contain_text("As of")


def test_filters_and_order_are_in_the_address_and_kept_as_a_view(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User, kim: User
) -> None:
    page = desk(person).open("/review/")
    page.get_by_label("Job type").select_option("research")
    expect(page.locator("#queue-count")).to_contain_text("3 waiting")
    page.get_by_label("Sort").select_option("-due")
    expect(page).to_have_url(re.compile(r"/review/\?job=research&sort=-due$"))
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Waits")
    page.get_by_role("link", name="Waits").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Waits")
    expect(page.get_by_label("Sort")).to_have_value("")
    page.get_by_label("Sort").select_option("-cost")
    expect(page).to_have_url(re.compile(r"sort=-cost"))
    theirs = desk(kim).open(page.url.partition("/review/")[1] + page.url.partition("/review/")[2])
    assert rows_of(theirs) == rows_of(page)

    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save this view as").fill("Research")
    page.get_by_role("button", name="Save").click()
    page.goto(page.url.partition("?")[0])
    page.locator("summary", has_text="Views").click()
    page.get_by_role("link", name="Research").click()
    expect(page).to_have_url(re.compile(r"job=research&sort=-cost"))
    expect(page.locator("#queue-count")).to_contain_text("3 waiting")


def test_several_are_decided_with_a_result_for_each(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User, kim: User
) -> None:
    at = desk(person, LOOKS[1])
    page = at.open("/review/")
    page.mouse.wheel(0, 300)
    open_one(tenant, 1)
    ask_now(page)
    page.get_by_role("link", name="1 new checkpoint").click(trial=True)  # nothing stands before it
    for box in page.locator("input[name=pick]").all():
        box.check()
    page.get_by_role("button", name="Force an answer…").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Force an answer: 4 checkpoints")
    assert faults(at) == []
    decide(waiting[1], STOP, actor=kim, now=datetime.now(UTC), version=1)
    page.get_by_role("button", name="Force an answer: 4").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Answer forced: 3 of 4")
    expect(page.locator(".bulk-told > li").nth(1)).to_contain_text("kim decided it")
    assert (faults(at), at.sideways_scroll()) == ([], 0)
    page.get_by_role("button", name="Undo all 3").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("3 taken back")
    assert at.complaints == []


def test_queue_works_with_scripts_off(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User
) -> None:
    page = desk(person, java_script_enabled=False).open("/review/?job=research")
    first = page.locator("[data-rows] > tr").first
    first.get_by_role("button", name="Claim").click()
    expect(page).to_have_url(re.compile(r"/review/\?job=research$"))
    expect(first.get_by_role("button", name="Release")).to_be_visible()
    first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("button", name="Stop the run: 1").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Stopped: 1 of 1")
    page.get_by_role("link", name="Back to the queue").click()
    expect(page.locator("[data-rows] > tr")).to_have_count(2)


OUTSIDE = """() => {
    const edge = document.querySelector('.panel').getBoundingClientRect().right;
    return [...document.querySelectorAll('[data-rows] :is(a, button, label)')]
        .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > edge)
        .map(one => one.outerHTML.slice(0, 80));
}"""
SMALL = """() => [...document.querySelectorAll('.panel :is(button, select, summary, .btn, .check)')]
    .filter(one => one.checkVisibility())
    .map(one => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
    .filter(([, box]) => box.height < 24 || box.width < 24).map(([html]) => html)"""


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_queue_fits_every_screen(
    desk: Desks, tenant: Tenant, waiting: list[Checkpoint], person: User, kim: User, look: Look
) -> None:
    now = datetime.now(UTC)
    claim(waiting[0], actor=kim, now=now)
    claim(waiting[1], actor=person, now=now)
    decide(waiting[3], STOP, actor=kim, now=now, version=1)
    at = desk(person, look)
    page = at.open("/review/?state=any")
    assert (faults(at), at.complaints) == ([], [])
    wrong = {}
    for width in (320, 720, 721, 940, 1181, 1440) if look == LOOKS[0] else (look.width,):
        page.set_viewport_size({"width": width, "height": look.height})
        found = at.sideways_scroll(), page.evaluate(OUTSIDE), page.evaluate(SMALL)
        if found != (0, [], []):
            wrong[width] = found
    assert wrong == {}
