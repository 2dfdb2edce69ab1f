from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from runs.models import Run
from runs.pages import list as list_page
from tests.runs.pages.conftest import Cast, listed
from tests.runs.rows import fold, insert_rows, make_row, random_rows

Add = Callable[..., UUID]
HTMX = {"HX-Request": "true"}


def follow(client: Client, query: str, link: str) -> list[list[UUID]]:
    """Return the ids of every page from ``query`` on, following its ``next`` or ``previous`` links."""
    pages = []
    parameter = {"next": "after", "previous": "before"}[link]
    while query:
        response = client.get(f"/runs/{query}")
        page = response.context["listing"].page
        pages.append([run.run_id for run in page.runs])
        place = getattr(page, link)
        kept = "&".join(p for p in query[1:].split("&") if not p.startswith(("after=", "before=")))
        query = f"?{kept}&{parameter}={place}" if place else ""
        assert len(pages) < 50
    return pages


def last_place(client: Client, query: str) -> str:
    """Return the query of the last page of the list."""
    place = ""
    while following := client.get(f"/runs/{query}{place}").context["listing"].page.next:
        place = f"&after={following}"
    return f"{query}{place}"


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("at", lambda run: run.at),
        ("steps", lambda run: run.steps),
        ("cost", lambda run: run.cost),
        ("duration", lambda run: run.duration_ms),
    ],
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_pages_hold_every_run_once_in_order_across_ties(
    cast: Cast, member: Client, now: datetime, sort: str, sign: str, key: Callable[[Any], Any]
) -> None:
    rng = random.Random(4)
    tenants = (cast.tenant.pk, cast.sibling.pk)
    insert_rows(
        make_row(
            now - timedelta(minutes=rng.choice((5, 5, 9, 50))),
            tenant_id=rng.choice(tenants),
            steps=rng.choice((3, 3, 8)),
            cost=Decimal(rng.choice(("0.5", "0.5", "2"))),
            duration_ms=rng.choice((1_000, 1_000, 9_000)),
        )
        for _ in range(23)
    )
    runs = sorted(
        Run.objects.for_tenants(tenants),
        key=lambda run: (key(run), run.run_id, run.tenant_id),
        reverse=bool(sign),
    )
    expected = [run.run_id for run in runs]
    query = f"?sort={sign}{sort}&size=4"

    forth = follow(member, query, "next")
    assert [run_id for page in forth for run_id in page] == expected
    assert [len(page) for page in forth] == [4, 4, 4, 4, 4, 3]

    back = follow(member, last_place(member, query), "previous")
    assert [run_id for page in reversed(back) for run_id in page] == expected


def test_same_id_in_two_tenants_is_two_rows_even_across_pages(
    cast: Cast, member: Client, now: datetime
) -> None:
    first = make_row(now - timedelta(minutes=2), tenant_id=cast.tenant.pk)
    insert_rows([first, {**first, "tenant_id": cast.sibling.pk}])
    assert follow(member, "?size=1", "next") == [[first["run_id"]], [first["run_id"]]]


def test_runs_far_apart_fill_one_page(viewer: Client, add: Add, now: datetime) -> None:
    ages = [timedelta(minutes=1), timedelta(hours=2), timedelta(days=3), timedelta(days=29)]
    expected = [add(at=now - age) for age in ages]
    assert listed(viewer, "?range=30d") == expected
    assert listed(viewer, "?range=30d&sort=at") == expected[::-1]


def test_page_of_another_order_is_refused(viewer: Client, add: Add) -> None:
    add(), add()
    place = viewer.get("/runs/?size=1").context["listing"].page.next
    page = viewer.get(f"/runs/?size=1&sort=cost&after={place}").content.decode()
    assert "another order" in page


def test_page_with_both_ends_is_refused(viewer: Client, add: Add) -> None:
    add(), add()
    place = viewer.get("/runs/?size=1").context["listing"].page.next
    page = viewer.get(f"/runs/?size=1&after={place}&before={place}").content.decode()
    assert "not both" in page


