"""The overview in a browser: filters, live refresh, clock and theme, with and without scripts."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from guardops.tenants.models import Tenant, User
from tests.browser.conftest import Desks, Look
from tests.browser.seeds import HOSTILE, insert_day, insert_run
from tests.factories import PASSWORD, make_operator, make_tenant

POLL = 10_500  # milliseconds, a little over one poll


def runs_shown(page: Page) -> int:
    tile = page.locator(".tile", has_text="stopped by a guard").locator(".tile-value")
    return int(tile.inner_text().replace(",", ""))


def test_filter_goes_into_the_address_and_narrows_the_panels(
    desk: Desks, tenant: Tenant, person: User
) -> None:
    insert_day(tenant)
    at = desk(person)
    page = at.open("/")
    before = runs_shown(page)
    job_type = page.get_by_role("combobox", name="Job type")
    job_type.focus()
    job_type.select_option("coding")

    expect(page.locator(".pick.is-set")).to_contain_text("Job type")
    assert parse_qs(urlsplit(page.url).query) == {"range": ["24h"], "job": ["coding"]}
    assert 0 < runs_shown(page) < before
    assert page.evaluate("document.activeElement.id") == "filter-job"
    assert at.complaints == []


def halts_table(page: Page) -> list[str]:
    """Return the table's texts without how far the running bucket has come, which goes on."""
    return [re.sub(r"[^\n\t·,(]*so far", "", text) for text in page.locator("#halts table").all_inner_texts()]


def test_address_pasted_elsewhere_shows_the_same(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person).open("/")
    page.get_by_role("combobox", name="Job type").select_option("support")
    expect(page.locator(".pick.is-set")).to_be_visible()
    page.get_by_role("group", name="Show halts as").get_by_text("Table").click()
    expect(page.get_by_role("region", name="Halts over time")).to_be_visible()
    elsewhere = desk(person).page
    elsewhere.goto(page.url)

    assert halts_table(elsewhere) == halts_table(page)


def test_back_returns_to_the_view_before(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person).open("/")
    page.get_by_role("group", name="Show halts as").get_by_text("Table").click()
    expect(page.locator("#halts .chart")).to_have_count(0)
    page.go_back()

    expect(page.locator("#halts .chart-wide")).to_be_visible()


