"""The overview's page: who sees what, its two renderings, and links to exactly the rows of a number."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.reports.metrics import AsOf, Scope
from runs.reports.overview import read_overview
from runs.reports.windows import parse_window
from tests.factories import make_key, make_member, make_operator, make_tenant, make_user
from tests.faults.agent_process import SNIPPET
from tests.runs.rows import insert_rows, make_row, random_rows

pytestmark = pytest.mark.django_db(transaction=True)

HTMX = {"HX-Request": "true"}


class Links(HTMLParser):
    """Collects the page's links with their texts; a mark of a chart has its title as text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._href: str | None = None
        self._text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._href, self._text = dict(attrs).get("href"), []

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._href is not None:
            self.found.append((self._href, "".join(self._text).strip()))
            self._href = None


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def html_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return response.content.decode()


def insert_random(tenant: Tenant, now: datetime, count: int = 120) -> None:
    rows = random_rows(random.Random(7), count, now - timedelta(hours=2), now)
    insert_rows(row | {"tenant_id": tenant.pk} for row in rows)


def test_fragment_is_what_the_page_includes(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(tenant))
    page, fragment = html_of(client.get("/")), html_of(client.get("/", headers=HTMX))

    assert "<html" not in fragment
    assert 'id="as-of" hx-swap-oob="true"' in fragment
    panels = re.compile(r'<section class="panel" id="halts".*?</section>', re.S)
    assert panels.findall(page) == panels.findall(fragment) != []


def test_restored_history_gets_the_whole_page(tenant: Tenant) -> None:
    client = signed_in(make_member(tenant))

    assert "<html" in html_of(client.get("/", headers=HTMX | {"HX-History-Restore-Request": "true"}))


def test_poll_without_news_moves_only_the_clock(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(tenant))
    window = {"from": (now - timedelta(hours=3)).isoformat(), "to": now.isoformat()}
    with time_machine.travel(datetime.now(UTC), tick=False):  # a new minute would be news
        same = client.get(client.get("/", window).context["poll"], headers=HTMX)

    assert same["HX-Reswap"] == "none"
    assert 'id="as-of"' in html_of(same)
    assert "<section" not in html_of(same)


def test_poll_with_news_brings_the_panels(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(tenant))
    poll = client.get("/").context["poll"]
    insert_rows([make_row(now, tenant_id=tenant.pk)])
    news = client.get(poll, headers=HTMX)

    assert "HX-Reswap" not in news
    assert 'id="halts"' in html_of(news)


