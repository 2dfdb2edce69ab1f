from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from guardops.tenants.models import Tenant
from runs.models import LiveRun
from tests.factories import make_run_event, store_runs
from tests.runs.live_rows import insert_live
from tests.runs.pages.conftest import Cast

Add = Callable[..., UUID]
POLL = {"HX-Request": "true"}


def text_of(client: Client, path: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", client.get(path).content.decode()).split())


def test_page_of_a_live_run_says_what_is_known(cast: Cast, viewer: Client) -> None:
    live = insert_live(
        cast.tenant,
        steps=37,
        cost=Decimal("0.31"),
        pressure=92,
        pressure_limit="max_steps",
        pressures={"max_cost": 0.31, "max_steps": 0.925, "stall_limit": 1.0, "mine": 0.1},
        sources=[{"kind": "domain", "name": "shop.example", "calls": 11}],
        detail={"limits": {"max_steps": 40, "max_cost": "1.00", "stall_limit": 6}},
    )
    text = text_of(viewer, f"/runs/{live.run_id}/")
    for said in (
        "Running: 37 steps so far, 100 % of a limit used",
        "under pressure",
        "Steps without progress used up 100 % of 6",
        "Steps near its limit 92 % 37 of 40",
        "Cost in USD within 31 % $0.31 of $1.00",
        "mine within 10 %",
        "shop.example",
    ):
        assert said in text, said


def test_run_that_only_started_says_that_a_heartbeat_is_awaited(cast: Cast, viewer: Client) -> None:
    assert "No heartbeat yet" in text_of(viewer, f"/runs/{insert_live(cast.tenant).run_id}/")


def test_silent_run_says_since_when(cast: Cast, viewer: Client) -> None:
    live = insert_live(cast.tenant, steps=3, last_at=datetime.now(UTC) - timedelta(minutes=31, seconds=5))
    text = text_of(viewer, f"/runs/{live.run_id}/")
    assert "Silent for 31 min 5 s after 3 steps" in text
    assert "never said that it ended" in text


def test_page_polls_every_ten_seconds_until_the_run_has_ended(cast: Cast, viewer: Client, add: Add) -> None:
    live = insert_live(cast.tenant)
    path = f"/runs/{live.run_id}/"
    page = viewer.get(path).content.decode()
    assert f'data-poll hx-get="{path}?tenant=research" hx-trigger="every 10s, resume"' in page
    fragment = viewer.get(path, headers=POLL)
    assert "HX-Refresh" not in fragment
    assert fragment.content.decode().lstrip().startswith('<div class="panels" id="live-run"')
    LiveRun.objects.all().delete()
    add(run_id=live.run_id)
    assert viewer.get(path, headers=POLL)["HX-Refresh"] == "true"
    assert "Completed after 5 steps" in viewer.get(path).content.decode()


def test_run_that_ends_through_the_gate_turns_into_its_page(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    event = make_run_event(ended_at=now)
    insert_live(cast.tenant, run_id=event.run_id)
    store_runs(cast.tenant, event, received_at=now)
    response = viewer.get(f"/runs/{event.run_id}/", headers=POLL)
    assert response["HX-Refresh"] == "true"


def test_live_run_of_others_is_not_found(cast: Cast, viewer: Client) -> None:
    for tenant in (cast.sibling, cast.foreign):
        live = insert_live(tenant)
        for path in (f"/runs/{live.run_id}/", f"/runs/{live.run_id}/?tenant={tenant.slug}"):
            assert viewer.get(path).status_code == 404
            assert viewer.get(path, headers=POLL).status_code == 404
    assert viewer.get(f"/runs/{uuid4()}/").status_code == 404


def test_id_that_lives_here_and_ended_there_is_a_choice(cast: Cast, member: Client, add: Add) -> None:
    run_id = add()
    insert_live(cast.sibling, run_id=run_id, job_type="theirs")
    page = member.get(f"/runs/{run_id}/").content.decode()
    assert "This id is a run in 2 of your tenants" in page
    assert "Running" in page
    assert "theirs" in member.get(f"/runs/{run_id}/?tenant=support").content.decode()


def test_live_run_has_no_stop_to_review_and_no_case_yet(cast: Cast, member: Client) -> None:
    live = insert_live(cast.tenant)
    for page in ("review/", "case.json"):
        assert member.get(f"/runs/{live.run_id}/{page}").status_code == 404


def test_page_of_a_live_run_asks_a_fixed_number_of_times(
    cast: Cast, viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    live = insert_live(cast.tenant, root_task_id="task-1")
    viewer.get("/connect/")  # what the navigation counts is known for ten seconds
    for number in (0, 5):
        for _ in range(number):
            insert_live(cast.tenant, root_task_id="task-1")
        with django_assert_num_queries(9):
            viewer.get(f"/runs/{live.run_id}/")


@pytest.fixture
def hostile() -> str:
    return "<script>alert(1)</script>\u202e\u200b\x1b[31m{{ run }}<img src=x onerror=alert(2)>"


def test_hostile_text_of_a_live_run_stays_text(cast: Cast, viewer: Client, hostile: str) -> None:
    live = insert_live(
        cast.tenant,
        job_type=hostile[:128],
        agent=hostile[:128],
        release=hostile,
        root_task_id=hostile[:128],
        pressure=90,
        pressure_limit=hostile[:64],
        pressures={hostile: 0.9, "nan": "x", "max_steps": 0.5},
        sources=[{"kind": "domain", "name": hostile, "calls": 1}],
        detail={"limits": {"max_steps": hostile}, "guard": {"version": hostile[:64]}},
    )
    for path in (f"/runs/{live.run_id}/", "/runs/live/", "/"):
        page = viewer.get(path).content.decode()
        assert not re.search(r"<script(?![^>]* src=\"/static/)", page)
        assert "<img" not in page
        assert not {"\u202e", "\u200b", "\x1b"} & set(page)


@pytest.mark.parametrize("sources", [{"a": 1}, [{"kind": "moon"}], ["x"], None])
def test_sources_that_cannot_be_read_are_left_out(cast: Cast, viewer: Client, sources: object) -> None:
    live = insert_live(cast.tenant, sources=sources) if sources is not None else insert_live(cast.tenant)
    assert viewer.get(f"/runs/{live.run_id}/").status_code == 200


def test_live_twin_in_another_tenant_is_another_run(cast: Cast, viewer: Client, tenant_twin: Tenant) -> None:
    live = insert_live(cast.tenant, agent="mine")
    insert_live(tenant_twin, run_id=live.run_id, agent="theirs")
    page = viewer.get(f"/runs/{live.run_id}/").content.decode()
    assert "mine" in page
    assert "theirs" not in page


@pytest.fixture
def tenant_twin(cast: Cast) -> Tenant:
    return cast.foreign
