from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from guardops.guard import events
from guardops.guard.events import Outcome
from guardops.tenants.choices import Role
from runs.pages.task import TASK_RUNS, Member, TaskTree, make_tree
from tests.factories import make_checkpoint, make_member, make_run_event, make_run_id
from tests.runs.checkpoints.deciding import decided
from tests.runs.live_rows import insert_live, insert_refusal
from tests.runs.pages.conftest import Cast, listed

Add = Callable[..., UUID]
Ingest = Callable[..., None]

START = datetime(2026, 3, 14, tzinfo=UTC)


def member(number: int, parent: int | None = None, **fields: Any) -> Member:
    values: dict[str, Any] = {
        "run_id": UUID(int=number),
        "agent": f"a{number}",
        "outcome": "completed",
        "attempt": 1,
        "parent_run_id": None if parent is None else UUID(int=parent),
        "resumed_from": None,
        "started_at": START + timedelta(seconds=number),
        "steps": 2,
        "cost": Decimal("0.5"),
        "hops": "",
    }
    return Member(**(values | fields))


def tree(*members: Member, this: int = 1) -> TaskTree:
    totals = {"runs": len(members), "cost": Decimal(0), "steps": 0}
    return make_tree("task", members, totals, [], UUID(int=this))


def shape(found: TaskTree) -> list[tuple[str, int, int]]:
    return [(node.run.agent, node.depth, node.descendants) for node in found.nodes]


def test_runs_stand_under_the_run_that_started_them() -> None:
    found = tree(member(1), member(4, 2), member(2, 1), member(3, 1))
    assert shape(found) == [("a1", 0, 3), ("a2", 1, 1), ("a4", 2, 0), ("a3", 1, 0)]
    assert (found.descendants, found.breadth, found.depth) == (3, 2, 2)


def test_tree_is_measured_against_the_limits_of_its_root() -> None:
    limits = {"max_cost": "2.00", "max_steps": 4, "descendants": 20, "hops": 3}
    found = tree(member(1, limits=limits), member(2, 1), member(9), this=2)
    assert [(one.label, one.used, one.word) for one in found.pressures] == [
        ("Cost in USD", "$1.00 of $2.00", "within"),
        ("Steps", "4 of 4", "used up"),
    ]
    assert (found.descendants_limit, found.hops_limit) == (20, 3)


@pytest.mark.parametrize(
    "limits",
    [
        None,
        {},
        {"max_cost": "x", "max_steps": 0, "hops": "many"},
        {"max_cost": "1e-999999", "max_steps": 5e-324},
        {"max_cost": "1e999999", "max_steps": 1e300},
        {"max_cost": "sNaN", "max_steps": "-Infinity"},
    ],
)
def test_limits_that_make_no_sense_are_left_out(limits: dict[str, Any] | None) -> None:
    found = tree(member(1, limits=limits))
    assert (found.pressures, found.hops_limit, found.descendants_limit) == ([], None, None)


def test_attempts_stand_one_after_the_other() -> None:
    found = tree(member(5, attempt=2), member(1, outcome="escalated"), member(2, 1))
    assert [(run.attempt, run.outcome) for run in found.attempts] == [(1, "escalated"), (2, "completed")]


def test_run_whose_parent_is_not_here_stands_at_the_root() -> None:
    found = tree(member(1), member(2, 7))
    assert [(node.depth, node.missing_parent) for node in found.nodes] == [(0, False), (0, True)]
    assert [run.agent for run in found.attempts] == ["a1"]


@pytest.mark.parametrize("parents", [{1: 1}, {1: 2, 2: 1}, {1: 2, 2: 3, 3: 1}])
def test_runs_that_are_their_own_ancestors_are_shown_once(parents: dict[int, int]) -> None:
    found = tree(*(member(number, parent) for number, parent in parents.items()))
    assert sorted(node.run.agent for node in found.nodes) == sorted(f"a{number}" for number in parents)


def test_parent_is_found_by_the_id_that_it_was_sent_with(
    viewer: Client, ingest: Ingest, now: datetime
) -> None:
    root = make_run_event(run_id=uuid4(), ended_at=now, agent="lead")  # no time in it: stored under another
    child = make_run_event(
        run_id=uuid4(), ended_at=now, agent="helper", root_task_id=str(root.run_id), parent_run_id=root.run_id
    )
    ingest(root, child)
    for event, badges in ((child, ["parent", "this run"]), (root, ["this run", "child"])):
        task = viewer.get(f"/runs/{event.run_id}/").context["story"].task
        assert [(node.run.agent, node.depth) for node in task.nodes] == [("lead", 0), ("helper", 1)]
        assert [node.badge for node in task.nodes] == badges


