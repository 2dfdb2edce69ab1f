"""Fills what recordings lack, tokens, costs and times, by the model of the scripted agents' economy.

Model call k of a run reads the instructions and all arguments and results of the calls before it, so that a
run's cost grows with the square of its steps; each tool call takes 0.4 s. Calls are shared out evenly over
the recorded turns. Tokens, cost and duration that a recording states are kept: they are shared out over its
turns in the model's proportions, so that a run that is stopped early is charged for what it did. The basis
of a stated cost is ``provider``, of every other one ``estimate``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from guardops.guard.events import CostBasis
from guardops.guard.scenarios.economy import Rates, Transcript, Usage

from .traces import Call, Trace

TOOL_S = 0.4

Share = tuple[int, int]
"""The calls that one turn leads to: the indexes from the first up to, not including, the second."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run took: calls by turn, rates against the model, seconds of a tool call and of the run."""

    shares: list[Share]
    rates: Rates
    tool_s: float
    duration_s: float
    basis: CostBasis


def bill(trace: Trace) -> Bill:
    """Return what ``trace`` took; a turn's own figures are the transcript's model times the rates."""
    shares = _shares(len(trace.calls), trace.turns)
    modelled = list(_modelled(trace.calls, shares))
    of_in, of_out = _of_tokens(trace, modelled)
    turns = [Rates(of_in, of_out).real(usage) for usage in modelled]
    seconds = sum(turn.seconds for turn in turns) + TOOL_S * len(trace.calls)
    of_time = trace.duration_s / seconds if trace.duration_s else 1.0
    usd = trace.cost.usd if trace.cost else None
    of_cost = Decimal(1) if usd is None else Decimal(str(usd)) / sum(turn.cost for turn in turns)
    return Bill(
        shares=shares,
        rates=Rates(of_in, of_out, of_time, of_cost),
        tool_s=TOOL_S * of_time,
        duration_s=seconds * of_time,
        basis=CostBasis.ESTIMATE if usd is None else CostBasis.PROVIDER,
    )


def _shares(calls: int, turns: int | None) -> list[Share]:
    """Share the calls out over the turns; with more turns than calls the last one closes the run."""
    turns = turns or calls + 1
    acting = turns if turns <= calls else max(1, turns - 1)
    edges = [calls * index // acting for index in range(acting + 1)]
    return list(pairwise(edges)) + [(calls, calls)] * (turns - acting)


def _modelled(calls: list[Call], shares: list[Share]) -> Iterator[Usage]:
    transcript = Transcript()
    for first, last in shares:
        made = calls[first:last]
        yield transcript.turn(sum(len(str(value)) for call in made for value in call.args.values()))
        transcript.read(sum(call.result_len for call in made))


def _of_tokens(trace: Trace, modelled: list[Usage]) -> tuple[float, float]:
    stated = trace.tokens
    if stated is None or not (stated.input and stated.output):
        return 1.0, 1.0
    return (
        stated.input / sum(usage.tokens_in for usage in modelled),
        stated.output / sum(usage.tokens_out for usage in modelled),
    )