def test_new_run_appears_by_itself_and_keeps_the_focus(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    at = desk(person)
    at.page.clock.install()
    page = at.open("/")
    before = runs_shown(page)
    link = page.locator(".tile", has_text="Loop rate").locator(".tile-value a")
    link.focus()
    insert_run(tenant)
    page.clock.run_for(POLL)

    expect(page.locator(".tile-value").first).to_have_text(f"{before + 1:,}")
    assert link.evaluate("link => document.activeElement === link")
    assert at.complaints == []


def test_page_that_comes_back_into_view_looks_at_once(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person).open("/")
    before = runs_shown(page)
    insert_run(tenant)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    expect(page.locator(".tile-value").first).to_have_text(f"{before + 1:,}")


def test_failing_poll_says_stale_until_it_works_again(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    at = desk(person)
    at.page.clock.install()
    page = at.open("/")
    page.route("**/?*", lambda route: route.abort())
    page.route("**/", lambda route: route.abort())
    page.clock.run_for(POLL)

    expect(page.locator("#as-of")).to_have_text(re.compile(r"Stale, last answer \d\d:\d\d:\d\d UTC"))
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/?*")
    page.unroute("**/")
    page.clock.run_for(POLL)
    expect(page.locator("#as-of")).to_have_text(re.compile("^As of"))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_poll_after_signing_out_elsewhere_leads_to_the_login(
    desk: Desks, tenant: Tenant, person: User
) -> None:
    insert_day(tenant)
    at = desk(person)
    at.page.clock.install()
    page = at.open("/")
    at.context.clear_cookies(name="sessionid")
    page.clock.run_for(POLL)

    expect(page).to_have_url(re.compile("/login/"))


def test_first_run_turns_the_empty_page_into_the_overview(desk: Desks, tenant: Tenant, person: User) -> None:
    at = desk(person)
    at.page.clock.install()
    page = at.open("/")
    expect(page.get_by_role("heading", name="No runs yet in acme")).to_be_visible()
    insert_run(tenant)
    page.clock.run_for(POLL)

    expect(page.get_by_role("heading", name="Halts by reason")).to_be_visible()


def test_local_clock_is_remembered(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person, timezone_id="Asia/Kathmandu").open("/")
    expect(page.locator("#as-of")).to_contain_text("UTC")
    page.get_by_role("button", name="Local").click()
    expect(page.locator("#as-of")).to_contain_text("+0545")
    page.reload()

    expect(page.locator("#as-of")).to_contain_text("+0545")
    expect(page.get_by_role("button", name="Local")).to_have_attribute("aria-pressed", "true")


def test_theme_beats_the_systems_and_is_remembered(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person, Look("light", 1440)).open("/")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Dark").click()
    page.reload()

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 18, 23)"


def test_person_signs_in_and_out(desk: Desks, tenant: Tenant, person: User) -> None:
    page = desk(None).open("/?range=7d")
    page.get_by_label("Name").fill("mara")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/\?range=7d$"))
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Sign out").click()

    expect(page).to_have_url(re.compile("/login/"))


def test_page_works_with_scripts_off(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    insert_run(make_tenant("globex"))
    page = desk(make_operator(), java_script_enabled=False).open("/")
    everything = runs_shown(page)
    page.get_by_role("combobox", name="Tenant").select_option("globex")
    page.get_by_role("button", name="Apply").click()
    assert (everything > 1, runs_shown(page)) == (True, 1)
    page.get_by_role("group", name="Show halts as").get_by_text("Table").click()
    expect(page.get_by_role("region", name="Halts over time")).to_be_visible()
    page.get_by_role("link", name="Chart").first.click()
    page.locator(".tile-value a").first.click()

    expect(page.locator("#run-count")).to_have_text("1 run")


def test_mark_of_a_chart_opens_its_rows(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_day(tenant)
    page = desk(person).open("/")
    mark = page.locator("#halts .chart-wide a:has(.mark)").first
    title = mark.locator("title").text_content() or ""
    count = re.search(r"([\d,]+)$", title)
    assert count is not None
    mark.click()

    expect(page.locator("#run-count")).to_have_text(re.compile(rf"^{count[1]} runs?$"))


def test_text_of_agents_is_shown_and_never_obeyed(desk: Desks, tenant: Tenant, person: User) -> None:
    insert_run(
        tenant, job_type=HOSTILE, release=HOSTILE, halt_reason=HOSTILE, outcome="halted", answer="none"
    )
    insert_run(tenant, job_type=HOSTILE, release=HOSTILE)
    at = desk(person)
    page = at.open("/?halts=table&steps=table")

    expect(page.locator("#steps")).to_contain_text("<img src=x onerror=alert(1)>⟦U+202E⟧⟦U+200B⟧gnp.exe")
    assert page.locator("img").count() == 0
    assert not re.search("[\u202e\u200b]", page.locator("body").inner_text())
    assert at.complaints == []


@pytest.mark.parametrize("path", ["/", "/runs/"])
def test_policy_of_the_pages_is_strict(desk: Desks, tenant: Tenant, person: User, path: str) -> None:
    insert_day(tenant)
    at = desk(person)
    with at.page.expect_response(re.compile(re.escape(path) + "$")) as answered:
        at.open(path)
    policy = answered.value.headers["content-security-policy"]
    blocked = at.page.evaluate(
        """() => new Promise(resolve => {
            document.addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            setTimeout(() => resolve('nothing'), 2000);
        })"""
    )

    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert blocked == "script-src-elem"
    assert at.page.evaluate("window.ran") is None
