from __future__ import annotations

from decimal import Decimal
from threading import Lock, Thread

from guardops.guard.budgets import Budget, Budgets
from guardops.guard.policy import Limits, micro_usd
from guardops.guard.reasons import Reason


def test_a_reservation_fits_with_what_is_settled_and_reserved() -> None:
    budget = Budget(10)
    assert budget.reserve(6)
    assert not budget.reserve(5)
    budget.settle(6, 2)
    assert budget.left == 8
    assert budget.reserve(8)
    assert budget.left == 0
    assert not budget.spent


def test_settling_more_than_reserved_counts_in_full() -> None:
    budget = Budget(10)
    assert budget.reserve(3)
    budget.settle(3, 12)
    assert budget.spent
    assert budget.left == 0


def test_a_child_spends_within_its_own_limit_and_its_parents() -> None:
    parent = Budget(5)
    first, second = Budget(4, parent), Budget(4, parent)
    assert first.reserve(4)
    assert not second.reserve(2)
    assert second.reserve(1)
    assert (first.left, second.left, parent.left) == (0, 0, 0)
    first.settle(4, 4)
    second.settle(1, 1)
    assert parent.spent
    assert second.spent


def test_a_refused_reservation_holds_nothing() -> None:
    parent = Budget(1)
    child = Budget(5, parent)
    assert not child.reserve(2)
    assert (child.reserved, parent.reserved) == (0, 0)


def test_ten_cents_are_ten_times_one() -> None:
    budget = Budget(micro_usd("0.10"))
    for _ in range(10):
        assert not budget.spent
        budget.spend(micro_usd(0.01))
    assert budget.spent
    assert Decimal(budget.settled) / 1_000_000 == Decimal("0.1")


def test_a_limit_of_zero_is_spent_from_the_start() -> None:
    assert Budget(0).spent
    assert not Budget(0).reserve()


def test_parallel_reservations_never_exceed_the_limit() -> None:
    budget, lock, granted = Budget(50), Lock(), []

    def take() -> None:
        for _ in range(30):
            with lock:
                if budget.reserve():
                    granted.append(1)

    threads = [Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == budget.reserved == 50


def test_money_is_named_before_tokens_and_turns() -> None:
    budgets = Budgets(Limits(max_cost=0, max_tokens=0, max_turns=0))
    assert budgets.spent_by_turns() is Reason.COST_BUDGET
    assert Budgets(Limits(max_tokens=0, max_turns=0)).spent_by_turns() is Reason.TOKEN_BUDGET
    assert Budgets(Limits(max_turns=0)).spent_by_turns() is Reason.MAX_TURNS
    assert Budgets(Limits()).spent_by_turns() is None