def test_header_says_the_order_and_links_to_the_other(viewer: Client, add: Add) -> None:
    add()
    page = viewer.get("/runs/?sort=-cost&job=research").content.decode()
    assert page.count("aria-sort=") == 1
    assert 'aria-sort="descending"><a href="?sort=cost&amp;job=research"' in page
    assert '<a href="?sort=-steps&amp;job=research"' in page


MEASURES = {
    "runs": "",
    "completed": "completes=1",
    "eligible": "eligible=1",
    "halted": "outcome=halted&outcome=escalated",
    "stopped": "stopped=1",
    "looped": "looped=1",
    "forced": "forced=1",
    "blocked": "blocked=1",
    "provider_failures": "provider_failure=1",
    "repeated": "attempt_min=2",
    "useful": "cost=useful",
    "no_progress": "reason=no_progress",
    "unknown": "reason=other",
    "cycle": "family=cycle",
    "budget": "family=budget&stopped=1",
    "near": "completes=1&answered=1&step_unit=tool_call&job=coding&near_cap=1",
    "tasks": "completes=1&answered=1&step_unit=turn&job=coding",
    "of_job": "job=coding&looped=1&release=r1",
    "together": "looped=1&blocked=1",
    "no_steps": "steps_max=0",
    "any_steps": "steps_min=0",
}


@pytest.mark.parametrize("filters", MEASURES.values(), ids=MEASURES)
def test_count_is_the_number_of_rows(cast: Cast, viewer: Client, now: datetime, filters: str) -> None:
    rows = random_rows(random.Random(7), 300, now - timedelta(hours=20), now)
    rows += [
        make_row(now - timedelta(hours=1), job_type="coding", looped=True, steps=steps, step_unit=unit)
        for steps in (35, 36, 37, 38)
        for unit in ("tool_call", "turn")
    ]
    rows += [make_row(now - timedelta(hours=2), steps=0) for _ in range(3)]
    tenants = {1: cast.tenant.pk, 2: cast.sibling.pk, 3: cast.foreign.pk}
    insert_rows({**row, "tenant_id": tenants[row["tenant_id"]]} for row in rows)
    response = viewer.get(f"/runs/?{filters}&size=2")
    total = response.context["listing"].total
    everything = follow(viewer, f"?{filters}&size=200", "next")
    assert total.exact
    assert total.number == sum(map(len, everything)) > 2
    assert f">{total.number} runs</h2>" in response.content.decode()


@pytest.mark.django_db(transaction=True)
def test_count_stays_the_number_of_rows_once_folded(cast: Cast, viewer: Client, now: datetime) -> None:
    for seed in (1, 2):  # the second half stays in the tail
        rows = random_rows(random.Random(seed), 150, now - timedelta(hours=20), now)
        insert_rows(row | {"tenant_id": cast.tenant.pk} for row in rows)
        if seed == 1:
            assert fold(now).rows == 150
    for filters in MEASURES.values():
        total = viewer.get(f"/runs/?{filters}&size=1").context["listing"].total
        everything = follow(viewer, f"?{filters}&size=200", "next")
        assert (total.number, total.exact) == (sum(map(len, everything)), True), filters


