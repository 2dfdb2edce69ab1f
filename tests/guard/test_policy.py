from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from guardops.guard.errors import ErrorClass
from guardops.guard.events import Mode
from guardops.guard.policy import (
    BOUNDS,
    Block,
    BlockAction,
    Kind,
    Limits,
    Policy,
    PolicyError,
    SideEffect,
    micro_usd,
)


def test_no_overrides_give_the_specified_defaults() -> None:
    limits = Policy.from_mapping({}).limits
    assert (limits.max_steps, limits.max_turns, limits.max_seconds) == (40, 40, 900)
    assert (limits.max_repeats, limits.max_empty, limits.max_retries, limits.max_retries_run) == (3, 1, 2, 6)
    assert (limits.window, limits.max_period, limits.cycle_reps, limits.stall_limit) == (12, 4, 3, 6)
    assert (limits.max_error_streak, limits.domain_cap, limits.listing_cap) == (5, 15, 10)
    assert (limits.hops, limits.descendants, limits.children, limits.max_refusals) == (4, 20, 8, 3)
    assert (limits.max_executions, limits.backoff, limits.max_retry_after) == (12, 1, 60)


@pytest.mark.parametrize("name", sorted(BOUNDS))
@pytest.mark.parametrize("value", [None, -1, True, "many", float("inf"), float("nan"), 10**12])
def test_a_limit_that_is_absent_unlimited_or_absurd_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_mapping({name: value})
    assert caught.value.field == name


def test_more_than_five_hundred_steps_are_absurd() -> None:
    assert Policy.from_mapping({"max_steps": 500}).limits.max_steps == 500
    with pytest.raises(PolicyError, match="max_steps: must lie between 0 and 500"):
        Policy.from_mapping({"max_steps": 501})


@pytest.mark.parametrize(
    "name", ["max_steps", "max_turns", "max_seconds", "domain_cap", "hops", "descendants"]
)
def test_zero_is_a_limit(name: str) -> None:
    assert getattr(Policy.from_mapping({name: 0}).limits, name) == 0


def test_limits_made_directly_are_checked_too() -> None:
    with pytest.raises(PolicyError, match="max_steps"):
        Limits(max_steps=None)  # type: ignore[arg-type]


def test_a_window_too_small_for_its_cycles_is_refused() -> None:
    with pytest.raises(PolicyError, match="window"):
        Policy.from_mapping({"window": 4, "cycle_reps": 3})


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"max_stepz": 3}, "max_stepz"),
        ({"tools": {"a": {"clas": "read"}}}, "tools.a.clas"),
        ({"tools": {"a": {"class": "destroy"}}}, "tools.a.class"),
        ({"tools": {"a": {"volatile": "ts"}}}, "tools.a.volatile"),
        ({"tools": {"a": {"max_empty": None}}}, "tools.a.max_empty"),
        ({"tools": {"a": {"approval": 1}}}, "tools.a.approval"),
        ({"tools": {"a": {"poll": {"interval": 5}}}}, "tools.a.poll.max_attempts"),
        ({"tools": {"a": {"poll": {"interval": 5, "max_attempts": 3, "x": 1}}}}, "tools.a.poll.x"),
        ({"tools": {"a": {"poll": {"interval": -5, "max_attempts": 3}}}}, "poll.interval"),
        ({"tools": {"a": {"errors": {"E1": "sometimes"}}}}, "tools.a.errors.E1"),
        ({"tools": {"a": []}}, "tools.a"),
        ({"tools": []}, "tools"),
        ({"mode": "loud"}, "mode"),
        ({"partial_ok": None}, "partial_ok"),
        ({"blocked": [{"kind": "planet", "name": "x"}]}, "blocked.0.kind"),
        ({"blocked": [{"kind": "domain"}]}, "blocked.0"),
        ({"blocked": ["no domain"]}, "blocked.0.name"),
        ({"max_cost": "much"}, "max_cost"),
    ],
)
def test_a_wrong_document_names_the_field(document: dict[str, Any], field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_mapping(document)
    assert caught.value.field == field
    assert caught.value.code == "invalid_policy"


def test_a_tool_is_read_with_all_it_may_say() -> None:
    policy = Policy.from_mapping(
        {
            "tools": {
                "pay": {
                    "class": "side_effect",
                    "kind": "spawn",
                    "key": ["order"],
                    "errors": {"E_BUSY": "unavailable"},
                    "poll": {"interval": 5, "max_attempts": 2, "terminal": ["done"]},
                }
            }
        }
    )
    spec = policy.tool("pay")
    assert (spec.side_effect, spec.kind, spec.key) == (SideEffect.SIDE_EFFECT, Kind.SPAWN, {"order"})
    assert spec.errors == {"E_BUSY": ErrorClass.UNAVAILABLE}
    assert spec.poll is not None
    assert spec.poll.terminal == {"done"}
    assert spec.writes


def test_an_undeclared_tool_reads_unless_the_list_is_an_allow_list() -> None:
    assert not Policy().tool("anything").writes
    assert not Policy().tool("anything").forbidden
    listed = Policy.from_mapping({"allow_list": True, "tools": {"search": {}}})
    assert not listed.tool("search").forbidden
    assert listed.tool("anything").forbidden


def test_blocked_sources_are_names_or_objects() -> None:
    policy = Policy.from_mapping(
        {
            "mode": "shadow",
            "blocked": [
                "Spiegel-Bücher.Example",
                {"kind": "tool", "name": "Exec", "action": "limit", "limit": 2},
            ],
        }
    )
    assert policy.mode is Mode.SHADOW
    assert tuple(policy.blocked) == (
        Block("domain", "xn--spiegel-bcher-4ob.example"),
        Block("tool", "Exec", BlockAction.LIMIT, 2),
    )


@pytest.mark.parametrize(
    ("amount", "micro"), [(0.1, 100_000), ("0.000001", 1), (Decimal("2.5"), 2_500_000), (3, 3_000_000)]
)
def test_money_becomes_whole_micro_usd(amount: Any, micro: int) -> None:
    assert micro_usd(amount) == micro


@pytest.mark.parametrize("amount", [None, True, -1, "NaN", "Infinity", "x", []])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(PolicyError):
        micro_usd(amount)


def test_limits_in_force_are_shown_under_their_document_names() -> None:
    shown = Policy.from_mapping({"max_cost": "0.25", "max_steps": 7}).limits_in_force()
    assert (shown["max_cost"], shown["max_steps"], shown["domain_cap"]) == ("0.25", 7, 15)
