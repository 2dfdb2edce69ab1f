"""Fills what recordings lack: tokens, costs and times, by the model of
``guardops.guard.scenarios.economy``.

Model call k of a run reads the instructions and all arguments and results of the calls before it, so that a
run's cost grows with the square of its steps; each tool call takes 0.4 s. Calls are shared out evenly over
the recorded turns. Tokens, cost and duration that a recording states are kept: they are shared out over its
turns in the model's proportions, so that a run that is stopped early is charged for what it did. The basis
of a stated cost is ``provider``, of every other one ``estimate``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from guardops.guard.events import CostBasis
from guardops.guard.scenarios.economy import Transcript, Usage, micro, usage

from .traces import Call, Trace

TOOL_S = 0.4


@dataclass(frozen=True, slots=True)
class BilledTurn:
    """One model call and the tool calls it leads to: those at ``first`` up to, not including, ``last``."""

    usage: Usage
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Bill:
    """A run's turns in order, the seconds a tool call takes, and where its cost comes from."""

    turns: tuple[BilledTurn, ...]
    tool_s: float
    basis: CostBasis

    @property
    def duration_s(self) -> float:
        return sum(turn.usage.seconds + self.tool_s * (turn.last - turn.first) for turn in self.turns)


def bill(trace: Trace) -> Bill:
    """Return what each turn of ``trace`` took."""
    modelled = Bill(
        turns=tuple(_modelled(trace.calls, _shares(len(trace.calls), trace.turns))),
        tool_s=TOOL_S,
        basis=CostBasis.ESTIMATE,
    )
    return _with_cost(_with_duration(_with_tokens(modelled, trace), trace), trace)


def _shares(calls: int, turns: int | None) -> list[tuple[int, int]]:
    """Share the calls out over the turns; with more turns than calls the last one closes the run."""
    turns = turns or calls + 1
    acting = turns if turns <= calls else max(1, turns - 1)
    edges = [calls * index // acting for index in range(acting + 1)]
    return list(pairwise(edges)) + [(calls, calls)] * (turns - acting)


def _modelled(calls: list[Call], shares: list[tuple[int, int]]) -> list[BilledTurn]:
    transcript = Transcript()
    turns = []
    for first, last in shares:
        made = calls[first:last]
        written = sum(len(str(value)) for call in made for value in call.args.values())
        turns.append(BilledTurn(transcript.turn(written), first, last))
        transcript.read(sum(call.result_len for call in made))
    return turns


def _with_tokens(bill: Bill, trace: Trace) -> Bill:
    stated = trace.tokens
    if stated is None or not (stated.input and stated.output):
        return bill
    of_input = stated.input / sum(turn.usage.tokens_in for turn in bill.turns)
    of_output = stated.output / sum(turn.usage.tokens_out for turn in bill.turns)
    turns = [
        replace(
            turn,
            usage=usage(round(turn.usage.tokens_in * of_input), round(turn.usage.tokens_out * of_output)),
        )
        for turn in bill.turns
    ]
    return replace(bill, turns=tuple(turns))


def _with_duration(bill: Bill, trace: Trace) -> Bill:
    if not trace.duration_s:
        return bill
    share = trace.duration_s / bill.duration_s
    turns = [
        replace(turn, usage=replace(turn.usage, seconds=turn.usage.seconds * share)) for turn in bill.turns
    ]
    return replace(bill, turns=tuple(turns), tool_s=bill.tool_s * share)


def _with_cost(bill: Bill, trace: Trace) -> Bill:
    if trace.cost is None or trace.cost.usd is None:
        return bill
    share = Decimal(str(trace.cost.usd)) / sum(turn.usage.cost for turn in bill.turns)
    turns = [
        replace(turn, usage=replace(turn.usage, cost=micro(turn.usage.cost * share))) for turn in bill.turns
    ]
    return replace(bill, turns=tuple(turns), basis=CostBasis.PROVIDER)
