from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from guardops.tenants.choices import Role
from policies.models import JobPolicy, PolicyVersion
from tests.factories import make_member, make_operator
from tests.policies.conftest import House, bundle_of

from .conftest import EDIT, save, sent, text_of

HOSTILE = '<img src=x onerror=alert(1)>\u202e"'


def newest(house: House) -> PolicyVersion:
    return PolicyVersion.objects.filter(policy__tenant=house.tenant, policy__job_type="research").latest(
        "number"
    )


def errors_of(browser: Client, **fields: Any) -> dict[str, list[str]]:
    response = browser.post(EDIT, sent("save", **fields))
    assert response.status_code == 200
    assert not JobPolicy.objects.exists()
    form = response.context["form"]
    of_tools = {f"tools.{name}": list(found) for tool in form.tools for name, found in tool.errors.items()}
    return {name: list(found) for name, found in form.errors.items()} | of_tools


def test_editor_shows_what_is_inherited_and_from_where(browser: Client, house: House) -> None:
    save(house, house.place("", wide=True), {"limits": {"max_steps": 30}, "mode": "shadow"})
    save(house, house.place(wide=True), {"limits": {"max_turns": 20}})
    text = text_of(browser.get(EDIT, {"tenant": "research", "job": "research"}))
    assert '30 <span class="muted">from the organisation’s defaults' in text
    assert '20 <span class="muted">from the organisation’s policy of this job type' in text
    assert '900 <span class="muted">from the guard itself' in text
    assert "Inherit: Shadow" in text
    assert "0 to 500" in text


def test_saved_draft_is_what_guards_are_told(browser: Client, house: House) -> None:
    response = browser.post(
        EDIT,
        sent(
            mode="shadow",
            max_steps="28",
            max_seconds="0.5",
            max_cost="3.00",
            partial_ok="no",
            sla_s="600",
            resume_cost="2.50",
            on_stale="refuse",
            ladder_repetition="escalate",
            note="Halts after the release",
            tools=2,
            **{
                "tools-0-name": "send.mail",
                "tools-0-side_effect": "side_effect",
                "tools-0-approval": "yes",
                "tools-0-volatile": "trace_id, nonce",
                "tools-0-max_repeats": "1",
                "tools-0-poll_interval": "2.5",
                "tools-0-poll_attempts": "9",
                "tools-0-poll_terminal": "done",
                "tools-0-error_map": "E42 = rate_limit",
                "tools-0-empty": '{"hits": 0}\nno hits',
            },
        ),
    )
    assert response.status_code == 302
    version = newest(house)
    assert version.document == {
        "mode": "shadow",
        "partial_ok": False,
        "on_stale": "refuse",
        "limits": {"max_steps": 28, "max_seconds": 0.5, "max_cost": "3.00"},
        "ladder": {"repetition": "escalate"},
        "review": {"sla_s": 600, "resume_max": {"cost": "2.50"}},
        "tools": {
            "send.mail": {
                "class": "side_effect",
                "approval": True,
                "volatile": ["nonce", "trace_id"],
                "max_repeats": 1,
                "poll": {"interval": 2.5, "max_attempts": 9, "terminal": ["done"]},
                "errors": {"E42": "rate_limit"},
                "empty": [{"hits": 0}, "no hits"],
            }
        },
    }
    assert (version.author, version.note) == (house.admin, "Halts after the release")
    rules = bundle_of(house.tenant).rules("research", datetime.now(UTC))
    assert (rules.policy.limits.max_steps, rules.policy.tool("send.mail").approval) == (28, True)
    [event] = apps.get_model("policies", "JobPolicyEvent").objects.all()
    assert event.pgh_context["actor"]["name"] == "mara"


