"""A key's life in the browser: made, shown once, revoked; with scripts and without."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Error, Page

from guardops.tenants.models import ApiKey, Tenant, User
from tests.browser.conftest import Desk, Desks, Look
from tests.browser.test_every_page import complaints, faults

PLAIN = re.compile(r"go_[0-9a-f]{12}_[0-9a-f]{64}")


def make_key(page: Page, name: str) -> str:
    """Fill in the form and return the key that the answer shows."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Acme").check()
    page.get_by_role("button", name="Create the key").click()
    page.get_by_role("heading", name="Key created").wait_for()
    found = PLAIN.search(page.locator("main").inner_text())
    assert found is not None
    return found[0]


def assert_fine(at: Desk) -> None:
    assert faults(at) == []
    assert at.sideways_scroll() == 0
    assert complaints(at) == []


def test_every_step_is_accessible(desk: Desks, tenant: Tenant, person: User, look: Look) -> None:
    at = desk(person, look)
    at.open("/settings/keys/new/")
    at.page.locator("main form").evaluate("form => form.noValidate = true")
    at.page.get_by_role("button", name="Create the key").click()
    at.page.get_by_role("alert").filter(has_text="Nothing was made").wait_for()
    assert_fine(at)
    make_key(at.page, "workers")
    assert_fine(at)
    at.page.get_by_role("link", name="I have copied it").click()
    at.page.get_by_role("link", name="Rotate workers").click()
    at.page.get_by_role("button", name="Make the second key").wait_for()
    assert_fine(at)
    at.page.get_by_role("button", name="Make the second key").click()
    at.page.get_by_role("link", name="I have copied it").click()
    at.page.get_by_role("cell", name="Being replaced").wait_for()
    assert_fine(at)
    at.page.get_by_role("link", name="Revoke workers").first.click()
    at.page.get_by_role("button", name="Revoke the key").wait_for()
    assert_fine(at)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_key_is_made_shown_once_and_revoked(
    desk: Desks, tenant: Tenant, person: User, scripts: bool
) -> None:
    at = desk(person, java_script_enabled=scripts)
    at.open("/settings/keys/")
    at.page.get_by_role("link", name="Create the first key").click()
    plain = make_key(at.page, "workers")
    at.page.get_by_role("link", name="I have copied it").click()
    at.page.get_by_role("heading", name="Keys of your tenants").wait_for()
    assert plain not in at.page.content()
    at.page.get_by_role("link", name="Revoke workers").click()
    at.page.get_by_role("button", name="Revoke the key").click()
    at.page.get_by_role("cell", name="Revoked").wait_for()
    assert ApiKey.objects.get(name="workers").revoked_at is not None


def test_going_back_does_not_show_the_key_again(desk: Desks, tenant: Tenant, person: User) -> None:
    at = desk(person)
    at.open("/settings/keys/new/")
    make_key(at.page, "workers")
    at.page.get_by_role("link", name="I have copied it").click()
    at.page.get_by_role("heading", name="Keys of your tenants").wait_for()
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        at.page.go_back()  # the browser has no copy of the page that showed it
    assert ApiKey.objects.count() == 1


def test_the_copy_button_copies_the_key(desk: Desks, tenant: Tenant, person: User) -> None:
    at = desk(person, permissions=["clipboard-read", "clipboard-write"])
    at.open("/settings/keys/new/")
    plain = make_key(at.page, "workers")
    at.page.get_by_role("button", name="Copy").click()
    at.page.get_by_role("button", name="Copied").wait_for()
    assert at.page.evaluate("navigator.clipboard.readText()") == plain
