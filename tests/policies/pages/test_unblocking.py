"""Taking sources off the list, putting them back, reverting an edit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from guardops.tenants.choices import Role
from policies.models import BlockedSource, Change
from policies.publish.sources import Reach, Wanted, block_sources
from tests.factories import make_member
from tests.policies.conftest import House, bundle_of

from .conftest import text_of

MANY = reverse("policies:blocklist-remove-many")


def block(house: House, *names: str, reach: Reach | None = None) -> list[int]:
    outcomes, _ = block_sources(
        reach or Reach(house.organisation, house.tenant),
        [Wanted(name) for name in names],
        actor=house.admin,
        now=datetime.now(UTC),
    )
    return [outcome.source.pk for outcome in outcomes if outcome.source]


def post(client: Client, action: str, *arguments: Any) -> str:
    """Press the button of a row and return where it leads."""
    return str(client.post(reverse(f"policies:blocklist-{action}", args=arguments))["Location"])


def blocked(house: House) -> set[str]:
    return {source.name for source in bundle_of(house.tenant).blocked}


def newest_change() -> Change:
    return Change.objects.latest("created_at")


def test_remove_and_restore_take_one_click_each(browser: Client, house: House) -> None:
    [pk] = block(house, "a.example")
    assert post(browser, "remove", pk) == reverse("policies:change", args=[newest_change().pk])
    assert blocked(house) == set()
    assert post(browser, "restore", pk) == reverse("policies:change", args=[newest_change().pk])
    assert blocked(house) == {"a.example"}


def test_link_asks_before_it_removes_or_restores(browser: Client, house: House) -> None:
    [pk] = block(house, "a.example")
    for action in ("remove", "restore"):
        page = text_of(browser.get(reverse(f"policies:blocklist-{action}", args=[pk])))
        assert "a.example" in page
        assert 'method="post"' in page
    assert blocked(house) == {"a.example"}


def test_second_of_two_is_told_that_nothing_is_left_to_do(browser: Client, house: House) -> None:
    [pk] = block(house, "a.example")
    post(browser, "remove", pk)
    assert post(browser, "remove", pk) == reverse("policies:blocklist")
    assert "off the list already" in text_of(browser.get(reverse("policies:blocklist")))
    post(browser, "restore", pk)
    assert post(browser, "restore", pk) == reverse("policies:blocklist")
    assert "on the list already" in text_of(browser.get(reverse("policies:blocklist")))


def test_tenant_whose_list_is_full_is_told_that_nothing_changed(
    browser: Client, house: House, full: Callable[[], None]
) -> None:
    [off, pk] = block(house, "a.example", "b.example")
    post(browser, "remove", off)
    edit = newest_change()
    full()
    for action, named in (("remove", pk), ("restore", off), ("revert", edit.pk)):
        browser.post(reverse(f"policies:blocklist-{action}", args=[named]))
        assert "Nothing was" in text_of(browser.get(reverse("policies:blocklist")))
    assert "Nothing was removed for" in text_of(browser.post(MANY, {"source": [pk]}))
    assert [source.pk for source in BlockedSource.objects.filter(removed_at=None)] == [pk]


def test_chosen_entries_are_named_and_then_removed_with_a_result_each(browser: Client, house: House) -> None:
    mine = block(house, "a.example", "b.example")
    wide = block(house, "c.example", reach=Reach(house.organisation))
    foreign = block(house, "f.example", reach=Reach(house.foreign.organisation, house.foreign))
    everybody = block(house, "e.example", reach=Reach())
    post(browser, "remove", mine[1])
    chosen = {"source": [*mine, *wide, *foreign, *everybody, 10**17, "x", "9" * 50]}
    preview = text_of(browser.get(MANY, chosen))
    assert "these 2 sources" in preview
    assert "Left out, because they are off the list or not yours to remove" in preview
    page = text_of(browser.post(MANY, chosen))
    assert "2 sources removed" in page
    assert page.count("Off the list already") == page.count("Not yours to remove") == 1
    assert "2 others" in page
    assert "f.example" not in page
    assert blocked(house) == {"e.example"}


def test_more_than_a_hundred_at_once_are_refused(browser: Client, house: House) -> None:
    ids = block(house, *(f"m{number}.example" for number in range(101)))
    assert "More than 100 were chosen" in text_of(browser.post(MANY, {"source": ids}))
    assert len(blocked(house)) == 101


def test_edit_is_taken_back_as_a_whole(browser: Client, house: House) -> None:
    block(house, "old.example", "untouched.example")
    reach = Reach(house.organisation, house.tenant)
    wanted = [Wanted("old.example", reason="stricter"), Wanted("new.example")]
    block_sources(reach, wanted, actor=house.admin, now=datetime.now(UTC))
    change = newest_change()
    page = text_of(browser.get(reverse("policies:blocklist-revert", args=[change.pk])))
    assert "new.example" in page
    post(browser, "revert", change.pk)
    assert blocked(house) == {"old.example", "untouched.example"}
    assert BlockedSource.objects.get(name="old.example", removed_at=None).reason == ""
    post(browser, "revert", newest_change().pk)
    assert blocked(house) == {"old.example", "untouched.example", "new.example"}


def test_what_others_did_since_then_stays(browser: Client, house: House) -> None:
    [pk] = block(house, "a.example")
    change = newest_change()
    post(browser, "remove", pk)
    assert post(browser, "revert", change.pk) == reverse("policies:change", args=[change.pk])
    assert "Nothing is left of this edit" in text_of(
        browser.get(reverse("policies:change", args=[change.pk]))
    )


def test_change_of_another_kind_is_no_edit_of_the_blocklist(browser: Client, house: House) -> None:
    block(house, "a.example")
    Change.objects.update(kind="stop")
    response = browser.post(reverse("policies:blocklist-revert", args=[newest_change().pk]))
    assert response.status_code == 404


@pytest.mark.parametrize("action", ["remove", "restore"])
def test_role_too_low_is_refused_and_a_stranger_finds_nothing(
    client: Client, house: House, action: str
) -> None:
    [pk] = block(house, "a.example")
    address = reverse(f"policies:blocklist-{action}", args=[pk])
    client.force_login(make_member(house.tenant, Role.REVIEWER))
    assert client.post(address).status_code == client.get(address).status_code == 403
    client.force_login(make_member(house.foreign, Role.ADMIN))
    assert client.post(address).status_code == client.get(address).status_code == 404
    huge = reverse(f"policies:blocklist-{action}", args=[10**40])
    assert client.get(huge).status_code == 404


def test_tenants_admin_removes_no_block_of_the_organisation(client: Client, house: House) -> None:
    [pk] = block(house, "a.example", reach=Reach(house.organisation))
    client.force_login(make_member(house.tenant, Role.ADMIN))
    assert client.post(reverse("policies:blocklist-remove", args=[pk])).status_code == 403
    assert client.post(MANY, {"source": [pk]}).status_code == 403
    assert blocked(house) == {"a.example"}
