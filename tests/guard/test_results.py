from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardops.guard.policy import DEFAULT_TOOL, ToolSpec
from guardops.guard.results import digest_of, is_empty


@pytest.mark.parametrize(
    "result",
    [
        None,
        "",
        [],
        {},
        [[], {}, None, ""],
        {"owner": None, "results": []},
        {"items": [], "total": 0},
        {"count": 0.0},
        {"page": {"total": 0, "rows": [{}]}},
        "[]",
        ' {"items": [], "total": 0} ',
        "null",
    ],
)
def test_nothing_is_empty(result: Any) -> None:
    assert is_empty(result, DEFAULT_TOOL)


@pytest.mark.parametrize(
    "result",
    [
        "x",
        " ",
        0,
        False,
        [0],
        {"total": 1},
        {"price": 0},
        {"count": False},
        {"ok": True, "items": []},
        "[1]",
        "[",
        "none",
        "[\ud800]",
    ],
)
def test_something_is_not_empty(result: Any) -> None:
    assert not is_empty(result, DEFAULT_TOOL)


def test_a_tool_declares_what_else_counts_as_empty() -> None:
    spec = ToolSpec.from_mapping("t", {"empty": ["No results found", 0]})
    assert is_empty("No results found", spec)
    assert is_empty(0, spec)
    assert not is_empty(False, spec)
    assert not is_empty("No results found.", spec)


@given(
    st.recursive(
        st.sampled_from([None, "", []]), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_every_tree_of_nothing_is_empty(result: Any) -> None:
    assert is_empty(result, DEFAULT_TOOL)


def test_equal_results_have_equal_digests_whatever_their_key_order() -> None:
    assert digest_of({"a": 1, "b": 2}, DEFAULT_TOOL) == digest_of({"b": 2, "a": 1}, DEFAULT_TOOL)
    assert digest_of("a", DEFAULT_TOOL) != digest_of("b", DEFAULT_TOOL)


def test_injected_identifiers_make_no_other_result() -> None:
    one = digest_of({"state": "up", "request_id": "1", "took": 5}, ToolSpec(volatile=frozenset({"took"})))
    other = digest_of({"state": "up", "request_id": "2", "took": 9}, ToolSpec(volatile=frozenset({"took"})))
    assert one[0] == other[0]
    assert digest_of({"timestamp": 1}, DEFAULT_TOOL)[0] != digest_of({"timestamp": 2}, DEFAULT_TOOL)[0]


def test_a_result_that_json_cannot_hold_has_a_digest_too() -> None:
    assert digest_of({1, 2}, DEFAULT_TOOL)[0] != digest_of({1, 3}, DEFAULT_TOOL)[0]
    assert len(digest_of(object(), DEFAULT_TOOL)[0]) == 32


def test_a_result_beyond_any_depth_is_like_every_other_one() -> None:
    def nested(leaf: str) -> object:
        for _ in range(50_000):
            leaf = {"next": leaf}  # type: ignore[assignment]
        return leaf

    assert digest_of(nested("a"), DEFAULT_TOOL) == digest_of(nested("b"), DEFAULT_TOOL)


def test_the_size_is_in_bytes() -> None:
    assert digest_of("äb", DEFAULT_TOOL)[1] == 3
