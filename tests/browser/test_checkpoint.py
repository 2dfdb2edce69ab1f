"""The page of a checkpoint as people use it: at night on a phone, by keyboard alone, and with scripts off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from guardops.guard import checkpoints, events
from guardops.guard.checkpoints import PendingCall
from guardops.guard.decisions import DecisionAction
from guardops.guard.events import Action, StepOutcome
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.publish.policies import Place, save_policy
from runs.checkpoints.choice import Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import decide
from runs.models import Checkpoint, CheckpointNote, Decision
from tests.browser.conftest import Desks, Look
from tests.browser.test_every_page import faults, faults_by_look
from tests.factories import PASSWORD, make_checkpoint, make_member

PHONE = Look("light", 360)
PAYMENT = PendingCall(
    tool="send_money", args='{"to":"DE12","amount":"120.00"}', args_hash="ff" * 8, side_effect="side_effect"
)


@pytest.fixture
def reviewer(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="jo")


def open_checkpoint(tenant: Tenant, **overrides: Any) -> Checkpoint:
    """Return a run that paged through a mirror for 38 steps, over its SLA by now."""
    now = datetime.now(UTC).replace(microsecond=0)
    most = {"steps": 20, "seconds": 600, "cost": "2.00"}
    if not Checkpoint.objects.exists():
        place = Place(tenant.organisation, tenant, "research")
        save_policy(place, {"review": {"resume_max": most}}, seen=0, actor=SYSTEM, now=now)
    fields: dict[str, Any] = {
        "opened_at": now - timedelta(minutes=41),
        "question": "Find the list price and launch date of the Kestrel K4 sensor in EU shops.",
        "last_steps": [step(number, now) for number in range(19, 39)],
        "interventions": [events.Intervention(step=35, action=Action.NUDGE, reason="no_progress")],
        "sources": [
            checkpoints.AttemptedSource(kind=events.SourceKind.DOMAIN, name="docs-mirror.example", calls=31),
            checkpoints.AttemptedSource(kind=events.SourceKind.DOMAIN, name="kestrel.example", calls=2),
        ],
        "spent": checkpoints.Amounts(steps=38, turns=39, seconds=212, cost=Decimal("1.84")),
        "remaining": checkpoints.Amounts(steps=2, turns=1, seconds=688, cost=Decimal("1.16")),
        "limits": {"max_steps": 40, "max_cost": "3.00", "stall_limit": 6},
        "sub_agents": 2,
    }
    return make_checkpoint(tenant, **(fields | overrides))


def step(number: int, now: datetime) -> events.Step:
    failed = number == 37
    return events.Step(
        step=number,
        tool="search_web" if failed else "fetch_page",
        args=f'{{"url":"https://docs-mirror.example/k4?page={number + 7}"}}',
        args_hash=str(number),
        outcome=StepOutcome.ERROR if failed else StepOutcome.OK,
        error_code="429" if failed else "",
        progressed=False,
        at=now - timedelta(minutes=42),
    )


def path_of(checkpoint: Checkpoint) -> str:
    return f"/review/{checkpoint.checkpoint_id}/?tenant=acme"


def top_of(page: Page, text: str) -> float:
    """Return where the text begins, in pixels from the top of the window."""
    box = page.get_by_text(text).first.bounding_box()
    assert box is not None, text
    return box["y"]


def test_engineer_with_a_phone_gets_from_the_alert_to_a_decision_in_two_taps(
    desk: Desks, tenant: Tenant, reviewer: User
) -> None:
    checkpoint = open_checkpoint(tenant)
    at = desk(None, PHONE, has_touch=True)
    page = at.open(path_of(checkpoint))
    page.get_by_label("Username").fill("jo")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{at.base_url}{path_of(checkpoint)}")

    # Without scrolling: why, whose, how late, what it cost, what was tried, what a tap does.
    bar = page.get_by_label("Decide", exact=True).bounding_box()
    assert bar is not None
    for said in (
        "Six steps in a row found nothing new",
        "over by 11",
        "no_progress",
        "Kestrel K4 sensor",
        "$1.84 of $3.00",
        "38 of 40",
        "stops as unresolved",
        "Guard nudged",
        "docs-mirror.example/k4?page=43",
    ):
        assert 0 <= top_of(page, said) < bar["y"], said
    assert bar["y"] <= top_of(page, "Blocks docs-mirror.example, +10 steps.") < 740
    assert at.sideways_scroll() == 0

    page.get_by_role("link", name="Resume…").tap()
    expect(page.get_by_role("dialog")).to_contain_text("docs-mirror.example blocked for this task")
    page.get_by_role("button", name="Resume", exact=True).tap()
    expect(page).to_have_url(f"{at.base_url}/review/")
    made = Decision.objects.get()
    assert (made.action, made.by, made.delivered_at) == ("resume", reviewer, None)
    assert at.complaints == []


def test_decision_can_be_undone_in_another_tab_for_ten_seconds(
    desk: Desks, tenant: Tenant, reviewer: User
) -> None:
    checkpoint = open_checkpoint(tenant)
    at = desk(reviewer, PHONE)
    page = at.open(path_of(checkpoint))
    page.get_by_role("link", name="Resume…").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_text("Resumed. Goes out in")).to_be_visible()
    page.close()

    at.page = at.context.new_page()
    page = at.open(path_of(checkpoint))
    expect(page.get_by_text("Resumed. Goes out in")).to_be_visible()
    assert faults(at) == []
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back. Nothing was sent")).to_be_visible()
    assert Decision.objects.get().undone_at is not None

    # Once it is out, the page says so and offers it no more.
    page.get_by_role("link", name="Force an answer…").click()
    page.get_by_role("button", name="Force an answer", exact=True).click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page = at.open(path_of(checkpoint))
    expect(page.get_by_text("Waits for the agent to fetch it")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_review_is_done_by_keyboard_alone(desk: Desks, tenant: Tenant, reviewer: User) -> None:
    checkpoint, following = open_checkpoint(tenant), open_checkpoint(tenant, job_type="invoices")
    at = desk(reviewer)
    page = at.open(path_of(checkpoint))
    keys = page.keyboard
    keys.press("?")
    for label in ("Claim it", "Resume", "Give the answer", "Force an answer", "Stop the run"):
        expect(page.locator("[data-keys]").get_by_text(label, exact=True)).to_be_visible()
    keys.press("Escape")
    keys.press("c")
    expect(page.get_by_text("Yours until")).to_be_visible()

    keys.press("a")
    expect(page.get_by_role("textbox", name="The answer")).to_be_focused()
    keys.type("rasc?")  # inert in a field
    expect(page.get_by_role("textbox", name="The answer")).to_have_value("rasc?")
    keys.press("Escape")
    expect(page.get_by_role("link", name="Give the answer…")).to_be_focused()
    keys.press("s")
    expect(page.get_by_role("dialog")).to_contain_text("2 sub-agents are cancelled")
    assert faults(at) == []
    keys.press("Escape")
    keys.press("r")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_focused()
    keys.press("Enter")

    # Back in the queue the focus is on what waits next; undoing is one key away.
    expect(page.locator(":focus")).to_have_attribute(
        "href", f"/review/{following.checkpoint_id}/?tenant=acme"
    )
    keys.press("u")
    expect(page.get_by_text("Taken back. Nothing was sent")).to_be_visible()
    keys.press("s")
    keys.press("Enter")
    expect(page.get_by_text("Stopped. It went out at once.")).to_be_visible()
    assert Decision.objects.standing().get().action == "stop"


def test_keys_do_nothing_for_who_has_switched_them_off(desk: Desks, tenant: Tenant, reviewer: User) -> None:
    reviewer.keyboard_shortcuts = False
    reviewer.save()
    page = desk(reviewer).open(path_of(open_checkpoint(tenant)))
    for key in "rs":
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_approving_and_stopping_work_with_scripts_off(desk: Desks, tenant: Tenant, reviewer: User) -> None:
    asking = open_checkpoint(tenant, reason="approval_required", refused=PAYMENT, pending=[uncertain()])
    page = desk(reviewer, PHONE, java_script_enabled=False).open(path_of(asking))
    page.get_by_role("link", name="Approve the call…").click()
    expect(page.get_by_role("main")).to_contain_text('{"to":"DE12","amount":"120.00"}')
    page.get_by_role("button", name="Approve the call").click()
    expect(page.get_by_role("alert").first).to_contain_text("First say whether each write")
    page.get_by_label("No, it did not happen").check()
    page.get_by_role("button", name="Approve the call").click()
    expect(page.get_by_text("Approved. Goes out at")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()

    page.get_by_role("link", name="Stop the run…").click()
    page.get_by_role("button", name="Stop the run").click()
    expect(page.get_by_text("Stopped. It went out at once.")).to_be_visible()
    assert Decision.objects.standing().get().action == "stop"


def test_who_comes_second_sees_who_and_when_and_keeps_the_note(
    desk: Desks, tenant: Tenant, reviewer: User, person: User
) -> None:
    checkpoint = open_checkpoint(tenant)
    page = desk(reviewer, PHONE).open(path_of(checkpoint))
    page.get_by_role("link", name="Force an answer…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Reason and note").click()
    dialog.get_by_label("Note for colleagues").fill("The vendor said 129 on the phone.")

    # The page tells what happened while it was open; what is being written stays.
    moved = claim(checkpoint, actor=person, now=datetime.now(UTC))
    page.evaluate("htmx.trigger('#standing', 'resume')")
    expect(page.locator("#standing")).to_contain_text("mara claimed it")
    stop = Choice(DecisionAction.STOP, reason="enough")
    decide(moved, stop, actor=person, now=datetime.now(UTC), version=moved.version)
    dialog.get_by_role("button", name="Force an answer").click()
    told = page.get_by_role("alert").filter(has_text="mara")
    expect(told).to_contain_text("mara decided it (stop), just now")
    expect(page.get_by_label("Note")).to_have_value("The vendor said 129 on the phone.")
    page.get_by_role("button", name="Save the note").click()
    expect(page.get_by_text("Noted.")).to_be_visible()
    assert CheckpointNote.objects.get().text == "The vendor said 129 on the phone."
    assert Decision.objects.get().by == person


def test_times_say_how_long_ago_and_when_in_the_clock_that_was_chosen(
    desk: Desks, tenant: Tenant, reviewer: User
) -> None:
    checkpoint = open_checkpoint(tenant)
    page = desk(reviewer, timezone_id="Asia/Kathmandu").open(path_of(checkpoint))
    opened = page.locator("dt", has_text="Opened").locator("xpath=following-sibling::dd//time")
    moment = checkpoint.opened_at.isoformat(timespec="milliseconds")
    expect(opened).to_have_attribute("datetime", moment)
    expect(opened).to_contain_text(f"{checkpoint.opened_at:%H:%M:%S} UTC")
    expect(opened).to_contain_text("41\u00a0min ago")
    page.get_by_role("button", name="Local").click()
    there = checkpoint.opened_at + timedelta(hours=5, minutes=45)
    expect(opened).to_contain_text(f"{there:%H:%M:%S} +0545")
    page.reload()
    expect(opened).to_contain_text("+0545")


@pytest.mark.parametrize("shown", ["open", "asking", "form", "decided"])
def test_page_is_accessible_in_both_themes(desk: Desks, tenant: Tenant, person: User, shown: str) -> None:
    asks = {"reason": "approval_required", "refused": PAYMENT, "pending": [uncertain()]}
    checkpoint = open_checkpoint(tenant, **(asks if shown in ("asking", "form") else {}))
    path = path_of(checkpoint)
    if shown == "form":
        path = f"/review/{checkpoint.checkpoint_id}/decide/?action=resume"
    if shown == "decided":
        stop = Choice(DecisionAction.STOP, reason="enough")
        decide(checkpoint, stop, actor=person, now=datetime.now(UTC), version=1)
    assert faults_by_look(desk, person, path) == {}


def uncertain() -> PendingCall:
    return PendingCall(
        tool="send_money", args="{}", args_hash="ee" * 8, side_effect="side_effect", uncertain=True
    )
