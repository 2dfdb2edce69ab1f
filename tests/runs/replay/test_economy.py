from __future__ import annotations

from decimal import Decimal

import pytest

from guardops.guard.events import CostBasis
from guardops.guard.scenarios.economy import INSTRUCTIONS, WRITTEN
from runs.replay.economy import Bill, bill
from runs.replay.traces import Call, Recorded, RecordedCost, RecordedTokens, Trace


def trace(steps: int, **fields: object) -> Trace:
    calls = [
        Call(tool="find", args={"q": "x" * 40}, args_sha=str(step), result_len=4_000) for step in range(steps)
    ]
    return Trace(
        run_id="lab/1", source="lab", job_type="search", outcome=Recorded.COMPLETED, calls=calls, **fields
    )


def cost(found: Bill) -> Decimal:
    return sum((turn.usage.cost for turn in found.turns), Decimal(0))


def test_each_turn_reads_what_the_turns_before_wrote_and_got() -> None:
    turns = bill(trace(2)).turns

    assert [turn.usage.tokens_in for turn in turns] == [
        INSTRUCTIONS,
        INSTRUCTIONS + WRITTEN + 10 + 1_000,
        INSTRUCTIONS + 2 * (WRITTEN + 10 + 1_000),
    ]


def test_twice_the_steps_cost_almost_four_times_as_much() -> None:
    assert 3.5 < cost(bill(trace(100))) / cost(bill(trace(50))) < 4


@pytest.mark.parametrize("turns", [None, 1, 3, 5, 6, 7, 20])
def test_every_call_belongs_to_one_turn_and_the_recorded_turns_are_kept(turns: int | None) -> None:
    found = bill(trace(6, turns=turns)).turns

    assert len(found) == (turns or 7)
    assert [turn.first for turn in found[1:]] == [turn.last for turn in found[:-1]]
    assert (found[0].first, found[-1].last) == (0, 6)


def test_more_turns_than_calls_close_with_a_turn_of_its_own() -> None:
    found = bill(trace(2, turns=5)).turns

    assert (found[-1].first, found[-1].last) == (2, 2)


def test_a_run_without_calls_is_one_turn() -> None:
    assert len(bill(trace(0)).turns) == 1


def test_a_stated_duration_is_kept() -> None:
    assert bill(trace(4, duration_s=123.0)).duration_s == pytest.approx(123)


def test_stated_tokens_are_kept_and_priced() -> None:
    found = bill(trace(4, tokens=RecordedTokens(input=10_000, output=500)))

    assert sum(turn.usage.tokens_in for turn in found.turns) == pytest.approx(10_000, abs=3)
    assert cost(found) == pytest.approx(Decimal("0.03"), abs=Decimal("0.0001"))
    assert found.basis is CostBasis.ESTIMATE


def test_a_stated_cost_is_kept_as_the_providers() -> None:
    found = bill(trace(4, cost=RecordedCost(usd=0.5)))

    assert cost(found) == pytest.approx(Decimal("0.5"), abs=Decimal("0.00001"))
    assert found.basis is CostBasis.PROVIDER
