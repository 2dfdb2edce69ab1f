from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape
from re import findall
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from guardops.tenants.access import visible
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant, User
from policies.publish.policies import Place, save_policy
from runs.pages.advisor import Row
from runs.pages.list import read_listing
from runs.rollup import tail
from tests.runs.pages.conftest import Cast
from tests.runs.rows import fold, insert_rows, make_row

FRAGMENT = {"HX-Request": "true"}


def store(cast: Cast, now: datetime, count: int, **columns: Any) -> None:
    """Store completed tasks of 1, 2, 3… steps, a second each."""
    insert_rows(
        make_row(
            now - timedelta(hours=number % 600 + 1),
            tenant_id=cast.tenant.pk,
            **{"steps": number, "duration_ms": number * 1_000, **columns},
        )
        for number in range(1, count + 1)
    )


def publish(tenant: Tenant, now: datetime, job_type: str = "research", **limits: object) -> None:
    place = Place(tenant.organisation, tenant, job_type)
    save_policy(place, {"limits": limits}, seen=0, actor=SYSTEM, now=now)


def context(browser: Client, query: str, **headers: str) -> Any:
    response = browser.get(f"/runs/advisor/?{query}", headers=headers)
    assert response.status_code == 200
    return response.context


def rows(browser: Client, query: str) -> list[Row]:
    found: list[Row] = context(browser, query)["rows"]
    return found


def test_percentiles_are_exact_ranks_of_steps_and_seconds(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 400)
    steps, seconds = rows(viewer, "tenant=research&job=research")
    for row in (steps, seconds):
        spread = row.advice.spread
        assert (spread.tasks, spread.p50, spread.p95, spread.p99) == (400, 200, 380, 396)


@pytest.mark.django_db(transaction=True)
def test_folded_and_unfolded_tasks_count_alike(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 200)
    assert fold(now).rows == 200
    store(cast, now, 200)
    [steps, _] = rows(viewer, "tenant=research&job=research")
    assert (steps.advice.spread.tasks, steps.advice.spread.p50) == (400, 100)


def test_only_completed_answered_tasks_of_the_job_count(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 2)
    for columns in (
        {"outcome": "halted", "answer": "none", "halt_reason": "step_budget"},
        {"answer": "none"},
        {"job_type": "coding"},
        {"tenant_id": cast.sibling.pk},
    ):
        insert_rows([make_row(now - timedelta(hours=1), **{"tenant_id": cast.tenant.pk, **columns})])
    insert_rows([make_row(now - timedelta(days=31), tenant_id=cast.tenant.pk)])
    assert [row.advice.spread.tasks for row in rows(viewer, "tenant=research&job=research")] == [2, 2]


def test_units_of_steps_are_never_pooled(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 20)
    store(cast, now, 10, step_unit="turn")
    found = [(row.unit, row.advice.spread.tasks) for row in rows(viewer, "tenant=research&job=research")]
    assert found == [("tool calls", 20), ("model calls", 10), ("seconds", 30)]


def test_all_job_types_together_without_one(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 3)
    store(cast, now, 4, job_type="coding")
    assert [row.advice.spread.tasks for row in rows(viewer, "tenant=research")] == [7, 7]


def test_under_300_tasks_only_the_highest_is_said(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 299, steps=7)
    response = viewer.get("/runs/advisor/?tenant=research&job=research", headers=FRAGMENT)
    assert [row.take_href for row in response.context["rows"]] == ["", ""]
    assert "<dt>max</dt>" in response.text
    assert "p99</dt>" not in response.text


def test_suggestion_lies_a_tenth_above_p99(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 300, steps=20, duration_ms=61_000)
    steps, seconds = rows(viewer, "tenant=research&job=research&max_turns=9")
    assert (steps.advice.suggestion, seconds.advice.suggestion) == (22, 70)
    assert steps.take_href == "/policies/edit/?tenant=research&job=research&max_turns=9&max_steps=22"


def test_cap_that_hides_the_tail_is_said_and_a_wider_one_suggested(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    publish(cast.tenant, now, max_steps=30)
    store(cast, now, 297, steps=10)
    store(cast, now, 3, steps=27)
    response = viewer.get("/runs/advisor/?tenant=research&job=research")
    steps = response.context["rows"][0].advice
    assert (steps.today, steps.spread.near, steps.censored, steps.suggestion) == (30, 3, True, 40)
    assert "A cap censors the data that sets it" in response.text


def test_typed_cap_is_judged_by_what_it_would_cut(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 399, steps=10)
    store(cast, now, 1, steps=20)
    words = [
        rows(viewer, f"tenant=research&job=research&max_steps={cap}")[0].advice.verdict.words
        for cap in (10, 15, 21, 25)
    ]
    assert words == [
        "Tight: 10 cuts 100\u00a0% of them",
        "15 covers 99.8\u00a0%",
        "21 covers all",
        "Loose: 2.5 × p99",
    ]


@pytest.mark.django_db(transaction=True)
def test_every_number_leads_to_just_its_runs(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 80)
    store(cast, now, 5, step_unit="turn", steps=39)
    assert fold(now).rows == 85
    page = viewer.get("/runs/advisor/?tenant=research&job=research").text
    links = findall(r'<a class="n" href="/runs/\?([^"]+)">([\d,]+)</a>', page)
    assert len(links) == 5
    for query, number in links:
        listing = read_listing(
            visible(cast.viewer), QueryDict(unescape(query)), now=datetime.now(UTC), zone="UTC"
        )
        assert (listing.total.number, listing.state) == (int(number), "rows")


def test_organisation_is_all_its_tenants_that_the_reader_may_see(cast: Cast, now: datetime) -> None:
    for tenant in (cast.tenant, cast.sibling, cast.foreign):
        insert_rows([make_row(now - timedelta(hours=1), tenant_id=tenant.pk)])
    for user, tasks in ((cast.member, 2), (cast.viewer, 1), (cast.operator, 2)):
        assert tasks_of(user, "organisation=acme&job=research", now) == tasks


def tasks_of(user: User, query: str, now: datetime) -> int:
    browser = Client()
    browser.force_login(user)
    return rows(browser, query)[0].advice.spread.tasks


@pytest.mark.parametrize("query", ["tenant=elsewhere", "organisation=nowhere", "", "tenant=support"])
def test_place_that_is_not_the_readers_is_not_found(viewer: Client, query: str) -> None:
    assert viewer.get(f"/runs/advisor/?{query}").status_code == 404


def test_value_no_guard_takes_is_said_and_what_is_in_force_judged(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    store(cast, now, 2)
    response = viewer.get("/runs/advisor/?tenant=research&job=research&max_steps=501")
    assert "must lie between 0 and 500" in response.text
    assert response.context["rows"][0].advice.draft == 40


def test_steps_behind_a_long_tail_say_as_of_when(
    cast: Cast, viewer: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(cast, now, 3)
    monkeypatch.setattr(tail, "LONGEST", 2)
    assert "3 runs that came since" in viewer.get("/runs/advisor/?tenant=research&job=research").text


def test_nothing_completed_yet_says_what_comes(cast: Cast, viewer: Client) -> None:
    assert "No task was completed" in viewer.get("/runs/advisor/?tenant=research").text


def test_fragment_is_what_the_page_includes(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, 2)
    page = viewer.get("/runs/advisor/?tenant=research").text
    fragment = viewer.get("/runs/advisor/?tenant=research", headers=FRAGMENT).text
    assert fragment.strip().startswith("<section")
    assert "<html" in page
    assert fragment.split("</dl>")[0].strip() in page
