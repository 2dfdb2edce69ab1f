from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from tests.factories import make_member, make_operator, make_user
from tests.policies.conftest import House

from .conftest import EDIT, LIST, save, text_of


def listed(browser: Client, **params: Any) -> list[tuple[str, str, str]]:
    rows = browser.get(LIST, params).context["rows"]
    return [
        (row.policy.job_type, row.policy.tenant.slug if row.policy.tenant else "", row.mode) for row in rows
    ]


@pytest.fixture
def filled(house: House) -> House:
    save(house, house.place("", wide=True), {"mode": "shadow", "limits": {"max_steps": 30}})
    save(house, house.place(), {"mode": "enforce", "limits": {"max_turns": 9}})
    save(house, house.place("support"), {"limits": {"max_steps": 5}})
    return house


def test_policies_of_both_levels_are_listed_with_the_mode_that_holds(browser: Client, filled: House) -> None:
    assert listed(browser) == [
        ("", "", "shadow"),
        ("research", "research", "enforce"),
        ("support", "research", "shadow"),
    ]


def test_caps_are_those_that_hold_and_name_where_they_come_from(browser: Client, filled: House) -> None:
    row = browser.get(LIST, {"job": "research"}).context["rows"][0]
    caps = {label: (value.text, value.source) for label, value in row.caps}
    assert caps["Steps"] == ("30", "the organisation’s defaults")
    assert caps["Turns"] == ("9", "")
    assert caps["Cost"] == ("$10", "the guard itself")


@pytest.mark.parametrize(
    ("params", "jobs"),
    [
        ({"tenant": "support"}, [""]),
        ({"level": "tenant"}, ["research", "support"]),
        ({"mode": "shadow"}, [""]),
        ({"job": "SUPP"}, ["support"]),
        ({"tenant": "research", "level": "tenant", "mode": "enforce"}, ["research"]),
    ],
)
def test_filters_are_in_the_address(
    browser: Client, filled: House, params: dict[str, str], jobs: list[str]
) -> None:
    assert [job for job, _, _ in listed(browser, **params)] == jobs


@pytest.mark.parametrize(
    "params",
    [{"tenant": "elsewhere"}, {"mode": "loud"}, {"job": "a\0b"}, {"page": "9" * 400}, {"level": "x"}],
)
def test_filter_that_cannot_be_read_says_so(browser: Client, filled: House, params: dict[str, str]) -> None:
    assert "These filters cannot be read" in text_of(browser.get(LIST, params))


def test_empty_lists_say_which_emptiness_it_is(browser: Client, house: House) -> None:
    assert "No policy yet" in text_of(browser.get(LIST))
    save(house, house.place(), {"mode": "off"})
    assert "No policy matches these filters" in text_of(browser.get(LIST, {"job": "nothing"}))


def test_person_without_a_tenant_is_told_so(client: Client, house: House) -> None:
    client.force_login(make_user())
    assert "You are not a member of any tenant" in text_of(client.get(LIST))


def test_policies_of_others_are_not_listed(client: Client, filled: House) -> None:
    client.force_login(make_member(filled.foreign, Role.ADMIN))
    assert listed(client) == []


def test_member_of_a_tenant_sees_its_organisation_s_policies_and_edits_its_own(
    client: Client, filled: House
) -> None:
    client.force_login(make_member(filled.tenant, Role.ADMIN))
    rows = client.get(LIST).context["rows"]
    assert [row.may_edit for row in rows] == [False, True, True]


def test_viewer_and_operator_are_offered_no_edit(client: Client, filled: House) -> None:
    for user in (make_member(filled.tenant, Role.VIEWER), make_operator()):
        client.force_login(user)
        assert EDIT not in text_of(client.get(LIST))


def test_number_of_queries_does_not_grow_with_the_list(
    browser: Client, filled: House, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        save(filled, filled.place(f"job-{number}"), {"limits": {"max_steps": number}})
    browser.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_max_num_queries(16):
        assert len(listed(browser)) == 15


def test_place_chosen_from_the_list_opens_its_editor(browser: Client, house: House) -> None:
    for place in ("tenant:research", "organisation:acme"):
        assert browser.get(EDIT, {"place": place, "job": "new"}).status_code == 200
