from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from uuid import UUID

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.runs.live_rows import insert_live
from tests.runs.pages.conftest import Cast

Add = Callable[..., UUID]
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def live(client: Client, query: str = "") -> list[str]:
    """Return the agents on one page of the list, in its order, and check that its count fits."""
    response = client.get(f"/runs/live/{query}")
    assert response.status_code == 200
    found = response.context["found"]
    agents = [row.run.agent for row in found.rows]
    page = response.content.decode()
    assert all(f">{agent}</bdi>" in page for agent in agents)
    return agents


def test_list_has_the_nearest_to_a_limit_first(cast: Cast, viewer: Client) -> None:
    for agent, pressure in (("calm", 10), ("near", 95), ("busy", 60)):
        insert_live(cast.tenant, agent=agent, pressure=pressure, pressure_limit="max_steps")
    assert live(viewer) == ["near", "busy", "calm"]


@pytest.mark.parametrize(
    ("query", "matching", "other"),
    [
        ("job=coding", {"job_type": "coding"}, {"job_type": "coding2"}),
        ("release=r2%2Bp1", {"release": "r2+p1"}, {"release": "r2"}),
        ("state=pressure", {"pressure": 80}, {"pressure": 79}),
        ("state=silent", {"last_at": LONG_AGO}, {}),
        ("limit=max_steps", {"pressure_limit": "max_steps"}, {"pressure_limit": "max_cost"}),
        ("root=task-1", {"root_task_id": "task-1"}, {"root_task_id": "task-12"}),
    ],
)
def test_filter_lists_exactly_what_matches(
    cast: Cast, viewer: Client, query: str, matching: dict[str, object], other: dict[str, object]
) -> None:
    insert_live(cast.tenant, agent="wanted", **matching)
    insert_live(cast.tenant, agent="unwanted", **other)
    assert live(viewer, f"?{query}") == ["wanted"]


def test_list_holds_the_tenants_that_may_be_seen(cast: Cast, client: Client) -> None:
    for tenant in (cast.tenant, cast.sibling, cast.foreign):
        insert_live(tenant, agent=f"of-{tenant.slug}")
    for person, seen in (
        (cast.viewer, {"of-research"}),
        (cast.member, {"of-research", "of-support"}),
        (cast.operator, {"of-research", "of-support", "of-elsewhere"}),
    ):
        client.force_login(person)
        assert set(live(client)) == seen
    client.force_login(cast.member)
    assert live(client, "?tenant=support") == ["of-support"]
    assert client.get("/runs/live/?tenant=elsewhere").status_code == 404
    assert client.get("/runs/live/?tenant=made-up").status_code == 404


def test_pages_follow_one_another_without_gap_or_double(cast: Cast, member: Client) -> None:
    agents = [f"a{number}" for number in range(7)]
    for number, agent in enumerate(agents):
        insert_live(cast.tenant if number % 2 else cast.sibling, agent=agent, pressure=50)
    query, seen = "?size=3", []
    while query:
        response = member.get(f"/runs/live/{query}")
        assert response.context["found"].total == 7
        seen += [row.run.agent for row in response.context["found"].rows]
        more = re.search(r'rel="next" href="([^"]+)"', response.content.decode())
        query = unescape(more[1]) if more else ""
    assert sorted(seen) == agents


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "No run is live"),
        ("?state=silent", "No live run matches these filters"),
        ("?state=dancing", "These filters cannot be read"),
        ("?after=0-00000000000000000000000000000000-1", "This page of the list is empty"),
    ],
)
def test_each_kind_of_nothing_has_its_own_words_and_a_next_step(
    cast: Cast, viewer: Client, query: str, words: str
) -> None:
    if query:
        insert_live(cast.tenant)
    page = viewer.get(f"/runs/live/{query}").content.decode()
    assert words in page
    assert re.search(r'<div class="empty">.*class="btn', page, re.DOTALL)


def test_who_sees_no_tenant_is_told_so(cast: Cast, client: Client) -> None:
    insert_live(cast.tenant)
    client.force_login(cast.outsider)
    assert "You are not a member of any tenant" in client.get("/runs/live/").content.decode()


@pytest.mark.parametrize(
    "query",
    [
        "job=%00",
        "release=%ED%A0%80%00",
        "size=0",
        "size=201",
        "size=99999999999999999999",
        "after=x",
        "after=1-2",
        "after=99999999999999999999-00000000000000000000000000000000-1",
        "after=1-00000000000000000000000000000000-99999999999999999999",
        f"limit={'x' * 65}",
        f"root={'x' * 129}",
        "after=%00",
    ],
)
def test_nonsense_is_said_and_lists_nothing(cast: Cast, viewer: Client, query: str) -> None:
    insert_live(cast.tenant)
    response = viewer.get(f"/runs/live/?{query}")
    assert response.status_code == 200
    assert "These filters cannot be read" in response.content.decode()


def test_unseen_characters_in_a_filter_come_back_as_they_were_shown(cast: Cast, viewer: Client) -> None:
    insert_live(cast.tenant, agent="wanted", job_type="a\u202eb")
    for query in ("?job=a%E2%80%AEb", "?job=a⟦U%2B202E⟧b"):
        assert live(viewer, query) == ["wanted"]
        assert "\u202e" not in viewer.get(f"/runs/live/{query}").content.decode()


def test_list_asks_a_fixed_number_of_times(
    cast: Cast, viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        insert_live(cast.tenant)
    viewer.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_num_queries(6):  # two for the session, the tenants, a page, its count, saved views
        viewer.get("/runs/live/?size=2")


def test_state_is_said_in_words(cast: Cast, viewer: Client) -> None:
    insert_live(cast.tenant, agent="dead", last_at=LONG_AGO, pressure=90)
    insert_live(cast.tenant, agent="pressed", pressure=80)
    insert_live(cast.tenant, agent="well")
    page = viewer.get("/runs/live/").content.decode()
    words = re.findall(r'data-l="State">\s*<span class="st[^>]*><svg.*?</svg>([^<]+)</span>', page, re.DOTALL)
    assert words == ["silent", "under pressure", "running"]
