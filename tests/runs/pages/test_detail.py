from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from guardops.guard import events
from guardops.guard.events import Action, Outcome
from tests.factories import make_run_event, make_run_id
from tests.runs.pages.conftest import Cast

Add = Callable[..., UUID]
Ingest = Callable[..., None]

HOSTILE = (
    "<script>alert(1)</script>\u202egnp.exe\u200b\x1b[31m{{ run }}{% now %}"
    "<img src=x onerror=alert(2)> https://evil.example javascript:alert(3) \" hx-get='/'"
)


def event_of(now: datetime, **fields: object) -> events.RunEnded:
    return make_run_event(**{"ended_at": now - timedelta(minutes=1), **fields})


@pytest.mark.parametrize(
    ("outcome", "reason", "title"),
    [
        (Outcome.COMPLETED, None, "Completed after 5 steps"),
        (Outcome.COMPLETED_FORCED, "no_progress", "Answer forced after 5 steps: nothing new was learned"),
        (Outcome.UNRESOLVED, "deadline", "Closed unresolved after 5 steps: its deadline passed"),
        (Outcome.ESCALATED, "uncertain_write", "Handed to a person after 5 steps: a write may or may not"),
        (Outcome.HALTED, "cycle_period_2", "Stopped after 5 steps: two calls in turn, nothing new"),
        (Outcome.CANCELLED, "operator_stop", "Cancelled after 5 steps: a person stopped it"),
        (Outcome.FAILED, None, "Failed after 5 steps"),
    ],
)
def test_page_tells_every_outcome_in_words(
    viewer: Client, ingest: Ingest, now: datetime, outcome: Outcome, reason: str | None, title: str
) -> None:
    event = event_of(now, outcome=outcome, halt_reason=reason)
    ingest(event)
    response = viewer.get(f"/runs/{event.run_id}/")
    assert response.status_code == 200
    assert f"<h1>{title}" in response.content.decode()


def test_page_shows_what_the_event_carried(viewer: Client, ingest: Ingest, now: datetime) -> None:
    event = event_of(
        now,
        outcome=Outcome.HALTED,
        halt_reason="GraphRecursionError",
        first_reason="repeated_call",
        release="2026.3",
        prompt_version="p7",
        cost=Decimal("1.25"),
        limits={"max_turns": 6},
        interventions=[events.Intervention(step=4, action=Action.NUDGE, reason="repeated_call")],
        last_steps=[events.Step(step=5, tool="catalog.search", args='{"q":"kestrel"}')],
        ledger=[events.LedgerRow(fingerprint="b81f02c4", tool="catalog.search", count=3, blocked=True)],
        sources=[
            events.Source(kind=events.SourceKind.DOMAIN, name="shop.example", calls=3, quarantined=True)
        ],
        policy=events.PolicyInForce(
            version=7, revision_start=42, revision_end=42, src=events.PolicySource.SERVER
        ),
        lineage=events.Lineage(hops_remaining=3, chain=[events.ChainLink(agent="front-desk")]),
        halt_detail={"limit": 6},
        attributes={"queue": "night"},
    )
    ingest(event)
    page = " ".join(re.sub(r"<[^>]+>", "", viewer.get(f"/runs/{event.run_id}/").content.decode()).split())
    for said in (
        "max_turns",
        "sent as GraphRecursionError",
        "first hit: repeated_call",
        "2026.3+p7",
        "$1.25",
        "Turns: 6",
        "stopped it",
        "Guard nudged (repeated_call)",
        "catalog.search(&quot;kestrel&quot;)",
        "b81f02c4",
        "shop.example",
        "quarantined for this task",
        "version 7",
        "enforce · revision 42",
        "from the server",
        "front-desk",
        "&quot;limit&quot;: 6",
        "&quot;queue&quot;: &quot;night&quot;",
    ):
        assert said in page, said


