"""Lists as people use them: by keyboard, as saved views, as files, and passed on by their address."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from guardops.tenants.models import Tenant, User
from guardops.tenants.saved_views import save_view
from tests.browser.conftest import LOOKS, Desks, Look
from tests.browser.test_every_page import faults
from tests.factories import make_member
from tests.runs.rows import insert_rows, make_row


@pytest.fixture
def listed(tenant: Tenant) -> Tenant:
    """Twelve runs of a minute each; every third halted, each dearer than the one before."""
    now = datetime.now(UTC)
    insert_rows(
        make_row(
            now - timedelta(minutes=number),
            tenant_id=tenant.pk,
            outcome="completed" if number % 3 else "halted",
            halt_reason="" if number % 3 else "no_progress",
            cost=number,
        )
        for number in range(1, 13)
    )
    return tenant


def selected(page: Page) -> list[int]:
    """Return the places of the rows that are marked as selected; the focus must be in the same row."""
    found: list[int] = page.evaluate(
        "[...document.querySelectorAll('[data-rows] > tr')]"
        ".flatMap((row, at) => row.classList.contains('is-at') ? [at] : [])"
    )
    return found


def focused_row(page: Page) -> int:
    at: int = page.evaluate(
        "[...document.querySelectorAll('[data-rows] > tr')].indexOf(document.activeElement.closest('tr'))"
    )
    return at


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def test_rows_are_walked_and_opened_by_keyboard(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?sort=-cost")
    press(page, "k")
    assert (selected(page), focused_row(page)) == ([11], 11)
    press(page, "k k j")
    assert (selected(page), focused_row(page)) == ([10], 10)
    press(page, "j j j j")
    assert selected(page) == [11]

    page.evaluate("document.activeElement.blur()")
    assert selected(page) == [11]
    press(page, "k Enter")
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))


def test_selection_survives_a_swap_of_the_rows(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?sort=cost")
    press(page, "j j j")  # the cheapest halted run
    page.locator("summary", has_text="Outcome").click()
    page.get_by_label("Halted").check()
    expect(page.locator("#run-count")).to_have_text("4 runs")

    expect(page.locator("tr.is-at")).to_contain_text("$3.00")
    assert selected(page) == [0]


def test_help_lists_the_keys_of_the_page_and_gives_the_focus_back(
    desk: Desks, listed: Tenant, person: User
) -> None:
    at = desk(person)
    page = at.open("/runs/")
    help_ = page.get_by_role("dialog", name="Keyboard")
    press(page, "j ?")
    expect(help_).to_be_visible()
    expect(help_.locator("dt")).to_have_text(
        ["j", "k", "Enter", "go", "gv", "ga", "gr", "gu", "ge", "gp", "gb", "gt", "gs", "/", "?", "Esc"]
    )
    expect(help_).to_contain_text("Find a run, a task or an agent")
    assert faults(at) == []

    press(page, "j j g o /")  # the help takes them all
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    press(page, "Escape")
    expect(help_).to_be_hidden()
    assert (selected(page), focused_row(page)) == ([0], 0)
    assert at.complaints == []


def test_keys_lead_to_places_and_to_the_search(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?q=nothing")
    press(page, "/")
    page.keyboard.type("jkgo?/")  # takes the place of what was there
    expect(page.get_by_role("searchbox")).to_have_value("jkgo?/")
    expect(page.get_by_role("dialog")).to_be_hidden()

    page.evaluate("document.activeElement.blur()")
    press(page, "g x o")
    assert "/runs/" in page.url
    press(page, "Control+g o g Shift+Control+o")
    assert "/runs/" in page.url
    press(page, "g o")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    press(page, "g r")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")


def test_keys_do_nothing_where_they_are_switched_off(desk: Desks, listed: Tenant, person: User) -> None:
    User.objects.filter(pk=person.pk).update(keyboard_shortcuts=False)
    page = desk(person).open("/runs/")
    press(page, "j ? g o /")

    assert selected(page) == []
    assert page.url.endswith("/runs/")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.locator(".nav .menu summary").click()
    page.get_by_role("button", name="Keyboard").click()
    expect(page.get_by_role("dialog")).to_contain_text("no key does anything")


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[-1]], ids=str)
def test_menus_of_the_list_are_accessible(desk: Desks, listed: Tenant, person: User, look: Look) -> None:
    save_view(owner=person, page="runs", name="Dearest of all the runs of this week", query="sort=-cost")
    at = desk(person, look)
    for path, menu in (("/runs/?sort=-cost", "View: Dearest"), ("/runs/", "Files")):
        page = at.open(path)
        page.locator("#run-tools summary", has_text=menu).click()
        sheet = page.locator("#run-tools [open] .sheet").bounding_box()
        assert sheet is not None
        assert 0 <= sheet["x"] <= look.width - sheet["width"]
        assert faults(at) == []
        assert at.sideways_scroll() == 0
    at.open("/views/runs/")
    assert faults(at) == []
    assert at.sideways_scroll() == 0
    assert at.complaints == []


def test_view_is_saved_and_opened_from_the_bar(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?sort=-cost")
    page.locator("summary", has_text="Outcome").click()
    page.get_by_label("Halted").check()
    expect(page.locator("#run-count")).to_have_text("4 runs")
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save this view as").fill("Dear halts")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Saved as “Dear halts”")
    expect(page.locator("#run-count")).to_have_text("4 runs")

    page.goto(page.url.partition("?")[0])
    page.locator("summary", has_text="Views").click()
    page.get_by_role("link", name="Dear halts").click()
    expect(page.locator("[data-rows] tr").first).to_contain_text("$12.00")
    assert "outcome=halted" in page.url


def test_views_are_kept_with_scripts_off(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person, java_script_enabled=False).open("/runs/?outcome=halted")
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save this view as").fill("Halts")
    page.get_by_role("button", name="Save").click()
    page.locator("summary", has_text="Halts").click()
    page.get_by_role("link", name="Rename or delete").click()
    page.get_by_label("Another name for Halts").fill("Stops")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("rowheader", name="Stops")).to_be_visible()
    page.get_by_role("button", name="Delete Stops").click()
    expect(page.get_by_text("No view is saved yet")).to_be_visible()


def test_filters_that_are_not_set_stay_out_of_the_address(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/settings/audit/")
    page.get_by_label("Action").select_option("insert")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"/settings/audit/\?action=insert$"))


def test_clock_once_chosen_is_kept_with_scripts_off(desk: Desks, listed: Tenant, person: User) -> None:
    chosen = desk(person, timezone_id="Asia/Kathmandu")
    page = chosen.open("/runs/")
    page.get_by_role("button", name="Local").click()
    expect(page.locator("[data-rows] time").first).to_contain_text("+0545")

    plain = desk(person, java_script_enabled=False, storage_state=chosen.context.storage_state())
    expect(plain.open("/runs/").locator("[data-rows] time").first).to_contain_text("+0545")


def test_file_comes_as_a_download(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/?outcome=halted&sort=-cost")
    tools = page.locator("#run-tools")
    tools.locator("summary", has_text="Files").click()
    expect(tools).to_contain_text("4 rows, as filtered and in this order")
    for form in ("CSV", "JSON"):
        with page.expect_download() as started:
            tools.get_by_role("link", name=form).click()
        expect(tools.get_by_role("status")).to_contain_text("Done: 4 rows")
        assert started.value.suggested_filename.startswith("guardops-runs-2")
        text = started.value.path().read_text()
        assert len(json.loads(text)["rows"] if form == "JSON" else text.splitlines()[1:]) == 4

    plain = desk(person, java_script_enabled=False).open("/runs/?outcome=halted")
    plain.locator("#run-tools summary", has_text="Files").click()
    with plain.expect_download() as started:
        plain.locator("#run-tools").get_by_role("link", name="CSV").click()
    assert len(started.value.path().read_text().splitlines()) == 1 + 4


def test_file_that_breaks_off_is_not_saved_and_says_so(desk: Desks, listed: Tenant, person: User) -> None:
    page = desk(person).open("/runs/")
    page.locator("#run-tools summary", has_text="Files").click()
    page.route("**/runs/export.csv*", lambda route: route.abort())
    page.locator("#run-tools").get_by_role("link", name="CSV").click()
    expect(page.locator("#run-tools").get_by_role("status")).to_contain_text("was not saved")


def test_address_shows_somebody_else_the_same_rows(desk: Desks, listed: Tenant, person: User) -> None:
    mine = desk(person).open("/runs/?size=3")
    mine.get_by_role("link", name="Cost").click()
    expect(mine.locator("[data-rows] tr").first).to_contain_text("$12.00")
    mine.get_by_role("link", name="Next").click()
    expect(mine.locator("[data-rows] tr").first).to_contain_text("$9.00")
    theirs = desk(make_member(listed)).open(mine.url.partition("/runs/")[1] + mine.url.partition("/runs/")[2])

    links = "[...document.querySelectorAll('[data-rows] a')].map(link => link.getAttribute('href'))"
    assert theirs.evaluate(links) == mine.evaluate(links)
