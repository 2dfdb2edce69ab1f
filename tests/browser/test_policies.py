"""Policies in a real browser: edited by keyboard alone, and accessible in both themes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.models import PolicyVersion
from policies.publish.policies import Place, save_policy
from tests.browser.conftest import LOOKS, Desks, Look
from tests.browser.seeds import HOSTILE
from tests.browser.test_every_page import complaints, faults
from tests.factories import make_member

EDIT = "/policies/edit/?tenant=acme&job=research"


@pytest.fixture
def admin(tenant: Tenant) -> User:
    """The admin of an organisation with policies on both levels."""
    admin, now = make_member(tenant.organisation, Role.ADMIN, username="jo"), datetime.now(UTC)
    tools = {"send": {"approval": True}, HOSTILE: {"forbidden": True}}
    own = Place(tenant.organisation, tenant, "research")
    save_policy(
        Place(tenant.organisation, None, ""), {"limits": {"max_steps": 30}}, seen=0, actor=admin, now=now
    )
    save_policy(own, {"mode": "shadow", "tools": tools}, seen=0, actor=admin, now=now, note=HOSTILE)
    save_policy(own, {"mode": "enforce", "tools": tools}, seen=1, actor=admin, now=now)
    return admin


def test_policy_is_edited_reviewed_saved_and_reverted_by_keyboard(desk: Desks, admin: User) -> None:
    page = desk(admin).open("/policies/")
    reach(page, page.locator("a.btn[href$='job=research']").last)
    page.keyboard.press("Enter")
    page.wait_for_url("**/policies/edit/**")

    reach(page, page.get_by_label("Steps tool calls"))
    page.keyboard.type("900")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This must lie between 0 and 500.")).to_be_visible()

    reach(page, page.get_by_label("Steps tool calls"))
    page.keyboard.press("Control+a")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 change")).to_be_visible()
    expect(page.locator("#policy-replay")).to_be_visible()

    reach(page, page.get_by_role("button", name="Save as v3"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Version 3 is saved")).to_be_visible()
    expect(page.get_by_text("Published for 1 tenant")).to_be_visible()

    reach(page, page.get_by_role("button", name="Revert to v2"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Version 4 is saved")).to_be_visible()
    documents = dict(
        PolicyVersion.objects.filter(policy__job_type="research").values_list("number", "document")
    )
    assert documents[3]["limits"] == {"max_steps": 12}
    assert documents[4] == documents[2]


def reach(page: Page, goal: Locator, most: int = 60) -> None:
    """Press Tab until the focus is on ``goal``, and see that nothing sticky covers it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if goal.evaluate("element => element === document.activeElement"):
            break
    else:
        raise AssertionError(f"{goal} is not reached in {most} tabs")
    covered = goal.evaluate(
        """element => {
            const box = element.getBoundingClientRect();
            const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            return !element.contains(top) && !top?.contains(element);
        }"""
    )
    assert not covered, f"{goal} is covered"


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[3]], ids=str)
def test_pages_of_policies_are_accessible(desk: Desks, admin: User, look: Look) -> None:
    at = desk(admin, look)
    wrong: dict[str, list[str]] = {}

    def look_at(name: str) -> None:
        at.page.wait_for_load_state("networkidle")
        wide = at.sideways_scroll()
        wrong[name] = [*faults(at), *complaints(at), *([f"{wide} pixels too wide"] if wide else [])]

    for name, path in {
        "list": "/policies/",
        "none": "/policies/?job=nothing",
        "versions": "/policies/versions/?tenant=acme&job=research&from_version=0&to_version=2",
        "rollback": "/policies/rollback/?tenant=acme&job=research&to=1",
        "edit": EDIT,
    }.items():
        at.open(path)
        look_at(name)
    for summary in at.page.locator("#policy details > summary").all():
        summary.click()
    at.page.get_by_label("Steps tool calls").fill("900")
    at.page.get_by_role("button", name="Review the changes").click()
    look_at("wrong")
    at.page.get_by_label("Steps tool calls").fill("9")
    at.page.get_by_role("button", name="Review the changes").click()
    look_at("review")
    at.page.get_by_role("button", name="Save as").click()
    look_at("saved")

    assert {name: found for name, found in wrong.items() if found} == {}


def test_second_editor_keeps_what_they_wrote(desk: Desks, admin: User) -> None:
    first, second = desk(admin).open(EDIT), desk(admin, Look("dark", 360)).open(EDIT)
    for page, steps in ((first, "20"), (second, "10")):
        page.get_by_label("Steps tool calls").fill(steps)
        page.get_by_role("button", name="Review the changes").click()
    for page in (first, second):
        page.get_by_role("button", name="Save as v3").click()

    expect(second.get_by_role("heading", name="Somebody else saved this policy")).to_be_visible()
    expect(second.get_by_label("Steps tool calls")).to_have_value("10")
    second.get_by_role("button", name="Review the changes").click()
    second.get_by_role("button", name="Save as v4").click()
    expect(second.get_by_role("heading", name="Version 4 is saved")).to_be_visible()
