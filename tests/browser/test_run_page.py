"""The page of a run, of a live one, their list, and a review, as people use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import expect

from guardops.guard import events
from guardops.guard.events import Action, Outcome, StepOutcome
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.models import LiveRun, StopReview
from tests.browser.conftest import Desks, Look
from tests.browser.test_every_page import faults_by_look
from tests.factories import make_checkpoint, make_member, make_run_event, make_run_id, store_runs
from tests.runs.checkpoints.deciding import decided
from tests.runs.live_rows import insert_live, insert_refusal

CALLS = {
    0: ("catalog.search", '{"q":"kestrel k4"}', "b81f02c4" * 8),
    1: ("catalog.get", '{"sku":"K4-EU"}', "3e90d7aa" * 8),
}
LIMITS = {
    "max_steps": 40,
    "max_cost": "3.00",
    "max_seconds": 900,
    "cycle_reps": 3,
    "hops": 4,
    "descendants": 20,
}


@pytest.fixture
def stopped(tenant: Tenant) -> UUID:
    """A task in two attempts, resumed by a person: the second went in circles, with a tree of sub-runs."""
    now = datetime.now(UTC).replace(microsecond=0)
    first = make_run_event(
        ended_at=now - timedelta(hours=1), outcome=Outcome.ESCALATED, halt_reason="uncertain_write"
    )
    task = str(first.run_id)

    def run(minutes: int, **fields: Any) -> events.RunEnded:
        ended_at = now - timedelta(minutes=minutes)
        return make_run_event(**{"ended_at": ended_at, "root_task_id": task, "limits": LIMITS, **fields})

    second = run(
        9,
        attempt=2,
        resumed_from=first.run_id,
        outcome=Outcome.HALTED,
        halt_reason="cycle_period_2",
        first_reason="repeated_call",
        prompt_version="catalog-v31",
        cost=Decimal("0.71"),
        steps=23,
        tool_calls=24,
        last_steps=[step(number, now) for number in range(5, 25)],
        ledger=[
            events.LedgerRow(
                fingerprint=args_hash,
                tool=tool,
                args_hash=args_hash,
                count=10,
                blocked=True,
                first_error="429",
            )
            for tool, _, args_hash in CALLS.values()
        ],
        interventions=[
            events.Intervention(step=18, action=Action.NUDGE, reason="repeated_call"),
            events.Intervention(step=24, action=Action.HALT, reason="cycle_period_2"),
        ],
        sources=[events.Source(kind=events.SourceKind.DOMAIN, name="catalog.example", proposed=True)],
        policy=events.PolicyInForce(
            version=7, revision_start=42, revision_end=43, src=events.PolicySource.SERVER, age_s=12
        ),
        lineage=events.Lineage(hops_remaining=4),
    )
    child = run(10, parent_run_id=second.run_id, agent="searcher", lineage=events.Lineage(hops_remaining=3))
    grandchild = run(11, parent_run_id=child.run_id, agent="fetcher", outcome=Outcome.CANCELLED)
    store_runs(tenant, first, second, child, grandchild, received_at=now)
    insert_live(tenant, root_task_id=task, parent_run_id=second.run_id, agent="still-at-it")
    insert_refusal(tenant, root_task_id=task, agent="turned-away")
    checkpoint = make_checkpoint(tenant, opened_at=first.ended_at, run_id=first.run_id)
    decided(checkpoint, make_member(tenant, Role.REVIEWER, username="ann"), now)
    assert second.run_id is not None
    return second.run_id


def step(number: int, now: datetime) -> events.Step:
    tool, args, args_hash = CALLS[number % 2]
    return events.Step(
        step=number,
        tool=tool,
        args=args,
        args_hash=args_hash,
        result_digest="d",
        outcome=StepOutcome.REFUSED if number == 24 else StepOutcome.OK,
        at=now - timedelta(minutes=10),
    )


@pytest.fixture
def live(tenant: Tenant) -> LiveRun:
    insert_live(tenant, agent="dead", last_at=datetime.now(UTC) - timedelta(hours=1))
    return insert_live(
        tenant,
        steps=37,
        pressure=92,
        pressure_limit="max_steps",
        pressures={"max_steps": 0.92, "max_cost": 1.2, "max_seconds": 0.3},
        detail={"limits": LIMITS},
        release="2026.3",
    )


@pytest.mark.parametrize("page", ["run", "review", "live", "live-run"])
def test_page_is_accessible_in_every_look(
    desk: Desks, person: User, stopped: UUID, live: LiveRun, page: str
) -> None:
    path = {
        "run": f"/runs/{stopped}/",
        "review": f"/runs/{stopped}/review/",
        "live": "/runs/live/",
        "live-run": f"/runs/{live.run_id}/",
    }[page]
    assert faults_by_look(desk, person, path) == {}


def test_chain_of_the_cause_is_on_one_screen(desk: Desks, person: User, stopped: UUID) -> None:
    page = desk(person).open(f"/runs/{stopped}/")
    chain = page.locator(".cause")
    for said in (
        "cycle_period_2",
        "catalog.get",
        "first error 429",
        "5–24",
        "Rounds of a cycle: 3",
        "42 → 43",
        "catalog-v31",
    ):
        expect(chain).to_contain_text(said)
    box = chain.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900 / 2


def test_false_stop_is_marked_changed_and_withdrawn_by_keyboard(
    desk: Desks, tenant: Tenant, stopped: UUID
) -> None:
    page = desk(make_member(tenant, Role.REVIEWER), Look("light", 1440)).open(f"/runs/{stopped}/")
    keys = page.keyboard
    page.get_by_role("link", name="Mark as false stop").focus()
    keys.press("Enter")
    page.get_by_label("False stop: the run was doing useful work").focus()
    for key in ("Tab", "Tab"):
        keys.press(key)
    keys.type("It was paging a real catalogue.")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Marked as a false stop.")
    expect(page.get_by_label("Review of the stop")).to_contain_text("It was paging a real catalogue.")

    page.get_by_role("link", name="change or withdraw").focus()
    keys.press("Enter")
    page.get_by_role("button", name="Withdraw it").focus()
    keys.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The review is withdrawn.")
    assert not StopReview.objects.exists()


def test_review_works_with_scripts_off(desk: Desks, person: User, stopped: UUID) -> None:
    page = desk(person, java_script_enabled=False).open(f"/runs/{stopped}/")
    page.get_by_role("link", name="Mark as false stop").click()
    page.get_by_label("Right stop").check()
    page.get_by_role("button", name="Save the review").click()
    expect(page.get_by_role("status")).to_contain_text("Marked as a right stop.")


def test_page_of_a_live_run_turns_into_the_ended_one(desk: Desks, tenant: Tenant, person: User) -> None:
    event = make_run_event(run_id=make_run_id(datetime.now(UTC)), ended_at=datetime.now(UTC))
    insert_live(tenant, run_id=event.run_id)
    page = desk(person).open(f"/runs/{event.run_id}/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Running: 0 steps so far")
    store_runs(tenant, event, received_at=datetime.now(UTC))
    page.evaluate("htmx.trigger('#live-run', 'resume')")
    expect(page.get_by_role("heading", level=1)).to_have_text("Completed after 5 steps")
