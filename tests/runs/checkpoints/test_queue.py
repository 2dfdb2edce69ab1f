"""The review queue: which rows it lists in which order, what it tells of them, and what it says is new."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from django.template import Context, Template
from django.test import Client
from pytest_django.fixtures import DjangoAssertNumQueries

from guardops.guard.checkpoints import Amounts, PendingCall
from guardops.guard.decisions import DecisionAction
from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.choice import Choice
from runs.checkpoints.claims import LEASE, claim
from runs.checkpoints.moving import changed
from runs.checkpoints.queue import next_waiting
from runs.models import Checkpoint
from tests.factories import (
    let_undo_time_pass,
    make_checkpoint,
    make_member,
    make_operator,
    make_tenant,
    make_user,
)

from .deciding import STOP, decided

pytestmark = pytest.mark.django_db

Opened = Callable[..., Checkpoint]


@pytest.fixture
def opened(tenant: Tenant, now: datetime) -> Opened:
    """Return a function that opens a checkpoint so many minutes ago."""

    def opened(minutes: int = 5, of: Tenant | None = None, **fields: Any) -> Checkpoint:
        return make_checkpoint(of or tenant, opened_at=now - timedelta(minutes=minutes), **fields)

    return opened


@pytest.fixture
def desk(client: Client, ann: User) -> Client:
    client.force_login(ann)
    return client


def listed(client: Client, query: str = "") -> list[UUID]:
    """Return the ids on one page of the queue, in its order, and check that the page shows them."""
    response = client.get(f"/review/?{query}")
    assert response.status_code == 200
    rows = response.context["queue"].rows
    page = response.content.decode()
    assert all(f"/review/{row.checkpoint.checkpoint_id}/" in page for row in rows)
    return [row.checkpoint.checkpoint_id for row in rows]


def ids(*checkpoints: Checkpoint) -> list[UUID]:
    return [checkpoint.checkpoint_id for checkpoint in checkpoints]


def spent(cost: str) -> Amounts:
    return Amounts(steps=3, cost=Decimal(cost))


def test_most_urgent_is_first_and_what_is_decided_is_left_out(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    young, old, done = opened(1), opened(40), opened(50)
    decided(done, bob, now, STOP)
    assert listed(desk) == ids(old, young)
    assert listed(desk, "state=decided") == ids(done)
    assert listed(desk, "state=any") == ids(young, old, done)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sort=-due", "cba"),
        ("sort=-opened", "cba"),
        ("sort=cost", "cab"),
        ("sort=-cost", "bac"),
        ("job=coding", "b"),
        ("reason=step_budget", "b"),
        ("reason=tool_call_limit", "b"),
        ("reason=other", "c"),
        ("over=1", "a"),
        ("uncertain=1", "c"),
        ("root=task-1", "b"),
        ("q=task-", "b"),
        ("q=resea", "ac"),
        ("q=nothing", ""),
        ("job=nothing", ""),
    ],
)
def test_parameters_narrow_and_sort(desk: Client, opened: Opened, query: str, expected: str) -> None:
    write = PendingCall(tool="pay", args_hash="ab" * 8, side_effect="write", uncertain=True)
    found = {
        opened(41, spent=spent("0.5")).checkpoint_id: "a",
        opened(
            9, spent=spent("2"), job_type="coding", reason="step_budget", root_task_id="task-1", agent="coder"
        ).checkpoint_id: "b",
        opened(3, spent=spent("0.1"), reason="newer", pending=[write]).checkpoint_id: "c",
    }
    assert "".join(found[one] for one in listed(desk, query)) == expected


def test_checkpoint_and_run_are_found_by_their_ids_and_by_what_these_begin_with(
    desk: Client, opened: Opened
) -> None:
    checkpoint = opened()
    other = opened(run_id=uuid4(), checkpoint_id=uuid4())
    for query in (
        f"q={checkpoint.checkpoint_id}",
        f"q={str(checkpoint.run_id)[:18]}",
        f"run={checkpoint.run_id}",
    ):
        assert listed(desk, query) == ids(checkpoint), query
    assert listed(desk, f"run={other.run_id}") == ids(other)


def test_claims_are_told_and_one_that_ended_counts_as_none(
    desk: Client, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    mine, theirs, lapsed = opened(1), opened(2), opened(3)
    claim(mine, actor=ann, now=now)
    claim(theirs, actor=bob, now=now)
    claim(lapsed, actor=bob, now=now - LEASE)
    assert listed(desk, "mine=1") == ids(mine)
    assert listed(desk, "state=claimed") == ids(theirs, mine)
    assert listed(desk, "state=open") == ids(lapsed)
    acts = {row.checkpoint.pk: row.act for row in desk.get("/review/").context["queue"].rows}
    assert acts == {mine.pk: "release", theirs.pk: "", lapsed.pk: "claim"}


def test_own_decisions_are_mine_in_the_state_that_they_are_in(
    desk: Client, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    mine, theirs = opened(1), opened(2)
    decided(mine, ann, now)
    decided(theirs, bob, now)
    assert listed(desk, "state=decided&mine=1") == ids(mine)


@pytest.mark.parametrize("order", ["", "sort=-due", "sort=-cost", "sort=cost", "state=any"])
def test_pages_hold_every_row_once_whatever_ties(desk: Client, opened: Opened, order: str) -> None:
    for number in range(7):
        opened(5, spent=spent("0.25") if number % 3 else spent("1"))
    found, query = [], f"size=3&{order}"
    while query:
        found += listed(desk, query)
        queue = desk.get(f"/review/?{query}").context["queue"]
        assert queue.total == 7
        query = queue.next and f"size=3&{order}&after={queue.next}"
    assert found == listed(desk, order)
    assert len(set(found)) == 7


NONSENSE = (
    *("after=x", "after=1", "after=-1_1", "after=1_-1", "after=NaN_1&sort=cost", f"after={'9' * 40}_1"),
    *("state=x", "size=0", "size=1000", "sort=steps", "over=2", "run=x", "job=a&job=b", "q=%00"),
)


@pytest.mark.parametrize("query", NONSENSE)
def test_parameter_that_makes_no_sense_is_told(desk: Client, opened: Opened, query: str) -> None:
    opened()
    response = desk.get(f"/review/?{query}")
    assert "These filters cannot be read" in response.content.decode()
    assert listed(desk, query) == []


def test_parameter_of_another_name_is_named_as_ignored(desk: Client, opened: Opened) -> None:
    checkpoint = opened()
    assert listed(desk, "colour=red") == ids(checkpoint)
    assert "so ignored: <code><bdi>colour" in desk.get("/review/?colour=red").content.decode()


def test_each_emptiness_has_its_own_words(desk: Client, opened: Opened, bob: User, now: datetime) -> None:
    def said(query: str = "") -> str:
        return str(desk.get(f"/review/?{query}").context["queue"].state)

    assert said() == "first"
    decided(opened(), bob, now)
    assert said() == "clear"
    assert said("job=other") == said("state=expired") == "filtered"
    assert said("after=1_1") == "past"


def test_reader_sees_their_own_tenants_and_acts_where_they_are_a_reviewer(
    client: Client, tenant: Tenant, opened: Opened
) -> None:
    sibling, foreign = make_tenant("globex", organisation=tenant.organisation), make_tenant("elsewhere")
    here, there = opened(1), opened(2, of=sibling)
    opened(3, of=foreign)
    reader = make_member(tenant.organisation)
    client.force_login(reader)
    assert listed(client) == ids(there, here)
    assert not client.get("/review/").context["queue"].can_decide
    assert listed(client, "tenant=globex") == ids(there)
    assert client.get("/review/?tenant=elsewhere").status_code == 404
    client.force_login(make_operator())
    assert len(listed(client)) == 3


def test_member_of_nothing_is_told_whom_to_ask(client: Client, opened: Opened) -> None:
    opened()
    client.force_login(make_user())
    assert listed(client) == []
    assert client.get("/review/").context["queue"].state == "nobody"


def test_queries_do_not_grow_with_the_rows(
    desk: Client,
    opened: Opened,
    bob: User,
    now: datetime,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for minutes in range(12):
        checkpoint = opened(minutes)
        if minutes % 2:
            decided(checkpoint, bob, now)
    desk.get("/review/")
    with django_assert_max_num_queries(14):
        desk.get("/review/?state=any")


def test_decision_of_somebody_who_has_left_is_not_called_guardops_own(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    checkpoint = opened()
    decided(checkpoint, bob, now)
    with acting(SYSTEM):
        bob.delete()
    page = desk.get("/review/?state=any").content.decode()
    assert "somebody who has left" in page
    assert '<span class="muted who">GuardOps</span>' not in page
    assert changed(checkpoint.pk).change.by == "Somebody who has left"


def test_undo_stands_in_the_row_until_the_decision_can_go_out(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    decision = decided(opened(), bob, now)
    [row] = desk.get("/review/?state=decided").context["queue"].rows
    assert (row.act, row.decided, row.decider) == ("undo", "Resumed", "bob")
    let_undo_time_pass(decision)
    [row] = desk.get("/review/?state=decided").context["queue"].rows
    assert row.act == ""


# What is new


def asked(page: Any, **more: str) -> str:
    """Return the question that an open page asks again and again."""
    live = str(page.context["live"])
    return live + "".join(f"&{name}={value}" for name, value in more.items())


def test_open_page_is_told_of_each_new_checkpoint_once(desk: Client, opened: Opened) -> None:
    opened(0)
    page = desk.get("/review/")
    assert desk.get(asked(page)).context["new"] == 0
    opened(0)
    opened(0, job_type="coding")
    assert desk.get(asked(page)).context["new"] == 2
    assert desk.get(asked(desk.get("/review/"))).context["new"] == 0


def test_new_checkpoints_are_counted_by_the_filters_of_the_page(
    desk: Client, opened: Opened, tenant: Tenant
) -> None:
    page = desk.get("/review/?job=coding")
    opened(0)
    opened(0, of=make_tenant("elsewhere"), job_type="coding")
    assert desk.get(asked(page)).context["new"] == 0
    opened(0, job_type="coding")
    found = desk.get(asked(page))
    assert found.context["new"] == 1
    assert "1 new checkpoint<" in found.content.decode()
    assert 'href="/review/?job=coding"' in found.content.decode()


def test_checkpoint_that_was_received_earlier_but_is_readable_only_now_is_new(
    desk: Client, opened: Opened, now: datetime
) -> None:
    opened(0)
    page = desk.get("/review/")
    late = opened(0)
    Checkpoint.objects.filter(pk=late.pk).update(received_at=now - timedelta(seconds=8))
    assert desk.get(asked(page)).context["new"] == 1


def test_flood_of_new_checkpoints_makes_no_address_that_a_proxy_refuses(
    desk: Client, tenant: Tenant, opened: Opened, now: datetime
) -> None:
    one = opened(0)
    fields = {field.attname: getattr(one, field.attname) for field in Checkpoint._meta.concrete_fields}
    del fields["id"]
    Checkpoint.objects.bulk_create(Checkpoint(**fields | {"checkpoint_id": uuid4()}) for _ in range(250))
    page = desk.get("/review/?size=200")
    assert len(asked(page)) < 8_000
    assert desk.get(asked(page)).context["new"] == 0


def test_rows_of_an_open_page_come_as_they_are_now_and_stay_where_they_are(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    claimed, gone = opened(4), opened(3)
    page = desk.get("/review/")
    claim(claimed, actor=bob, now=now)
    decided(gone, bob, now, Choice(DecisionAction.FORCE_ANSWER))
    fresh = desk.get(asked(page), headers={"HX-Request": "true"}).content.decode()
    of_claimed, of_gone = (
        fresh.partition(f'data-fresh="row-acme-{one.checkpoint_id.hex}"')[2].partition("</template>")[0]
        for one in (claimed, gone)
    )
    assert "until" in of_claimed
    assert "Answer forced" in of_gone
    assert of_gone.startswith(" data-gone")


@pytest.mark.parametrize(
    "query", ["since=x", "since=2026-02-31T00:00:00Z", "since=2026-01-01T00:00:00", "state=x"]
)
def test_question_of_an_open_page_that_makes_no_sense_is_refused(desk: Client, query: str) -> None:
    assert desk.get(f"/review/new/?{query}").status_code == 400
    since = quote("2026-01-01T00:00:00+00:00")
    assert desk.get(f"/review/new/?since={since}&rows=x.y").status_code == 400


# What comes next


def test_next_is_the_most_urgent_after_this_one_that_nobody_else_works_on(
    tenant: Tenant, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    first, second, third, last = opened(9), opened(8), opened(7), opened(6)
    claim(third, actor=bob, now=now)
    assert next_waiting(ann, now) == first
    assert next_waiting(ann, now, after=second) == last
    assert next_waiting(bob, now, after=second) == third
    assert next_waiting(ann, now, after=last) == first


def test_nothing_is_next_where_one_only_reads(tenant: Tenant, opened: Opened, now: datetime) -> None:
    opened()
    assert next_waiting(make_member(tenant, Role.VIEWER), now) is None
    assert next_waiting(make_operator(), now) is None


# On other pages


def told_in_the_navigation(user: User) -> str:
    tag = "{% load checkpoints %}{% open_checkpoints as waiting %}"
    return Template(f"{tag}{{{{ waiting.count }}}} waiting, {{{{ waiting.late }}}} late").render(
        Context({"user": user})
    )


def test_navigation_counts_what_its_reader_sees_waiting(
    tenant: Tenant, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    opened(50)
    opened(3)
    decided(opened(2), bob, now)
    opened(50, of=make_tenant("elsewhere"))
    assert told_in_the_navigation(ann) == "2 waiting, 1 late"
    assert told_in_the_navigation(make_operator()) == "3 waiting, 2 late"
    assert told_in_the_navigation(make_user()) == "0 waiting, 0 late"


def test_navigation_asks_the_database_once_in_ten_seconds(
    opened: Opened, ann: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    told_in_the_navigation(ann)
    with django_assert_num_queries(0):
        told_in_the_navigation(ann)


def beside(client: Client, checkpoint: Checkpoint, query: str = "") -> tuple[list[str], str]:
    """Return the ids that the list beside a checkpoint leads to, and the one that is marked."""
    page = client.get(f"/review/{checkpoint.checkpoint_id}/?tenant=acme{query}").content.decode()
    rail = page.partition('<aside class="rail"')[2].partition("</aside>")[0]
    links = re.findall(r'<a href="/review/([0-9a-f-]{36})/[^"]*"( aria-current="page")?', rail)
    return [found for found, _ in links], next((found for found, current in links if current), "")


def test_list_that_one_came_from_stands_beside_a_checkpoint(desk: Client, opened: Opened) -> None:
    first, second, other = opened(30), opened(20), opened(10, job_type="coding")
    everything = [str(one) for one in ids(first, second, other)]
    assert beside(desk, second) == (everything, str(second.checkpoint_id))
    assert beside(desk, second, f"&next={quote('/review/?job=research')}") == (
        everything[:2],
        str(second.checkpoint_id),
    )
    for nonsense in ("/review/?sort=x", "/review/?tenant=elsewhere", "https://evil.example/?job=research"):
        assert beside(desk, second, f"&next={quote(nonsense)}")[0] == everything


# A file


def test_file_holds_the_rows_of_the_list_in_its_order(
    desk: Client, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    done, mine, hostile = opened(9), opened(8), opened(7, question='=HYPERLINK("https://evil.example")')
    decided(done, bob, now, STOP)
    claim(mine, actor=ann, now=now)
    response = desk.get("/review/export.csv?state=any&sort=opened&size=1")
    text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    assert [UUID(row["checkpoint_id"]) for row in rows] == ids(done, mine, hostile)
    assert [row["state"] for row in rows] == ["decided", "claimed", "open"]
    assert [row["decision"] for row in rows] == ["stop", "", ""]
    assert (rows[0]["decided_by"], rows[1]["claimed_by"]) == ("bob", "ann")
    assert rows[2]["question"].startswith("'=")


def test_file_of_filters_that_make_no_sense_is_refused(desk: Client) -> None:
    assert desk.get("/review/export.csv?state=x").status_code == 400