def test_editor_sends_back_what_it_was_shown(browser: Client, house: House) -> None:
    """Opened and reviewed without a change, a policy of every kind of field has nothing to save."""
    tool = {"key": ["q"], "errors": {"E1": "auth"}, "empty": ["[]", 0, "x y"], "null_is_omitted": False}
    document = {
        "mode": "off",
        "allow_list": True,
        "limits": {"max_cost": "3.00", "backoff": 0.5, "max_steps": 7},
        "ladder": {"step_budget": "halt"},
        "review": {"on_timeout": "force_answer", "resume_max": {"steps": 5, "cost": "1"}},
        "tools": {"fetch": tool | {"poll": {"interval": 1, "max_attempts": 2}}, "b": {}},
    }
    save(house, house.place(), document)
    form = browser.get(EDIT, {"tenant": "research", "job": "research"}).context["form"]
    shown = {field.html_name: field.value() for part in (form, *form.tools) for field in part}
    shown |= {field.html_name: field.value() for field in form.tools.management_form}
    back = {name: value for name, value in shown.items() if value not in (None, False)}
    response = browser.post(EDIT, sent("review") | back)
    assert response.context["changes"] == []
    assert "There is nothing to save" in text_of(response)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"max_steps": "501"}, "max_steps"),
        ({"max_steps": "-1"}, "max_steps"),
        ({"max_steps": "unlimited"}, "max_steps"),
        ({"max_steps": "1.5"}, "max_steps"),
        ({"max_steps": "1e3"}, "max_steps"),
        ({"max_steps": "9" * 5000}, "max_steps"),
        ({"max_cost": "NaN"}, "max_cost"),
        ({"max_cost": "10001"}, "max_cost"),
        ({"max_seconds": "999999"}, "max_seconds"),
        ({"window": "5"}, "window"),
        ({"mode": "loud"}, "mode"),
        ({"sla_s": "0"}, "sla_s"),
        ({"resume_steps": "501"}, "resume_steps"),
        ({"ladder_budget": "nudge"}, "ladder_budget"),
        ({"note": "x" * 2001}, "note"),
        ({"note": "a\0b"}, "note"),
        ({"until": "soon"}, "until"),
        ({"until": "2020-01-01T00:00"}, "until"),
        ({"until": "9999-12-31T23:59"}, "until"),
        ({"seen": "-1"}, "seen"),
        ({"tools": 1, "tools-0-max_repeats": "1"}, "tools.name"),
        ({"tools": 1, "tools-0-name": "x" * 129}, "tools.name"),
        ({"tools": 1, "tools-0-name": "a.b", "tools-0-max_repeats": "101"}, "tools.max_repeats"),
        ({"tools": 1, "tools-0-name": "a", "tools-0-poll_attempts": "3"}, "tools.poll_interval"),
        (
            {"tools": 1, "tools-0-name": "a", "tools-0-poll_attempts": "3", "tools-0-poll_interval": "-3"},
            "tools.poll_interval",
        ),
        ({"tools": 1, "tools-0-name": "a", "tools-0-error_map": "E = magic"}, "tools.error_map"),
        ({"tools": 1, "tools-0-name": "a", "tools-0-empty": '"\\u0000"'}, "tools.empty"),
        ({"tools": 1, "tools-0-name": "a", "tools-0-empty": "1" * 30}, "tools.empty"),
        ({"tools": 2, "tools-0-name": "a", "tools-1-name": "a"}, "tools.name"),
    ],
)
def test_field_that_is_wrong_says_so_and_saves_nothing(
    browser: Client, house: House, fields: dict[str, Any], wrong: str
) -> None:
    assert set(errors_of(browser, **fields)) == {wrong}


def test_all_that_is_wrong_is_said_at_once(browser: Client, house: House) -> None:
    found = errors_of(browser, max_steps="900", max_turns="none", sla_s="0")
    assert set(found) == {"max_steps", "max_turns", "sla_s"}
    assert found["max_steps"] == ["This must lie between 0 and 500."]


def test_limit_that_contradicts_an_inherited_one_is_refused_at_its_field(
    browser: Client, house: House
) -> None:
    save(house, house.place("", wide=True), {"limits": {"cycle_reps": 6}})
    response = browser.post(EDIT, sent(window="11"))
    assert set(response.context["form"].errors) == {"window"}


def test_list_of_tools_that_was_cut_off_saves_nothing(browser: Client, house: House) -> None:
    response = browser.post(EDIT, {"tenant": "research", "job": "research", "seen": 0, "step": "save"})
    assert "was cut off" in text_of(response)
    assert not JobPolicy.objects.exists()


def test_more_rows_for_tools_are_given_without_losing_anything(browser: Client, house: House) -> None:
    response = browser.post(EDIT, sent("more", tools=1, max_steps="12", **{"tools-0-name": "fetch"}))
    form = response.context["form"]
    assert (len(form.tools.forms), form["max_steps"].value()) == (3, "12")
    assert form.tools.forms[0]["name"].value() == "fetch"


