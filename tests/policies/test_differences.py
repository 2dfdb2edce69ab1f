from __future__ import annotations

from typing import Any

import pytest

from policies.compose import Above
from policies.differences import Inheritance, Value, differences, own_values

NOTHING = Inheritance([])


def changed(before: dict[str, Any], after: dict[str, Any], above: Inheritance = NOTHING) -> dict[str, Any]:
    found = differences(before, after, above)
    return {change.label: (change.before.text, change.after.text) for change in found}


def test_limit_that_was_inherited_is_shown_with_the_value_that_held() -> None:
    assert changed({}, {"limits": {"max_steps": 28}}) == {"Steps": ("40", "28")}
    assert changed({"limits": {"max_steps": 28}}, {}) == {"Steps": ("28", "40")}


def test_inherited_value_names_the_strongest_level_that_says_it() -> None:
    above = Inheritance(
        [
            Above("the organisation’s defaults", {"limits": {"max_steps": 30, "max_turns": 20}}),
            Above("the tenant’s defaults", {"limits": {"max_turns": 25}}),
        ]
    )
    assert above.value(("limits", "max_steps")) == Value("30", "the organisation’s defaults")
    assert above.value(("limits", "max_turns")) == Value("25", "the tenant’s defaults")
    assert above.value(("limits", "max_seconds")) == Value("900", "the guard itself")


def test_tools_differ_key_by_key() -> None:
    before = {"tools": {"send": {"approval": True}, "look": {}}}
    after = {"tools": {"send": {"approval": False, "poll": {"interval": 5, "max_attempts": 3}}}}
    assert changed(before, after) == {
        "Tool look": ("named", "not set"),
        "Tool send: needs approval": ("yes", "no"),
        "Tool send: polling": ("not set", "every 5 s, at most 3 times"),
    }


def test_fields_stand_in_the_order_of_the_editor() -> None:
    after = {"review": {"sla_s": 60}, "limits": {"hops": 1, "max_cost": "2"}, "mode": "off"}
    assert list(changed({}, after)) == ["Mode", "Cost", "Hand-overs", "Review within"]


@pytest.mark.parametrize(
    ("after", "tightens"),
    [
        ({"limits": {"max_steps": 28}}, True),
        ({"limits": {"max_steps": 50}}, False),
        ({"limits": {"max_cost": "9.5"}}, True),
        ({"limits": {"cycle_reps": 2}}, True),
        ({"limits": {"max_period": 2}}, False),
        ({"limits": {"window": 20}}, True),
        ({"mode": "shadow"}, False),
        ({"allow_list": True}, True),
        ({"ladder": {"budget": "halt"}}, True),
        ({"partial_ok": False}, True),
        ({"tools": {"send": {"forbidden": True}}}, True),
        ({"tools": {"send": {"max_retries": 9}}}, False),
        ({"tools": {"send": {"class": "write"}}}, None),
        ({"on_stale": "refuse"}, None),
    ],
)
def test_difference_says_whether_it_allows_less(after: dict[str, Any], tightens: bool | None) -> None:
    *_, change = differences({}, after, NOTHING)
    assert change.tightens is tightens


def test_one_is_not_true_and_a_null_is_not_nothing() -> None:
    assert changed({"tools": {"a": {"empty": [1]}}}, {"tools": {"a": {"empty": None}}}) != {}
    assert changed({"allow_list": True}, {"allow_list": 1}) != {}


def test_what_holds_lists_every_limit_and_what_is_said_besides() -> None:
    above = Inheritance([Above("the tenant’s defaults", {"tools": {"rm": {"forbidden": True}}})])
    holds = dict(own_values({"limits": {"max_steps": 28}}, above))
    assert holds["Steps"] == Value("28")
    assert holds["Turns"] == Value("40", "the guard itself")
    assert holds["Tool rm: forbidden"] == Value("yes", "the tenant’s defaults")
    assert "Tool rm" not in holds