def test_long_tail_is_said_and_not_hidden(
    tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_random(tenant, now, 20)
    found = read_overview(Scope((tenant.pk,)), parse_window({}, now, "UTC"), now=now)
    behind = replace(found, as_of=AsOf(now - timedelta(minutes=5), exact=False, tail_rows=60_001))
    monkeypatch.setattr("runs.reports.pages.read_overview", lambda *_, **__: behind)

    assert "60,001 newer runs not yet counted" in html_of(signed_in(make_member(tenant)).get("/"))


def test_open_selects_are_not_swapped_by_a_poll(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(tenant))

    assert 'id="filters"' not in html_of(client.get("/", {"seen": "old"}, headers=HTMX))
    assert 'id="filters"' in html_of(client.get("/", headers=HTMX))


def test_stranger_gets_404_for_a_tenant_and_sees_nothing_of_it(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(make_tenant("globex")))

    assert client.get("/?tenant=acme").status_code == 404
    assert "No runs yet in globex" in html_of(client.get("/"))


def test_operator_sees_all_tenants_together(tenant: Tenant, now: datetime) -> None:
    other = make_tenant("globex")
    insert_rows([make_row(now, tenant_id=pk) for pk in (tenant.pk, tenant.pk, other.pk)])
    client = signed_in(make_operator())

    assert client.get("/").context["tiles"].tiles[0].value == "3"
    assert client.get("/?tenant=globex").context["tiles"].tiles[0].value == "1"


def test_person_without_a_tenant_is_told_what_to_do() -> None:
    assert "not a member of any tenant" in html_of(signed_in(make_user()).get("/"))


@pytest.mark.parametrize(
    "query", ["range=3y", "job=%00", "from=x", "halts=pie", "steps_job=a", "range=24h&tenant=%00"]
)
def test_nonsense_in_the_address_is_an_error_of_the_reader(tenant: Tenant, query: str) -> None:
    assert signed_in(make_member(tenant)).get(f"/?{query}").status_code in {400, 404}


def test_times_and_days_are_in_the_viewers_zone(tenant: Tenant, now: datetime) -> None:
    insert_random(tenant, now, 20)
    client = signed_in(make_member(tenant))
    client.cookies["zone"] = "Asia/Kathmandu"

    assert "+0545" in html_of(client.get("/"))
    assert client.get("/?range=7d").context["asked"].window.zone == "Asia/Kathmandu"


def test_window_without_runs_says_so_and_offers_a_wider_one(tenant: Tenant, now: datetime) -> None:
    insert_rows([make_row(now - timedelta(days=3), tenant_id=tenant.pk)])
    html = html_of(signed_in(make_member(tenant)).get("/?range=1h&job=coding"))

    assert "No run of this job type and release ended in this time" in html
    assert 'href="/?range=90d"' in html


def test_no_completed_task_is_none_and_not_zero(tenant: Tenant, now: datetime) -> None:
    insert_rows(
        [make_row(now, tenant_id=tenant.pk, outcome="halted", halt_reason="step_budget", answer="none")]
    )
    response = signed_in(make_member(tenant)).get("/")

    assert response.context["tiles"].cost.value is None
    assert "no task was completed" in html_of(response)


def test_few_tasks_show_their_highest_in_place_of_p99(tenant: Tenant, now: datetime) -> None:
    insert_rows([make_row(now, tenant_id=tenant.pk, steps=steps) for steps in (3, 9, 4)])

    assert "max 9" in html_of(signed_in(make_member(tenant)).get("/"))


@pytest.mark.parametrize(("role", "offered"), [(Role.ADMIN, True), (Role.VIEWER, False)])
def test_first_steps_offer_a_key_to_admins_only(tenant: Tenant, role: Role, offered: bool) -> None:
    html = html_of(signed_in(make_member(tenant, role)).get("/"))

    assert ("/settings/keys/new/" in html) is offered


def test_first_step_is_done_with_a_key_in_force(tenant: Tenant, now: datetime) -> None:
    key, plain = make_key(tenant, now=now)
    html = html_of(signed_in(make_member(tenant, Role.ADMIN)).get("/"))

    assert str(key) in html
    assert plain not in html


def test_first_run_turns_first_steps_into_the_overview(tenant: Tenant, now: datetime) -> None:
    client = signed_in(make_member(tenant))
    poll = client.get("/").context["poll"]
    assert "HX-Refresh" not in client.get(poll, headers=HTMX)
    insert_rows([make_row(now, tenant_id=tenant.pk)])

    assert client.get(poll, headers=HTMX)["HX-Refresh"] == "true"


@pytest.mark.parametrize("path", ["/", "/connect/"])
def test_the_lines_beside_an_agent_are_the_ones_that_are_tested(tenant: Tenant, path: str) -> None:
    html = html_of(signed_in(make_member(tenant)).get(path))
    snippet = re.search(r'id="snippet-guard"[^>]*>(.*?)</pre>', html, re.S)

    assert snippet is not None
    assert snippet[1] == SNIPPET.read_text(encoding="utf-8")


def test_overview_asks_the_database_a_fixed_number_of_times(
    tenant: Tenant, now: datetime, django_assert_max_num_queries: Any
) -> None:
    insert_random(tenant, now)
    client = signed_in(make_member(tenant))
    with django_assert_max_num_queries(24):
        client.get("/?range=7d")


def test_zone_without_summer_time_is_a_zone_like_any_other(client: Client) -> None:
    client.force_login(make_member(make_tenant()))
    client.cookies["zone"] = "Etc/GMT+5"
    assert client.get("/").status_code == 200


def test_first_steps_lead_to_a_key_for_the_very_tenant(client: Client) -> None:
    tenant = make_tenant("acme")
    make_tenant("globex", organisation=tenant.organisation)
    client.force_login(make_member(tenant.organisation, Role.ADMIN))
    form = client.get(client.get("/?tenant=acme").context["first"].create_href).context["form"]
    assert [str(box.data["value"]) for box in form["tenants"] if box.data["selected"]] == ["acme"]