def test_tool_is_removed_by_its_box_or_by_its_name(browser: Client, house: House) -> None:
    save(house, house.place(), {"tools": {"a": {"forbidden": True}, "b": {}, "c": {}}})
    rows = {"tools-0-name": "a", "tools-0-DELETE": "on", "tools-1-name": "", "tools-2-name": "c"}
    browser.post(EDIT, sent(seen=1, tools=3, **rows))
    assert newest(house).document == {"tools": {"c": {}}}


def test_tool_that_somebody_else_named_meanwhile_is_not_lost(browser: Client, house: House) -> None:
    save(house, house.place(), {"tools": {"c": {}}})
    browser.post(EDIT, sent(seen=1, tools=1, max_steps="9", **{"tools-0-name": "c"}))
    assert newest(house).document == {"limits": {"max_steps": 9}, "tools": {"c": {}}}


def test_policy_of_the_most_tools_is_saved(browser: Client, house: House) -> None:
    form = browser.get(EDIT, {"tenant": "research"}).context["form"]
    names = [field.name for field in form.tools.forms[0]]
    rows = {f"tools-{row}-{name}": "" for row in range(150) for name in names}
    rows |= {f"tools-{row}-name": f"tool-{row}" for row in range(150)}
    assert browser.post(EDIT, sent(tools=150, **rows)).status_code == 302
    assert len(newest(house).document["tools"]) == 150


def test_preset_fills_in_the_draft_and_saves_nothing(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 33, "max_seconds": 60}})
    response = browser.get(EDIT, {"tenant": "research", "job": "research", "preset": "write"})
    form = response.context["form"]
    assert [form[name].value() for name in ("max_turns", "max_repeats", "max_seconds")] == [12, 1, 60]
    assert "Nothing is saved yet" in text_of(response)
    assert newest(house).number == 1


def test_link_proposes_limits_and_a_mode(browser: Client, house: House) -> None:
    asked = {"max_seconds": "1200", "max_steps": "nonsense", "mode": "shadow"}
    form = browser.get(EDIT, {"tenant": "research", "job": "research", **asked}).context["form"]
    assert (form["max_seconds"].value(), form["max_steps"].value(), form["mode"].value()) == (
        1200,
        None,
        "shadow",
    )


def test_review_shows_what_changes_and_whom_it_reaches(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10}})
    fields = {"organisation": "acme", "tenant": "", "job": "", "max_steps": "20", "hops": "9"}
    response = browser.post(EDIT, sent("review", **fields))
    text = text_of(response)
    assert [(change.label, change.tightens) for change in response.context["changes"]] == [
        ("Steps", True),
        ("Hand-overs", False),
    ]
    assert response.context["reach"].total == 2
    [kept] = response.context["reach"].keeps
    assert (kept.policy.tenant, kept.labels) == (house.tenant, ["Steps"])
    assert "Tighter: running runs too" in text
    assert not JobPolicy.objects.filter(tenant=None).exists()


def test_going_back_from_the_review_keeps_what_was_written(browser: Client, house: House) -> None:
    kept = dict(browser.post(EDIT, sent("review", max_steps="20", note="why")).context["kept"])
    form = browser.post(EDIT, kept | {"step": "edit"}).context["form"]
    assert (form["max_steps"].value(), form["note"].value()) == ("20", "why")


def test_saved_version_is_shown_with_its_way_and_its_way_back(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10}})
    response = browser.post(EDIT, sent(seen=1, max_steps="20"), follow=True)
    text = text_of(response)
    assert "Version 2 is saved" in text
    assert "Revert to v1" in text
    assert f"/changes/{response.context['change']}/" in text


def test_draft_that_says_what_is_in_force_makes_no_version(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10}})
    response = browser.post(EDIT, sent(seen=1, max_steps="10"), follow=True)
    assert "no version was made" in text_of(response)
    assert newest(house).number == 1


@pytest.mark.parametrize("step", ["review", "save"])
def test_second_editor_sees_what_stands_and_keeps_what_they_wrote(
    browser: Client, house: House, step: str
) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10, "max_turns": 5}})
    save(house, house.place(), {"limits": {"max_steps": 12, "max_turns": 5}}, 1, note="Mine")
    response = browser.post(EDIT, sent(step, seen=1, max_steps="10", max_turns="8"))
    assert response.status_code == 409
    clashes = {
        clash.label: (clash.seen.text, clash.stands.text, clash.yours.text, clash.is_theirs)
        for clash in response.context["clashes"]
    }
    assert clashes == {"Steps": ("10", "12", "10", True), "Turns": ("5", "5", "8", False)}
    assert response.context["form"]["max_turns"].value() == "8"
    assert newest(house).number == 2