def test_hostile_text_is_shown_and_never_works(viewer: Client, ingest: Ingest, now: datetime) -> None:
    event = event_of(
        now,
        job_type=HOSTILE[:128],
        agent=HOSTILE[:128],
        release=HOSTILE[:128],
        prompt_version=HOSTILE[:128],
        root_task_id=HOSTILE[:128],
        outcome=Outcome.HALTED,
        halt_reason=HOSTILE[:64],
        first_reason=HOSTILE[:64],
        last_steps=[
            events.Step(
                step=1,
                tool=HOSTILE[:128],
                args=HOSTILE * 3,
                outcome=events.StepOutcome.ERROR,
                error_code=HOSTILE[:64],
                error_class=HOSTILE[:64],
            )
        ],
        interventions=[events.Intervention(step=1, action=Action.HALT, reason=HOSTILE[:64])],
        ledger=[
            events.LedgerRow(
                fingerprint=HOSTILE[:80],
                tool=HOSTILE[:128],
                first_error=HOSTILE[:64],
                last_error=HOSTILE[:64],
            )
        ],
        sources=[events.Source(kind=events.SourceKind.DOMAIN, name=HOSTILE)],
        limits={HOSTILE: HOSTILE, "max_steps": {HOSTILE: [HOSTILE]}},
        halt_detail={HOSTILE: HOSTILE},
        attributes={HOSTILE[:64]: HOSTILE},
        lineage=events.Lineage(chain=[events.ChainLink(agent=HOSTILE[:128])]),
        truncated=[HOSTILE[:64]],
        guard=events.GuardInfo(version=HOSTILE[:64], adapter=HOSTILE[:64]),
    )
    ingest(event)
    for address in (f"/runs/{event.run_id}/", "/runs/", "/runs/?q=%3Cscript%3E&reason=%E2%80%AE%3Cscript%3E"):
        page = viewer.get(address).content.decode()
        assert "&lt;script&gt;" in page
        assert not re.search(r"<script(?![^>]* src=\"/static/)", page)
        assert "<img" not in page
        assert "\u202e" not in page
        assert "\u200b" not in page
        assert "\x1b" not in page
        assert not re.search(r"href=\"(https?:|javascript:)", page)
        assert "hx-get='/'" not in page
    page = viewer.get(f"/runs/{event.run_id}/").content.decode()
    assert '<span class="unseen">⟦U+202E⟧</span>' in page
    assert '<span class="unseen">⟦U+200B⟧</span>' in page
    assert '<span class="unseen">⟦U+001B⟧</span>' in page


def test_page_without_detail_says_what_is_missing(viewer: Client, add: Add) -> None:
    page = viewer.get(f"/runs/{add()}/").content.decode()
    assert "No steps were sent" in page
    assert "Failure ledger" not in page
    assert "Limits in force" not in page


def test_shadow_run_says_what_would_have_stopped_it(viewer: Client, ingest: Ingest, now: datetime) -> None:
    event = event_of(now, would_halt=events.WouldHalt(reason="no_progress", step=3))
    ingest(event)
    page = viewer.get(f"/runs/{event.run_id}/").content.decode()
    assert "Shadow mode would have" in page
    assert "at step 3" in page


def test_long_arguments_open_in_an_untrusted_block(viewer: Client, ingest: Ingest, now: datetime) -> None:
    event = event_of(now, last_steps=[events.Step(step=1, tool="fetch", args="x" * 1_000)])
    ingest(event)
    page = viewer.get(f"/runs/{event.run_id}/").content.decode()
    assert "All 1,000 characters of the arguments" in page
    assert "Untrusted · arguments of step 1" in page
    assert page.count("x" * 1_000) == 1


def test_suspect_clock_is_said(viewer: Client, ingest: Ingest, now: datetime) -> None:
    event = event_of(now, ended_at=now + timedelta(hours=3))
    ingest(event)
    (run,) = viewer.get("/runs/").context["listing"].page.runs
    assert "clock was off" in viewer.get(f"/runs/{run.run_id}/").content.decode()


def test_runs_of_the_task_are_listed_with_what_they_are(
    viewer: Client, ingest: Ingest, now: datetime
) -> None:
    start = now - timedelta(minutes=9)
    first = event_of(now, run_id=make_run_id(start), outcome=Outcome.ESCALATED, halt_reason="uncertain_write")
    second = event_of(
        now, root_task_id=str(first.run_id), attempt=2, resumed_from=first.run_id, agent="second-try"
    )
    child = event_of(now, root_task_id=str(first.run_id), parent_run_id=second.run_id, agent="helper")
    other = event_of(now, agent="somebody-else")
    ingest(first, second, child, other)
    response = viewer.get(f"/runs/{second.run_id}/")
    page = response.content.decode()
    assert {node.run.run_id for node in response.context["story"].task.nodes} == {
        first.run_id,
        second.run_id,
        child.run_id,
    }
    assert "somebody-else" not in page
    for badge in ("this run", "resumed here", "child"):
        assert f'<span class="badge">{badge}</span>' in page
    assert f"root={first.run_id}" in page


