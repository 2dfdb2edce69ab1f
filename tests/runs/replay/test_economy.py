from __future__ import annotations

from decimal import Decimal

import pytest

from guardops.guard.events import CostBasis
from guardops.guard.scenarios.economy import INSTRUCTIONS, WRITTEN, Transcript, Usage
from runs.replay.economy import TOOL_S, bill
from runs.replay.traces import Call, Recorded, RecordedCost, RecordedTokens, Trace


def trace(steps: int, **fields: object) -> Trace:
    calls = [
        Call(tool="find", args={"q": "x" * 40}, args_sha=str(step), result_len=4_000) for step in range(steps)
    ]
    return Trace(
        run_id="lab/1", source="lab", job_type="search", outcome=Recorded.COMPLETED, calls=calls, **fields
    )


def turns(recorded: Trace) -> list[Usage]:
    """Return what each turn of a run took that nobody stopped."""
    transcript, found = Transcript(), bill(recorded)
    usages = []
    for first, last in found.shares:
        made = recorded.calls[first:last]
        usages.append(found.rates.real(transcript.turn(40 * len(made))))
        transcript.read(sum(call.result_len for call in made))
    return usages


def cost(usages: list[Usage]) -> Decimal:
    return sum((usage.cost for usage in usages), Decimal(0))


def test_each_turn_reads_what_the_turns_before_wrote_and_got() -> None:
    assert [usage.tokens_in for usage in turns(trace(2))] == [
        INSTRUCTIONS,
        INSTRUCTIONS + WRITTEN + 10 + 1_000,
        INSTRUCTIONS + 2 * (WRITTEN + 10 + 1_000),
    ]


def test_twice_the_steps_cost_almost_four_times_as_much() -> None:
    assert 3.5 < cost(turns(trace(100))) / cost(turns(trace(50))) < 4


@pytest.mark.parametrize("number", [None, 1, 3, 5, 6, 7, 20])
def test_every_call_belongs_to_one_turn_and_the_recorded_turns_are_kept(number: int | None) -> None:
    shares = bill(trace(6, turns=number)).shares

    assert len(shares) == (number or 7)
    assert [first for first, _ in shares[1:]] == [last for _, last in shares[:-1]]
    assert (shares[0][0], shares[-1][1]) == (0, 6)


def test_more_turns_than_calls_close_with_a_turn_of_its_own() -> None:
    assert bill(trace(2, turns=5)).shares[-1] == (2, 2)


def test_a_run_without_calls_is_one_turn() -> None:
    assert bill(trace(0)).shares == [(0, 0)]


def test_a_stated_duration_is_kept() -> None:
    recorded = trace(4, duration_s=123.0)

    found = bill(recorded)
    assert found.duration_s == pytest.approx(123)
    assert sum(usage.seconds for usage in turns(recorded)) + 4 * found.tool_s == pytest.approx(123)


def test_a_modelled_duration_is_the_sum_of_turns_and_calls() -> None:
    recorded = trace(4)

    assert bill(recorded).duration_s == pytest.approx(
        sum(usage.seconds for usage in turns(recorded)) + 4 * TOOL_S
    )


def test_stated_tokens_are_kept_and_priced() -> None:
    recorded = trace(4, tokens=RecordedTokens(input=10_000, output=500))

    assert sum(usage.tokens_in for usage in turns(recorded)) == pytest.approx(10_000, abs=3)
    assert cost(turns(recorded)) == pytest.approx(Decimal("0.03"), abs=Decimal("0.0001"))
    assert bill(recorded).basis is CostBasis.ESTIMATE


def test_a_stated_cost_is_kept_as_the_providers() -> None:
    recorded = trace(4, cost=RecordedCost(usd=0.5))

    assert cost(turns(recorded)) == pytest.approx(Decimal("0.5"), abs=Decimal("0.00001"))
    assert bill(recorded).basis is CostBasis.PROVIDER
