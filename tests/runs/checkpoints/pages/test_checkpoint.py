from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from guardops.guard.decisions import Consume, DecisionAction
from guardops.guard.ids import uuid7
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.choice import Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import undo
from runs.checkpoints.deliver import consume, read_reply
from runs.checkpoints.notes import add_note
from runs.checkpoints.timeouts import expire
from runs.models import Checkpoint
from tests.factories import (
    let_undo_time_pass,
    make_checkpoint,
    make_member,
    make_run_event,
    make_run_id,
    make_tenant,
    store_runs,
)
from tests.runs.checkpoints.deciding import STOP, decided, resume
from tests.runs.checkpoints.pages.conftest import PAYMENT, path_of

pytestmark = pytest.mark.django_db


def words(page: str) -> str:
    """Return what a page says, its white space folded."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_page_says_why_what_was_tried_and_what_each_decision_does(
    desk: Client, checkpoint: Checkpoint, ceiling: None
) -> None:
    page = desk.get(path_of(checkpoint)).content.decode()
    for said in (
        "It learns nothing new",
        "no_progress",
        "Is the price list on mirror.example complete without its later pages?",
        "the price of the large plan",
        "mirror.example/p/14",
        "14 of 40",
        "$0.310",
        "stops as unresolved",
        "Page 14 of 999. Next: /p/15",
        "Blocks mirror.example.",
        "You write the result; the task ends as completed by a person.",
        "One turn without tools; its answer is marked incomplete.",
        "Ends unresolved, at once.",
        "Its run has not reported its end; a stop can be reviewed once it has.",
    ):
        assert said in words(page), said


def test_viewer_reads_all_and_is_offered_nothing(
    client: Client, tenant: Tenant, checkpoint: Checkpoint
) -> None:
    client.force_login(make_member(tenant))
    page = client.get(path_of(checkpoint)).content.decode()
    assert "Page 14 of 999" in page
    assert "Claim" not in page
    assert "/decide/" not in page
    assert "Save the note" not in page


def test_only_admins_are_led_to_the_blocklist_whose_form_is_filled_in(
    desk: Client, tenant: Tenant, checkpoint: Checkpoint
) -> None:
    assert "/blocklist/add/" not in desk.get(path_of(checkpoint)).content.decode()
    desk.force_login(make_member(tenant, Role.ADMIN))
    page = desk.get(path_of(checkpoint)).content.decode()
    address, _ = re.findall(r'href="(/blocklist/add/[^"]+)"', page)
    form = desk.get(address.replace("&amp;", "&")).context["form"]
    told = {name: form[name].value() for name in ("place", "names", "kind", "origin", "evidence")}
    assert told == {
        "place": "tenant:acme",
        "names": "mirror.example",
        "kind": "domain",
        "origin": "checkpoint",
        "evidence": f"{path_of(checkpoint)}?tenant=acme",
    }


def test_id_in_two_tenants_is_chosen_from_those_that_are_seen(
    desk: Client, tenant: Tenant, ann: User, now: datetime, checkpoint: Checkpoint
) -> None:
    sibling = make_tenant("support", organisation=tenant.organisation)
    make_checkpoint(sibling, opened_at=now, checkpoint_id=checkpoint.checkpoint_id)
    assert "Page 14" in desk.get(path_of(checkpoint)).content.decode()
    desk.force_login(make_member(tenant.organisation, Role.REVIEWER))
    page = desk.get(path_of(checkpoint)).content.decode()
    assert "This id is a checkpoint in 2 of your tenants" in page
    assert desk.post(path_of(checkpoint, "claim")).status_code == 404
    assert "Page 14" in desk.get(f"{path_of(checkpoint)}?tenant=support").content.decode()


def test_run_that_was_reported_is_linked_with_its_review(desk: Client, tenant: Tenant, now: datetime) -> None:
    run = make_run_event(ended_at=now, outcome="escalated", halt_reason="no_progress")
    store_runs(tenant, run, received_at=now)
    page = desk.get(path_of(make_checkpoint(tenant, opened_at=now, run_id=run.run_id))).content.decode()
    assert f'href="/runs/{run.run_id}/?tenant=acme"' in page
    assert f'href="/runs/{run.run_id}/review/?tenant=acme"' in page


def test_call_that_waits_for_approval_is_shown_first_and_stands_out(
    desk: Client, tenant: Tenant, now: datetime
) -> None:
    asking = make_checkpoint(tenant, opened_at=now, reason="approval_required", refused=PAYMENT)
    response = desk.get(path_of(asking))
    page = response.content.decode()
    assert response.context["offers"][0].action == "approve"
    assert page.index("Waits for your approval") < page.index("What was tried")
    assert "&quot;amount&quot;:&quot;120.00&quot;" in page


def test_refused_credentials_make_a_stop_stand_out(desk: Client, tenant: Tenant, now: datetime) -> None:
    refused = make_checkpoint(tenant, opened_at=now, reason="tool_auth_error")
    offers = desk.get(path_of(refused)).context["offers"]
    assert [(offer.action, offer.is_first) for offer in offers if offer.is_large] == [
        ("stop", True),
        ("resume", False),
    ]


def test_claim_of_another_is_shown(desk: Client, bob: User, checkpoint: Checkpoint, now: datetime) -> None:
    claim(checkpoint, actor=bob, now=now)
    assert "bob is on it" in words(desk.get(path_of(checkpoint)).content.decode())


def test_decision_shows_its_way_until_it_is_carried_out(
    desk: Client, ann: User, tenant: Tenant, checkpoint: Checkpoint, now: datetime
) -> None:
    made = decided(checkpoint, ann, now, resume(input="look at page 3", evidence="it costs 4"))
    page = words(desk.get(path_of(checkpoint)).content.decode())
    for said in ("Resumed by ann", "look at page 3", "it costs 4", "Recorded", "Goes out at", "Undo"):
        assert said in page, said
    assert "/decide/" not in page
    let_undo_time_pass(made)
    page = words(desk.get(path_of(checkpoint)).content.decode())
    assert "Waits for the agent to fetch it" in page
    assert "Undo" not in page
    read_reply(tenant.pk, checkpoint.checkpoint_id, now)
    assert "Not carried out yet" in words(desk.get(path_of(checkpoint)).content.decode())
    attempt = uuid7(round(now.timestamp() * 1000), 1)
    asked = Consume(decision_id=made.pk, attempt_id=attempt, artifact_digest=checkpoint.artifact_digest)
    consume(tenant.pk, checkpoint.checkpoint_id, asked, now + timedelta(seconds=7))
    page = desk.get(path_of(checkpoint)).content.decode()
    assert re.search(r"Carried out .* after 7 s, as attempt 2", words(page).replace("\u00a0", " "))
    assert f'href="/runs/{attempt}/?tenant=acme"' in page
    assert "data-poll hx-get" not in page


def test_checkpoint_that_nobody_decided_says_what_became_of_it(
    desk: Client, tenant: Tenant, now: datetime
) -> None:
    late = make_checkpoint(tenant, opened_at=now - timedelta(hours=5), expires_at=now - timedelta(minutes=1))
    page = words(desk.get(path_of(late)).content.decode())
    assert "Nobody decided in time, so it stops as unresolved." in page
    assert "/decide/" not in page
    expire(late, now)
    assert "Stopped by GuardOps, since nobody decided in time" in words(
        desk.get(path_of(late)).content.decode()
    )


def test_attempts_of_the_task_are_told_with_what_was_decided(
    desk: Client, ann: User, tenant: Tenant, now: datetime
) -> None:
    first = make_run_event(ended_at=now - timedelta(hours=1), outcome="escalated", halt_reason="no_progress")
    task = str(first.run_id)
    second = make_run_event(
        ended_at=now, root_task_id=task, attempt=2, outcome="escalated", halt_reason="repeated_call"
    )
    child = make_run_event(ended_at=now, root_task_id=task, parent_run_id=second.run_id, agent="helper")
    store_runs(tenant, first, second, child, received_at=now)
    before = make_checkpoint(tenant, opened_at=now - timedelta(hours=1), run_id=first.run_id)
    decided(before, ann, now)
    again = make_checkpoint(
        tenant, opened_at=now, run_id=second.run_id, root_task_id=task, attempt=2, reason="repeated_call"
    )
    attempts = desk.get(path_of(again)).context["brief"].attempts
    assert [(one.number, one.run_id, one.is_this) for one in attempts] == [
        (1, first.run_id, False),
        (2, second.run_id, True),
    ]
    assert attempts[0].decision is not None
    assert attempts[0].decision.action == DecisionAction.RESUME


def test_sub_agents_beside_it_are_no_attempts_of_it(
    desk: Client, ann: User, tenant: Tenant, now: datetime
) -> None:
    task, parent = "ticket-7", make_run_id(now - timedelta(hours=2))
    shared: dict[str, Any] = {"root_task_id": task, "parent_run_id": parent}
    handed_over: dict[str, Any] = {"outcome": "escalated", "halt_reason": "no_progress", **shared}
    first = make_run_event(ended_at=now - timedelta(hours=1), **handed_over)
    second = make_run_event(ended_at=now, attempt=2, resumed_from=first.run_id, **handed_over)
    beside = [make_run_event(ended_at=now, attempt=attempt, **handed_over) for attempt in (1, 2, 3)]
    store_runs(tenant, first, second, *beside, received_at=now)
    others = [
        make_checkpoint(tenant, opened_at=now, run_id=one.run_id, attempt=one.attempt, **shared)
        for one in beside
    ]
    before = make_checkpoint(tenant, opened_at=now - timedelta(hours=1), run_id=first.run_id, **shared)
    decided(before, ann, now)
    again = make_checkpoint(tenant, opened_at=now, run_id=second.run_id, attempt=2, **shared)
    attempts = desk.get(path_of(again)).context["brief"].attempts
    assert [(one.number, one.run_id, one.checkpoint) for one in attempts] == [
        (1, first.run_id, before),
        (2, second.run_id, again),
    ]
    alone = desk.get(path_of(others[0])).context["brief"].attempts
    assert [(one.run_id, one.checkpoint) for one in alone] == [(beside[0].run_id, others[0])]


def test_attempt_that_was_granted_is_one_though_it_names_no_run_before_it(
    desk: Client, ann: User, tenant: Tenant, now: datetime
) -> None:
    shared: dict[str, Any] = {"root_task_id": "ticket-7", "parent_run_id": make_run_id(now)}
    handed_over = make_checkpoint(tenant, opened_at=now, external_id="job-1", run_id=None, **shared)
    made = let_undo_time_pass(decided(handed_over, ann, now))
    read_reply(tenant.pk, handed_over.checkpoint_id, now)
    granted = make_run_event(ended_at=now, attempt=2, **shared)
    store_runs(tenant, granted, received_at=now)
    wanted = Consume(
        decision_id=made.pk, attempt_id=granted.run_id, artifact_digest=handed_over.artifact_digest
    )
    consume(tenant.pk, handed_over.checkpoint_id, wanted, now)
    attempts = desk.get(path_of(handed_over)).context["brief"].attempts
    assert [(one.number, one.run_id) for one in attempts] == [(1, None), (2, granted.run_id)]


def test_notes_and_decisions_that_were_taken_back_stay(
    desk: Client, ann: User, checkpoint: Checkpoint, now: datetime
) -> None:
    add_note(checkpoint, "ask the vendor", actor=ann, now=now)
    undo(decided(checkpoint, ann, now, Choice(DecisionAction.ANSWER, answer="It is 4.")), actor=ann, now=now)
    page = words(desk.get(path_of(checkpoint)).content.decode())
    assert "ask the vendor" in page
    assert "Answered, taken back" in page


def test_open_page_is_told_when_somebody_was_faster(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    asked = {"path": path_of(checkpoint), "headers": {"HX-Request": "true"}}
    assert desk.get(data={"seen": 1}, **asked).status_code == 204
    moved = claim(checkpoint, actor=bob, now=now)
    told = desk.get(data={"seen": 1}, **asked).content.decode()
    assert "bob claimed it" in words(told)
    assert "<html" not in told
    assert desk.get(data={"seen": 2}, **asked).status_code == 204
    decided(moved, bob, now, STOP)
    told = desk.get(data={"seen": 2}, **asked).content.decode()
    assert "Stopped by bob" in words(told)
    assert "data-moved" in told


def test_page_asks_the_database_no_more_where_more_was_said(
    desk: Client, ann: User, tenant: Tenant, now: datetime
) -> None:
    run = make_run_event(ended_at=now, outcome="escalated", halt_reason="no_progress")
    store_runs(tenant, run, received_at=now)
    checkpoint = make_checkpoint(tenant, opened_at=now, run_id=run.run_id)

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            desk.get(path_of(checkpoint))
        return len(queries)

    undo(decided(checkpoint, ann, now), actor=ann, now=now)
    before = asked()
    for number in range(5):
        add_note(checkpoint, f"note {number}", actor=ann, now=now)
        undo(decided(checkpoint, ann, now, version=2 * number + 3), actor=ann, now=now)
    assert asked() <= before <= 32
