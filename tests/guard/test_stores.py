from __future__ import annotations

from guardops.guard.memory_store import MemoryStore
from guardops.guard.policy import Limits


def test_a_root_is_the_same_for_all_who_ask() -> None:
    store = MemoryStore()
    first = store.root("a", Limits(max_steps=3))
    assert store.root("a", Limits(max_steps=99)) is first
    assert first.budgets.steps.limit == 3
    assert store.root("b", Limits()) is not first


def test_the_roots_used_longest_ago_are_forgotten() -> None:
    store = MemoryStore(most_roots=2)
    a, b = store.root("a", Limits()), store.root("b", Limits())
    assert store.root("a", Limits()) is a
    store.root("c", Limits())
    assert store.root("a", Limits()) is a
    assert store.root("b", Limits()) is not b


def test_the_first_run_spends_the_roots_budgets_and_others_spend_within_them() -> None:
    root = MemoryStore().root("a", Limits(max_steps=3))
    first = root.join("run 1", Limits(max_steps=3))
    second = root.join("run 2", Limits(max_steps=2))
    assert first is root.budgets
    assert second.steps.reserve(2)
    assert first.steps.left == 1
    assert not second.steps.reserve()


def test_an_approval_may_be_given_more_than_once() -> None:
    root = MemoryStore().root("a", Limits())
    root.approve("f")
    root.approve("f")
    assert root.approvals == {"f": 2}
