from __future__ import annotations

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from policies.models import PolicyVersion
from tests.factories import make_member, make_operator, make_user
from tests.policies.conftest import House, bundle_of

from .conftest import ROLLBACK, VERSIONS, save, text_of

HERE = {"tenant": "research", "job": "research"}


@pytest.fixture
def three(house: House) -> House:
    """A policy with three versions."""
    for seen, steps in enumerate((10, 20, 30)):
        save(house, house.place(), {"limits": {"max_steps": steps}}, seen, note=f"{steps} <b>steps</b>")
    return house


def numbers() -> list[int]:
    return list(PolicyVersion.objects.order_by("number").values_list("number", flat=True))


def test_versions_are_listed_with_note_author_and_what_holds(browser: Client, three: House) -> None:
    response = browser.get(VERSIONS, HERE)
    text = text_of(response)
    assert [version.number for version in response.context["page"]] == [3, 2, 1]
    assert "20 &lt;b&gt;steps&lt;/b&gt;" in text
    assert text.count("In force</span>") == 1
    assert "mara" in text


def test_any_two_versions_are_compared(browser: Client, three: House) -> None:
    response = browser.get(VERSIONS, HERE | {"from_version": 1, "to_version": 3})
    [change] = response.context["changes"]
    assert (change.label, change.before.text, change.after.text) == ("Steps", "10", "30")
    first = browser.get(VERSIONS, HERE | {"from_version": 0, "to_version": 1})
    assert first.context["changes"][0].before.source == "the guard itself"


@pytest.mark.parametrize("number", ["x", "-1", "9" * 400, "1\0"])
def test_number_that_is_none_is_said_to_be_none(browser: Client, three: House, number: str) -> None:
    text = text_of(browser.get(VERSIONS, HERE | {"from_version": number, "to_version": 1}))
    assert "These versions cannot be compared" in text


def test_version_that_is_not_there_is_not_found(browser: Client, three: House) -> None:
    assert browser.get(VERSIONS, HERE | {"from_version": 1, "to_version": 9}).status_code == 404
    assert browser.get(ROLLBACK, HERE | {"to": 9}).status_code == 404
    assert browser.post(ROLLBACK, HERE | {"to": "x", "seen": 3}).status_code == 404


def test_everybody_of_the_place_reads_and_nobody_else(client: Client, three: House) -> None:
    readers = [make_member(three.tenant, Role.VIEWER), make_operator()]
    strangers = [make_user(), make_member(three.sibling, Role.ADMIN), make_member(three.foreign, Role.ADMIN)]
    for person, status in [(one, 200) for one in readers] + [(one, 404) for one in strangers]:
        client.force_login(person)
        response = client.get(VERSIONS, HERE)
        assert response.status_code == status
        assert ROLLBACK not in text_of(response)


def test_roll_back_shows_what_it_changes_before_it_does(browser: Client, three: House) -> None:
    response = browser.get(ROLLBACK, HERE | {"to": 1})
    [change] = response.context["changes"]
    assert (change.before.text, change.after.text) == ("30", "10")
    assert numbers() == [1, 2, 3]


def test_roll_back_publishes_the_old_document_as_a_new_version(browser: Client, three: House) -> None:
    response = browser.post(ROLLBACK, HERE | {"to": 1, "seen": 3, "note": "too loose"}, follow=True)
    newest = PolicyVersion.objects.latest("number")
    assert (newest.number, newest.restored_from, newest.note) == (4, 1, "too loose")
    assert bundle_of(three.tenant).job_types["research"]["limits"] == {"max_steps": 10}
    assert "Version 4 is saved" in text_of(response)


def test_first_version_is_reverted_to_what_is_inherited(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10}})
    browser.post(ROLLBACK, HERE | {"to": 0, "seen": 1})
    assert PolicyVersion.objects.latest("number").document == {}


def test_roll_back_of_what_somebody_else_replaced_does_nothing(browser: Client, three: House) -> None:
    response = browser.post(ROLLBACK, HERE | {"to": 1, "seen": 2}, follow=True)
    assert "Somebody published another version" in text_of(response)
    assert numbers() == [1, 2, 3]


def test_roll_back_to_what_guards_would_not_take_any_more_is_refused(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"window": 11}})
    save(house, house.place(), {}, 1)
    save(house, house.place("", wide=True), {"limits": {"cycle_reps": 6}})
    response = browser.post(ROLLBACK, HERE | {"to": 1, "seen": 2})
    assert "Guards would not take this version any more" in text_of(response)


def test_roll_back_note_that_is_too_long_is_kept_and_said(browser: Client, three: House) -> None:
    response = browser.post(ROLLBACK, HERE | {"to": 1, "seen": 3, "note": "x" * 2001})
    assert "at most 2000 characters" in text_of(response)
    assert numbers() == [1, 2, 3]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_role_too_low_rolls_nothing_back(client: Client, three: House, role: Role) -> None:
    client.force_login(make_member(three.tenant, role))
    assert client.post(ROLLBACK, HERE | {"to": 1, "seen": 3}).status_code == 403
    assert client.get(ROLLBACK, HERE | {"to": 1}).status_code == 403
    assert numbers() == [1, 2, 3]


def test_stranger_rolls_nothing_back(client: Client, three: House) -> None:
    client.force_login(make_member(three.foreign, Role.ADMIN))
    assert client.post(ROLLBACK, HERE | {"to": 1, "seen": 3}).status_code == 404
    assert numbers() == [1, 2, 3]