def test_second_editor_can_save_on_top(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 10}})
    save(house, house.place(), {"limits": {"max_steps": 12}}, 1)
    response = browser.post(EDIT, sent(seen=1, max_steps="8"))
    assert 'name="seen" value="2"' in text_of(response)
    browser.post(EDIT, sent(seen=2, max_steps="8"))
    assert (newest(house).number, newest(house).document) == (3, {"limits": {"max_steps": 8}})


def test_second_editor_who_wrote_the_same_has_nothing_to_save(browser: Client, house: House) -> None:
    save(house, house.place(), {"limits": {"max_steps": 12}})
    response = browser.post(EDIT, sent(seen=0, max_steps="12"), follow=True)
    assert "somebody else has just published the same" in text_of(response)


def test_version_with_an_end_gives_its_editor_the_end(browser: Client, house: House) -> None:
    until = (datetime.now(UTC) + timedelta(days=2)).replace(second=0, microsecond=0)
    browser.post(EDIT, sent(max_steps="80", until=f"{until:%Y-%m-%dT%H:%M}"))
    assert newest(house).until == until
    text = text_of(browser.get(EDIT, {"tenant": "research", "job": "research"}))
    assert f'value="{until:%Y-%m-%dT%H:%M}"' in text


def test_policy_that_would_not_fit_a_bundle_is_refused(browser: Client, house: House) -> None:
    names = {
        f"tools-{row}-{field}": ", ".join(f"{row}{field}{i:030}" for i in range(100))
        for row in range(75)
        for field in ("key", "takes", "strip", "sets")
    }
    names |= {f"tools-{row}-name": f"tool-{row}" for row in range(75)}
    response = browser.post(EDIT, sent(tools=75, **names))
    assert "Guards take at most 1 MiB" in text_of(response)
    assert not JobPolicy.objects.exists()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"tenant": "nowhere"},
        {"tenant": "elsewhere"},
        {"organisation": "acme", "tenant": "elsewhere"},
        {"tenant": "re\0search"},
        {"organisation": "ac\0me"},
        {"tenant": "research", "job": "a\0b"},
        {"tenant": "research", "job": "x" * 129},
        {"place": "tenant:elsewhere"},
        {"place": "nonsense"},
    ],
)
def test_place_that_is_not_there_for_somebody_is_not_found(
    browser: Client, house: House, params: dict[str, str]
) -> None:
    assert browser.get(EDIT, params).status_code == 404
    assert browser.post(EDIT, sent() | {"tenant": "", "job": ""} | params).status_code == 404


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_role_too_low_is_refused_on_both_levels(client: Client, house: House, role: Role) -> None:
    client.force_login(make_member(house.organisation, role))
    for place in ({"tenant": "research"}, {"tenant": "", "organisation": "acme"}):
        assert client.get(EDIT, place).status_code == 403
        assert client.post(EDIT, sent(max_steps="1") | place).status_code == 403
    assert not JobPolicy.objects.exists()


def test_admin_of_a_tenant_edits_it_and_not_its_organisation(client: Client, house: House) -> None:
    client.force_login(make_member(house.tenant, Role.ADMIN))
    assert client.post(EDIT, sent(max_steps="1")).status_code == 302
    assert client.post(EDIT, sent(max_steps="1", organisation="acme", tenant="")).status_code == 403
    assert client.post(EDIT, sent(max_steps="1", tenant="support")).status_code == 404


def test_operator_who_is_no_member_reads_alone(client: Client, house: House) -> None:
    client.force_login(make_operator())
    assert client.post(EDIT, sent(max_steps="1")).status_code == 403


def test_hostile_job_type_note_and_tool_are_shown_as_text(browser: Client, house: House) -> None:
    job = HOSTILE.replace("\u202e", "⟦U+202E⟧")
    fields = {"job": job, "note": HOSTILE, "max_steps": "3", "tools": 1, "tools-0-name": HOSTILE}
    for step in ("review", "save"):
        text = text_of(browser.post(EDIT, sent(step, **fields), follow=True))
        assert "<img" not in text
        assert "\u202e" not in text
    assert JobPolicy.objects.get().job_type == HOSTILE
    assert set(PolicyVersion.objects.get().document["tools"]) == {HOSTILE}
