from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps

from guardops.guard.events import Mode
from guardops.tenants.actors import SYSTEM
from policies.errors import InvalidPolicy, PolicyChanged
from policies.models import JobPolicy, PolicyVersion
from policies.publish.policies import Place, Saved, roll_back, save_policy
from tests.policies.conftest import NOW, House, bundle_of, revisions_of


def save(house: House, place: Place, document: dict[str, Any], seen: int = 0, **options: Any) -> Saved | None:
    return save_policy(place, document, seen=seen, actor=house.admin, now=NOW, **options)


def steps(house: House, job_type: str = "research", tenant: Any = None) -> int:
    return bundle_of(tenant or house.tenant).rules(job_type, NOW).policy.limits.max_steps


def test_saved_policy_is_what_guards_are_told(house: House) -> None:
    save(house, house.place(), {"mode": "shadow", "limits": {"max_steps": 12}, "allow_list": True})
    rules = bundle_of(house.tenant).rules("research", NOW)
    assert (rules.version, rules.policy.mode, rules.policy.limits.max_steps) == (1, Mode.SHADOW, 12)
    assert rules.policy.allow_list
    assert rules.policy.limits.max_turns == 40


def test_tenant_overrides_its_organisation_field_by_field(house: House) -> None:
    save(house, house.place("", wide=True), {"limits": {"max_steps": 30, "max_turns": 20}, "mode": "shadow"})
    save(house, house.place(""), {"limits": {"max_turns": 25}})
    save(house, house.place(wide=True), {"limits": {"max_steps": 10}, "tools": {"fetch": {"external": True}}})
    save(house, house.place(), {"tools": {"fetch": {"max_repeats": 1}}})
    rules = bundle_of(house.tenant).rules("research", NOW)
    assert (rules.policy.limits.max_steps, rules.policy.limits.max_turns) == (10, 25)
    assert (rules.policy.tool("fetch").external, rules.policy.tool("fetch").max_repeats) == (True, 1)
    assert rules.policy.mode is Mode.SHADOW
    assert steps(house, "support") == 30


def test_edit_of_an_organisation_reaches_each_of_its_tenants_and_no_other(house: House) -> None:
    saved = save(house, house.place(wide=True), {"limits": {"max_steps": 9}})
    assert saved is not None
    assert (saved.change.done, saved.change.total, saved.change.published) == (2, 2, 2)
    assert steps(house) == steps(house, tenant=house.sibling) == 9
    assert revisions_of(house.foreign) == []


def test_save_that_changes_nothing_makes_no_version_and_no_revision(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    assert save(house, house.place(), {"limits": {"max_steps": 12}}, seen=1) is None
    assert revisions_of(house.tenant) == [1]


def test_empty_first_document_makes_no_version(house: House) -> None:
    assert save(house, house.place(), {}) is None
    assert not JobPolicy.objects.exists()


def test_version_without_effect_makes_no_revision(house: House) -> None:
    save(house, house.place("", wide=True), {"limits": {"max_steps": 30}})
    save(house, house.place(""), {"limits": {"max_steps": 30}})
    assert revisions_of(house.tenant) == [1]


def test_second_editor_is_told_of_the_first(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    with pytest.raises(PolicyChanged) as caught:
        save(house, house.place(), {"limits": {"max_steps": 14}})
    assert caught.value.current.document == {"limits": {"max_steps": 12}}
    assert steps(house) == 12


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"limits": {"max_steps": None}}, "max_steps"),
        ({"limits": {"max_steps": 501}}, "max_steps"),
        ({"limits": {"max_turns": -1}}, "max_turns"),
        ({"limits": {"max_cost": "NaN"}}, "max_cost"),
        ({"limits": {"nonsense": 1}}, "nonsense"),
        ({"nonsense": 1}, "nonsense"),
        ({"limits": 7}, "limits"),
        ({"mode": "loud"}, "mode"),
        ({"on_stale": "hope"}, "on_stale"),
        ({"tools": {"send": {"class": "magic"}}}, "tools.send.class"),
        ({"review": {"sla_s": 0}}, "review.sla_s"),
        ({"review": {"on_timeout": "resume"}}, "review.on_timeout"),
        ({"review": {"resume_max": {"steps": 501}}}, "review.resume_max.steps"),
    ],
)
def test_document_that_no_guard_may_run_is_refused_with_its_field(
    house: House, document: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        save(house, house.place(), document)
    assert caught.value.field == field
    assert revisions_of(house.tenant) == []


def test_document_that_contradicts_what_is_above_it_is_refused(house: House) -> None:
    save(house, house.place("", wide=True), {"limits": {"cycle_reps": 6}})
    with pytest.raises(InvalidPolicy):
        save(house, house.place(), {"limits": {"window": 11}})


def test_wide_edit_that_contradicts_one_tenant_reaches_the_others(house: House) -> None:
    save(house, house.place(), {"limits": {"window": 11}})
    saved = save(house, house.place("", wide=True), {"limits": {"cycle_reps": 6, "max_steps": 9}})
    assert saved is not None
    assert (saved.change.done, saved.change.published) == (2, 1)
    assert saved.change.failure.startswith("research: window")
    assert (steps(house), steps(house, tenant=house.sibling)) == (40, 9)


def test_roll_back_publishes_the_old_document_as_a_new_version(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    save(house, house.place(), {"limits": {"max_steps": 50}}, seen=1)
    saved = roll_back(house.place(), 1, seen=2, actor=house.admin, now=NOW)
    assert saved is not None
    assert (saved.version.number, saved.version.restored_from) == (3, 1)
    assert steps(house) == 12
    assert revisions_of(house.tenant) == [1, 2, 3]


def test_version_with_an_end_gives_way_to_the_one_before_it(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    save(house, house.place(), {"limits": {"max_steps": 80}}, seen=1, until=NOW + timedelta(hours=1))
    bundle = bundle_of(house.tenant)
    later = NOW + timedelta(hours=1)
    assert bundle.rules("research", NOW).policy.limits.max_steps == 80
    assert bundle.rules("research", later).policy.limits.max_steps == 12


def test_each_edit_is_in_the_audit_trail_with_its_actor(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    events = apps.get_model("policies", "JobPolicyEvent").objects.all()
    assert [event.pgh_context["actor"]["name"] for event in events] == ["mara"]


def test_version_is_never_changed(house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    version = PolicyVersion.objects.get()
    with pytest.raises(Exception, match="written by policies"):
        PolicyVersion.objects.filter(pk=version.pk).update(document={})


def test_system_publishes_without_an_author(house: House) -> None:
    saved = save_policy(house.place(), {"mode": "off"}, seen=0, actor=SYSTEM, now=NOW)
    assert saved is not None
    assert saved.version.author is None
