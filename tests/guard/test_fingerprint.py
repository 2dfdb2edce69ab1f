from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardops.guard.fingerprint import (
    CREDENTIALS,
    VOLATILE_AT_TOP,
    FingerprintError,
    canonical_args,
    fingerprint,
    recorded,
)
from guardops.guard.policy import DEFAULT_TOOL, ToolSpec

names = st.text(max_size=8).filter(
    lambda name: name not in VOLATILE_AT_TOP and name.lower() not in CREDENTIALS
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=12)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def spec(**fields: Any) -> ToolSpec:
    return ToolSpec.from_mapping("tool", fields)


def same(one: dict[str, Any], other: dict[str, Any], tool: ToolSpec = DEFAULT_TOOL) -> bool:
    return fingerprint("tool", one, tool).digest == fingerprint("tool", other, tool).digest


@given(st.dictionaries(names, json_values, max_size=6), st.randoms(use_true_random=False))
def test_key_order_never_matters(args: dict[str, Any], rng: random.Random) -> None:
    assert same(args, shuffled(args, rng))


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        return {name: shuffled(item, rng) for name, item in items}
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(names, json_values, max_size=5), st.dictionaries(names, json_values, max_size=5))
def test_calls_are_the_same_only_where_their_canonical_forms_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    equal_forms = canonical_args(one, DEFAULT_TOOL) == canonical_args(other, DEFAULT_TOOL)
    assert same(one, other) == equal_forms


def test_tool_arguments_and_side_effect_class_all_count() -> None:
    write = spec(**{"class": "write"})
    digests = {
        fingerprint("a", {"x": 1}, DEFAULT_TOOL).digest,
        fingerprint("b", {"x": 1}, DEFAULT_TOOL).digest,
        fingerprint("a", {"x": 2}, DEFAULT_TOOL).digest,
        fingerprint("a", {"x": 1}, write).digest,
        fingerprint("a|x", {}, DEFAULT_TOOL).digest,
    }
    assert len(digests) == 5


def test_values_of_different_types_differ() -> None:
    assert not same({"x": 1}, {"x": "1"})
    assert not same({"x": 1}, {"x": True})
    assert not same({"x": ""}, {})
    assert not same({"x": [1, 2]}, {"x": [2, 1]})
    assert not same({"x": "A"}, {"x": "a"})
    assert not same({"x": " a"}, {"x": "a"})


def test_a_whole_float_is_the_integer() -> None:
    assert same({"x": 1.0}, {"x": 1})
    assert same({"x": -0.0}, {"x": 0})
    assert not same({"x": 1.5}, {"x": 1})


def test_null_is_omitted_at_any_depth_unless_told_otherwise() -> None:
    assert same({"q": "x", "f": None}, {"q": "x"})
    assert same({"f": {"a": None, "b": 1}}, {"f": {"b": 1}})
    assert not same({"x": [None]}, {"x": []})
    assert not same({"q": "x", "f": None}, {"q": "x"}, spec(null_is_omitted=False))


@pytest.mark.parametrize("name", sorted(VOLATILE_AT_TOP))
def test_injected_fields_are_left_out(name: str) -> None:
    assert same({"q": "x", name: "1"}, {"q": "x", name: "2"})


def test_injected_identifiers_are_left_out_at_any_depth_but_nested_times_are_data() -> None:
    assert same({"meta": {"trace_id": "1"}}, {"meta": {"trace_id": "2"}})
    assert not same({"reading": {"timestamp": 1}}, {"reading": {"timestamp": 2}})


def test_a_tool_names_its_own_volatile_fields() -> None:
    tool = spec(volatile=["note"])
    assert same({"q": "x", "note": "1"}, {"q": "x", "note": "2"}, tool)
    assert same({"q": {"note": "1"}}, {"q": {"note": "2"}}, tool)
    assert not same({"q": "x", "note": "1"}, {"q": "x", "note": "2"})


def test_key_fields_are_the_only_ones_that_count_even_volatile_ones() -> None:
    tool = spec(key=["order", "ts"])
    assert same({"order": 1, "ts": 5, "why": "a"}, {"order": 1, "ts": 5, "why": "b"}, tool)
    assert not same({"order": 1, "ts": 5}, {"order": 1, "ts": 6}, tool)


def test_text_is_stripped_and_folded_only_where_told() -> None:
    assert same({"q": " a "}, {"q": "a"}, spec(strip=["q"]))
    assert same({"q": "Straße"}, {"q": "STRASSE"}, spec(casefold=["q"]))
    assert not same({"q": "A", "r": "A"}, {"q": "a", "r": "a"}, spec(casefold=["q"]))


def test_a_set_valued_list_has_no_order_and_no_repeats() -> None:
    tool = spec(sets=["tags"], casefold=["tags"])
    assert same({"tags": ["b", "A", "a"]}, {"tags": ["a", "B"]}, tool)
    assert same({"tags": [{"x": 1, "y": 2}, 3]}, {"tags": [3, {"y": 2, "x": 1}]}, tool)
    assert not same({"tags": ["a"]}, {"tags": ["b"]}, tool)


def test_credentials_are_never_hashed() -> None:
    assert b"hunter2" not in canonical_args(
        {"user": "u", "password": "hunter2", "headers": {"Authorization": "hunter2"}}, DEFAULT_TOOL
    )
    assert b"hunter2" not in canonical_args({"pin": "hunter2"}, spec(credentials=["pin"]))


@pytest.mark.parametrize(
    "args",
    [
        {"x": float("nan")},
        {"x": [float("inf")]},
        {"x": {"y": -float("inf")}},
        {"x": b"bytes"},
        {"x": {1, 2}},
        {"x": Decimal(1)},
        {"x": object()},
        {"x": {1: "a"}},
        {1: "x"},
        {"x": "\ud800"},
        [],
        None,
        "text",
    ],
)
def test_what_has_no_canonical_form_is_refused(args: Any) -> None:
    with pytest.raises(FingerprintError) as caught:
        fingerprint("tool", args, DEFAULT_TOOL)
    assert caught.value.code == "invalid_arguments"


def test_nesting_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(FingerprintError, match="nested too deeply"):
        fingerprint("tool", {"x": deep}, DEFAULT_TOOL)


def test_an_error_names_the_place_and_never_the_value() -> None:
    with pytest.raises(FingerprintError) as caught:
        fingerprint("tool", {"amount": {"secret-value": float("nan")}}, DEFAULT_TOOL)
    assert str(caught.value) == "amount: holds a number that is not finite"


def test_an_unexpected_field_is_refused_where_the_fields_are_known() -> None:
    tool = spec(fields=["q"])
    fingerprint("tool", {"q": "x", "request_id": "1"}, tool)
    with pytest.raises(FingerprintError, match="limit: is not an argument"):
        fingerprint("tool", {"q": "x", "limit": 5}, tool)


def test_a_recorded_identity_stands_for_the_arguments_which_are_only_shown() -> None:
    args = {"q": 1}
    one, other = (recorded("tool", identity, args, DEFAULT_TOOL) for identity in ("abc", "abd"))
    assert one.digest != other.digest
    assert one.digest == recorded("tool", "abc", {"q": 2}, DEFAULT_TOOL).digest
    assert one.canonical == b'{"q":1}'
    assert len(one.digest) == 64