def test_task_of_another_tenant_is_another_task(
    cast: Cast, member: Client, ingest: Ingest, now: datetime
) -> None:
    mine, theirs = event_of(now, root_task_id="task-1"), event_of(now, root_task_id="task-1")
    ingest(mine)
    ingest(theirs, tenant=cast.sibling)
    story = member.get(f"/runs/{mine.run_id}/").context["story"]
    assert [node.run.run_id for node in story.task.nodes] == [mine.run_id]


def test_run_of_a_tenant_that_may_not_be_seen_is_not_found(cast: Cast, viewer: Client, add: Add) -> None:
    for tenant in (cast.sibling, cast.foreign):
        run_id = add(tenant_id=tenant.pk)
        assert viewer.get(f"/runs/{run_id}/").status_code == 404
        assert viewer.get(f"/runs/{run_id}/?tenant={tenant.slug}").status_code == 404
    assert viewer.get(f"/runs/{uuid4()}/").status_code == 404
    assert viewer.get("/runs/nobody/").status_code == 404


def test_outsider_finds_no_run(cast: Cast, client: Client, add: Add) -> None:
    client.force_login(cast.outsider)
    assert client.get(f"/runs/{add()}/").status_code == 404


def test_run_is_found_by_the_id_that_it_was_sent_with(
    cast: Cast, viewer: Client, ingest: Ingest, now: datetime
) -> None:
    sent, foreign = uuid4(), uuid4()  # no times in them, so both runs are stored under other ids
    ingest(event_of(now, run_id=sent))
    ingest(event_of(now, run_id=foreign), tenant=cast.foreign)
    page = viewer.get(f"/runs/{sent}/")
    assert page.context["detail"].run_id == sent
    assert page.context["run"].run_id != sent
    assert viewer.get(f"/runs/{foreign}/").status_code == 404


def test_id_in_two_visible_tenants_is_a_choice(cast: Cast, member: Client, add: Add, now: datetime) -> None:
    run_id = make_run_id(now - timedelta(minutes=2))
    add(run_id=run_id, job_type="mine")
    add(run_id=run_id, job_type="theirs", tenant_id=cast.sibling.pk)
    page = member.get(f"/runs/{run_id}/").content.decode()
    assert "This id is a run in 2 of your tenants" in page
    assert f'href="/runs/{run_id}/?tenant=support"' in page
    assert member.get(f"/runs/{run_id}/?tenant=support").context["run"].job_type == "theirs"


def test_id_in_two_tenants_is_one_run_for_who_sees_one(
    cast: Cast, viewer: Client, add: Add, now: datetime
) -> None:
    run_id = make_run_id(now - timedelta(minutes=2))
    add(run_id=run_id, job_type="mine")
    add(run_id=run_id, job_type="theirs", tenant_id=cast.sibling.pk)
    response = viewer.get(f"/runs/{run_id}/")
    assert response.context["run"].job_type == "mine"
    assert "theirs" not in response.content.decode()


def test_list_links_to_the_run_of_its_tenant(cast: Cast, member: Client, add: Add) -> None:
    run_id = add(tenant_id=cast.sibling.pk)
    assert f'href="/runs/{run_id}/?tenant=support"' in member.get("/runs/").content.decode()


def test_queries_do_not_grow_with_the_task(
    viewer: Client, add: Add, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run_id = add(root_task_id="task-1")
    viewer.get("/connect/")  # what the navigation counts is known for ten seconds
    for number in (1, 9):
        for _ in range(number):
            add(root_task_id="task-1")
        # Two for the session, its tenants, the run (ended, live), its task (ended, live, refused).
        with django_assert_num_queries(9):
            viewer.get(f"/runs/{run_id}/")


def test_stop_costs_two_more_queries(
    viewer: Client, add: Add, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run_id = add(outcome="halted", halt_reason="no_progress")
    viewer.get("/connect/")  # as above
    with django_assert_num_queries(11):  # the reader's role, and the review
        viewer.get(f"/runs/{run_id}/")