def test_page_shows_the_tree_with_hops_and_the_shared_budget(
    cast: Cast, viewer: Client, ingest: Ingest, now: datetime
) -> None:
    def run(agent: str, hops: int, **fields: Any) -> events.RunEnded:
        return make_run_event(
            **{
                "ended_at": now - timedelta(minutes=1),
                "root_task_id": "task-1",
                "agent": agent,
                "cost": Decimal("0.50"),
                "lineage": events.Lineage(hops_remaining=hops),
                "limits": {"max_cost": "2.00", "descendants": 20, "hops": 4},
                **fields,
            }
        )

    root = run("lead", 4)
    child = run("searcher", 3, parent_run_id=root.run_id)
    grandchild = run("fetcher", 2, parent_run_id=child.run_id, outcome=Outcome.CANCELLED)
    ingest(root, child, grandchild)
    response = viewer.get(f"/runs/{child.run_id}/")
    task = response.context["story"].task
    assert [(node.run.agent, node.depth, node.run.hops) for node in task.nodes] == [
        ("lead", 0, "4"),
        ("searcher", 1, "3"),
        ("fetcher", 2, "2"),
    ]
    text = " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())
    assert "$1.50 of $2.00" in text
    assert "Descendants 2 of 20" in text
    assert "Depth 2 of 4 hops" in text


def test_number_of_descendants_links_to_exactly_them(viewer: Client, add: Add) -> None:
    root = add(root_task_id="task-1")
    children = {add(root_task_id="task-1", parent_run_id=root) for _ in range(2)}
    add(root_task_id="task-2", parent_run_id=root)
    page = viewer.get(f"/runs/{root}/").content.decode()
    (href,) = re.findall(r'href="/runs/(\?[^"]*delegated=1)">2</a>', page)
    assert set(listed(viewer, href.replace("&amp;", "&"))) == children


def test_live_runs_and_refused_work_of_the_task_are_shown(cast: Cast, viewer: Client, add: Add) -> None:
    run_id = add(root_task_id="task-1")
    live = insert_live(cast.tenant, root_task_id="task-1", parent_run_id=run_id, agent="still-at-it")
    insert_live(cast.tenant, agent="somebody-else")
    insert_live(cast.sibling, root_task_id="task-1", agent="a-stranger")
    insert_refusal(cast.tenant, root_task_id="task-1", agent="turned-away")
    insert_refusal(cast.sibling, root_task_id="task-1", agent="a-stranger")
    page = viewer.get(f"/runs/{run_id}/").content.decode()
    assert "still-at-it" in page
    assert f'href="/runs/{live.run_id}/?tenant=research"' in page
    assert "turned-away" in page
    assert "hop_budget" in page
    assert "somebody-else" not in page
    assert "a-stranger" not in page
    assert 'href="/runs/live/?tenant=research&amp;root=task-1">1 running</a>' in page


def test_task_of_very_many_runs_is_cut_and_counted_whole(
    viewer: Client, add: Add, now: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(TASK_RUNS + 2):
        add(root_task_id="task-1", cost=Decimal("0.01"))
    last = add(root_task_id="task-1", cost=Decimal("0.01"), at=now)
    viewer.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_num_queries(10):
        task = viewer.get(f"/runs/{last}/").context["story"].task
    assert (task.runs, task.cost) == (TASK_RUNS + 3, Decimal("0.53"))
    assert len(task.nodes) == TASK_RUNS + 1  # this run, though it is not among the first
    assert task.more == 2


def test_lineage_that_cannot_be_read_is_shown_as_text(viewer: Client, add: Add) -> None:
    run_id = add(detail={"lineage": {"hops_remaining": "<b>\u202emany"}, "limits": ["not", "an", "object"]})
    response = viewer.get(f"/runs/{run_id}/")
    assert response.status_code == 200
    assert "&lt;b&gt;" in response.content.decode()


def test_attempt_escalated_then_completed_reads_in_order(
    viewer: Client, ingest: Ingest, now: datetime
) -> None:
    start = now - timedelta(minutes=30)
    first = make_run_event(
        run_id=make_run_id(start), ended_at=start, outcome=Outcome.ESCALATED, halt_reason="uncertain_write"
    )
    second = make_run_event(
        ended_at=now, root_task_id=str(first.run_id), attempt=2, resumed_from=first.run_id
    )
    ingest(first, second)
    for event in (first, second):
        page = viewer.get(f"/runs/{event.run_id}/").content.decode()
        (line,) = re.findall(r'<ol class="attempts".*?</ol>', page, re.DOTALL)
        assert " ".join(re.sub(r"<[^>]+>", " ", line).split()) == "attempt 1 Escalated attempt 2 Completed"


def test_what_a_person_decided_stands_between_the_attempts(
    viewer: Client, cast: Cast, ingest: Ingest, now: datetime
) -> None:
    start = now - timedelta(minutes=30)
    first = make_run_event(
        run_id=make_run_id(start), ended_at=start, outcome=Outcome.ESCALATED, halt_reason="no_progress"
    )
    ingest(first)
    checkpoint = make_checkpoint(cast.tenant, opened_at=start, run_id=first.run_id)
    waits = viewer.get(f"/runs/{first.run_id}/").content.decode()
    assert f'href="/review/{checkpoint.checkpoint_id}/?tenant=research">waits for a decision' in waits
    decided(checkpoint, make_member(cast.tenant, Role.REVIEWER, username="ann"), now)
    ingest(make_run_event(ended_at=now, root_task_id=str(first.run_id), attempt=2, resumed_from=first.run_id))
    page = viewer.get(f"/runs/{first.run_id}/").content.decode()
    (line,) = re.findall(r'<ol class="attempts".*?</ol>', page, re.DOTALL)
    words = " ".join(re.sub(r"<[^>]+>", " ", line).split())
    assert words == "attempt 1 Escalated Resume by ann attempt 2 Completed"
