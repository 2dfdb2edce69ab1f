"""What is live, on the overview: each number links to exactly its runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.test import Client

from guardops.tenants.models import Tenant
from runs.reports.live import read_live
from runs.reports.metrics import LiveCounts, Scope
from tests.factories import make_member, make_tenant
from tests.runs.live_rows import insert_live
from tests.runs.rows import insert_rows, make_row

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(minutes=6)


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant("acme")
    insert_rows([make_row(NOW - timedelta(minutes=1), tenant_id=tenant.pk)])
    return tenant


@pytest.fixture
def viewer(tenant: Tenant, client: Client) -> Client:
    client.force_login(make_member(tenant))
    return client


def fill(tenant: Tenant) -> None:
    for limit, pressure, last_at in (
        ("max_steps", 80, NOW),
        ("max_steps", 100, NOW),
        ("max_cost", 95, LONG_AGO),
        ("max_cost", 79, NOW),
        ("", 0, LONG_AGO),
    ):
        insert_live(tenant, pressure_limit=limit, pressure=pressure, last_at=last_at, release="r1")


def test_counts_are_of_the_scope_alone(tenant: Tenant) -> None:
    fill(tenant)
    insert_live(make_tenant(), pressure=99, last_at=LONG_AGO)
    assert read_live(Scope((tenant.pk,)), NOW) == LiveCounts(
        runs=5, pressed=3, silent=2, limits=(("max_steps", 2), ("max_cost", 1))
    )
    assert read_live(Scope((0,)), NOW).runs == 6
    assert read_live(Scope((tenant.pk,), "other-job"), NOW) == LiveCounts()
    assert read_live(Scope((tenant.pk,), "research", "r1"), NOW).runs == 5
    assert read_live(Scope(()), NOW) == LiveCounts()


def test_every_number_links_to_exactly_its_runs(tenant: Tenant, viewer: Client) -> None:
    fill(tenant)
    page = viewer.get("/?job=research&release=r1").content.decode()
    (panel,) = re.findall(r'<section class="panel live-now".*?</section>', page, re.DOTALL)
    links = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>([^<]*(?:<bdi>[^<]*</bdi>)?[^<]*)</a>', panel)
    numbers = {}
    for href, words in links:
        listed = viewer.get(unescape(href)).context["found"]
        (number,) = re.findall(r"(?:^|(?<=</bdi> ))(\d+)", words)
        assert (int(number), len(listed.rows)) == (listed.total, listed.total), words
        numbers[href] = number
    assert list(numbers.values()) == ["5", "3", "2", "1", "2"]


def test_a_poll_brings_what_changed_among_live_runs(tenant: Tenant, viewer: Client) -> None:
    page = viewer.get("/")
    poll = page.context["poll"]
    again = viewer.get(poll, headers={"HX-Request": "true"})
    assert again["HX-Reswap"] == "none"
    insert_live(tenant, pressure=90, pressure_limit="max_steps")
    changed = viewer.get(poll, headers={"HX-Request": "true"})
    assert "HX-Reswap" not in changed
    assert "1 at 80 % of a limit or above" in changed.content.decode()


def test_live_runs_are_shown_before_the_first_run_has_ended(client: Client) -> None:
    new = make_tenant("new")
    client.force_login(make_member(new))
    waiting = client.get("/")
    assert "Live now" not in waiting.content.decode()
    insert_live(new)
    assert client.get(waiting.context["poll"], headers={"HX-Request": "true"}).status_code == 200
    started = client.get("/")
    assert "1 run</a> started and not ended" in started.content.decode()
    insert_live(new, pressure=90, pressure_limit="max_steps")
    changed = client.get(started.context["poll"], headers={"HX-Request": "true"})
    assert "HX-Refresh" not in changed
    assert "2 runs</a> started and not ended" in changed.content.decode()
    insert_rows([make_row(NOW - timedelta(minutes=1), tenant_id=new.pk)])
    ended = client.get(changed.context["poll"], headers={"HX-Request": "true"})
    assert ended["HX-Refresh"] == "true"


def test_nothing_live_is_said_and_narrowed(tenant: Tenant, viewer: Client) -> None:
    assert "No run is live" in viewer.get("/").content.decode()
    assert "No run of this job type and release is live" in viewer.get("/?job=other").content.decode()
