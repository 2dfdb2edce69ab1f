from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from guardops.guard.events import Mode
from guardops.guard.policy import BOUNDS, Limits, Policy
from guardops.guard.tightening import tighten


def policy(**document: Any) -> Policy:
    return Policy.from_mapping(document)


def test_a_policy_that_is_no_stricter_changes_nothing() -> None:
    running = policy(max_steps=5, tools={"rm": {"forbidden": True}}, blocked=["a.example"], allow_list=True)
    assert tighten(running, running) is running
    assert tighten(running, policy(max_steps=9, mode="shadow")) is running


HIGHER_IS_STRICTER = {"window", "max_period", "backoff"}


@pytest.mark.parametrize("name", [item.name for item in fields(Limits)])
def test_of_each_limit_the_stricter_side_holds(name: str) -> None:
    low: Any
    high: Any
    low, high = (6, 12) if name in ("window", "cycle_reps") else BOUNDS[name]
    if name == "cycle_reps":
        low, high = 2, 4
    one, other = (Policy(limits=replace(Limits(), **{name: value})) for value in (low, high))
    strict = max(low, high) if name in HIGHER_IS_STRICTER else min(low, high)
    assert getattr(tighten(one, other).limits, name) == strict
    assert getattr(tighten(other, one).limits, name) == strict


@pytest.mark.parametrize(
    ("running", "newest", "mode"),
    [("off", "shadow", "shadow"), ("shadow", "enforce", "enforce"), ("enforce", "off", "enforce")],
)
def test_a_mode_only_rises(running: str, newest: str, mode: str) -> None:
    assert tighten(policy(mode=running), policy(mode=newest)).mode is Mode(mode)


def test_partial_answers_end_and_do_not_come_back() -> None:
    assert not tighten(policy(), policy(partial_ok=False)).partial_ok
    assert not tighten(policy(partial_ok=False), policy()).partial_ok


def test_an_allow_list_comes_on_and_leaves_only_what_it_names() -> None:
    running = policy(tools={"rm": {"class": "write"}})
    tightened = tighten(running, policy(allow_list=True, tools={"search": {}}))
    assert [tightened.tool(name).forbidden for name in ("search", "rm", "other")] == [False, True, True]
    assert tighten(tightened, policy()).allow_list


def test_tools_become_forbidden_or_ask_for_approval_and_stay_so() -> None:
    newest = policy(tools={"rm": {"forbidden": True}, "pay": {"approval": True}})
    tightened = tighten(policy(), newest)
    assert tightened.tool("rm").forbidden
    assert tightened.tool("pay").approval
    assert tighten(newest, policy()) is newest


def test_what_makes_a_calls_identity_waits_for_the_next_run() -> None:
    running = policy(tools={"pay": {"class": "side_effect", "key": ["order"]}})
    tightened = tighten(running, policy(tools={"pay": {"class": "read", "approval": True}}))
    assert tightened.tool("pay").side_effect == "side_effect"
    assert tightened.tool("pay").key == {"order"}


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [(None, None, None), (5, None, 3), (2, None, 2), (None, 1, 1), (None, 9, 3), (4, 6, 4)],
)
def test_a_tools_cap_is_the_lower_of_what_held_for_it(
    own: int | None, other: int | None, expected: int | None
) -> None:
    def named(cap: int | None) -> Policy:
        return policy(tools={"search": {} if cap is None else {"max_repeats": cap}})

    assert tighten(named(own), named(other)).tool("search").max_repeats == expected


def test_a_polling_contract_gets_shorter_but_is_neither_made_nor_ended() -> None:
    def polled(**contract: Any) -> Policy:
        return policy(tools={"status": {"poll": {"interval": 5, "max_attempts": 10, **contract}}})

    found = tighten(polled(), polled(interval=2, max_attempts=4, max_seconds=60)).tool("status").poll
    assert found is not None
    assert (found.interval, found.max_attempts, found.max_seconds) == (5, 4, 60)
    assert tighten(policy(), polled()).tool("status").poll is None
    assert tighten(polled(), policy()).tool("status").poll is not None


def test_new_blocks_are_added_and_old_ones_stay() -> None:
    tightened = tighten(policy(blocked=["a.example"]), policy(blocked=["b.example"]))
    assert {block.name for block in tightened.blocked} == {"a.example", "b.example"}


def test_each_reason_starts_on_the_higher_rung() -> None:
    newest = policy(ladder={"no_progress": "halt", "tool_auth_error": "nudge"})
    tightened = tighten(policy(), newest)
    assert {reason.value: action.value for reason, action in tightened.ladder.items()} == {
        "no_progress": "halt",
        "tool_auth_error": "escalate",
    }