def test_counting_stops_at_its_bound(viewer: Client, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.pages.totals.COUNTED_UP_TO", 3)
    for _ in range(5):
        add(attempt=2)
    page = viewer.get("/runs/?attempt_min=2&size=2").content.decode()
    assert ">3+ runs</h2>" in page


def test_htmx_gets_the_rows_with_the_count_out_of_band(viewer: Client, add: Add) -> None:
    add()
    response = viewer.get("/runs/?outcome=completed&job=", headers=HTMX)
    page = response.content.decode()
    assert "<html" not in page
    assert '<h2 id="run-count" aria-live="polite" hx-swap-oob="true">1 run</h2>' in page
    assert response["HX-Push-Url"] == "/runs/?outcome=completed"
    assert "HX-Request" in response["Vary"]


@pytest.mark.parametrize("header", ["HX-Boosted", "HX-History-Restore-Request"])
def test_htmx_gets_the_page_where_it_shows_one(viewer: Client, header: str) -> None:
    assert "<html" in viewer.get("/runs/", headers={**HTMX, header: "true"}).content.decode()


def test_first_visit_leads_to_a_key(viewer: Client) -> None:
    page = viewer.get("/runs/").content.decode()
    assert "No run has ended yet" in page
    assert 'href="/settings/keys/"' in page


def test_no_match_leads_to_a_wider_range(viewer: Client, add: Add, now: datetime) -> None:
    add(at=now - timedelta(days=8))
    page = viewer.get("/runs/?job=research").content.decode()
    assert "No run matches these filters" in page
    assert 'href="?job=research&amp;range=90d"' in page


def test_range_that_cannot_be_read_can_be_chosen_anew(viewer: Client, add: Add) -> None:
    add()
    page = viewer.get("/runs/?range=3y").content.decode()
    assert '<option value="" selected>Choose</option><option value="1h">Last 1 h</option>' in page


def test_page_past_the_end_leads_to_the_first(viewer: Client, add: Add) -> None:
    add(steps=1), add(steps=2)
    place = viewer.get("/runs/?size=1&sort=steps").context["listing"].page.next
    page = viewer.get(f"/runs/?size=1&sort=steps&steps_max=1&after={place}").content.decode()
    assert "This page of the list is empty" in page
    assert 'href="?size=1&amp;sort=steps&amp;steps_max=1"' in page


def test_database_that_gives_up_is_said(viewer: Client, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(*args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 20")
            cursor.execute("SELECT pg_sleep(20)")

    add()
    monkeypatch.setattr(list_page, "read_page", sleep)
    response = viewer.get("/runs/")
    assert response.status_code == 503
    assert "This took the database too long" in response.content.decode()


def test_stranger_to_every_tenant_is_told_so(cast: Cast, client: Client, add: Add) -> None:
    add()
    client.force_login(cast.outsider)
    page = client.get("/runs/").content.decode()
    assert "You are not a member of any tenant" in page


def test_other_tenants_runs_are_not_listed(cast: Cast, viewer: Client, add: Add) -> None:
    mine = add()
    add(tenant_id=cast.sibling.pk)
    add(tenant_id=cast.foreign.pk)
    assert listed(viewer) == [mine]


@pytest.mark.parametrize("slug", ["support", "elsewhere", "nowhere", "no%00where"])
def test_tenant_that_may_not_be_seen_is_not_found(viewer: Client, slug: str) -> None:
    assert viewer.get(f"/runs/?tenant={slug}").status_code == 404


def test_operator_sees_every_tenant(cast: Cast, client: Client, add: Add) -> None:
    ids = {add(tenant_id=tenant.pk) for tenant in (cast.tenant, cast.sibling, cast.foreign)}
    client.force_login(cast.operator)
    assert set(listed(client)) == ids


def test_somebody_not_logged_in_is_asked_to(db: None, client: Client) -> None:
    response = client.get("/runs/?job=research")
    assert response.status_code == 302
    assert response["Location"] == "/login/?next=/runs/%3Fjob%3Dresearch"


def test_list_is_only_read(viewer: Client) -> None:
    assert viewer.post("/runs/").status_code == 405


@pytest.mark.parametrize("query", ["", "?job=research", "?sort=-cost", "?attempt_min=1"])
def test_queries_do_not_grow_with_the_rows(
    cast: Cast,
    member: Client,
    now: datetime,
    django_assert_num_queries: DjangoAssertNumQueries,
    query: str,
) -> None:
    def add_runs(count: int) -> None:
        insert_rows(
            make_row(now - timedelta(seconds=second), tenant_id=cast.tenant.pk) for second in range(count)
        )

    add_runs(60)
    member.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_num_queries(100, exact=False) as few:
        member.get(f"/runs/{query}")
    add_runs(60)
    with django_assert_num_queries(len(few)):
        member.get(f"/runs/{query}")
    assert len(few) <= 20
