"""Model turns: what the next one may take is set aside before it is made, and settled after it."""

from __future__ import annotations

from guardops.guard import checks
from guardops.guard.reasons import Reason
from guardops.guard.state import OpenTurn, RunState, Trip
from guardops.guard.summary import Counts


def reserve(run: RunState, tokens: int, cost: int, at: float) -> Trip | None:
    """Set a turn, its tokens and its cost (micro-USD) aside, or return the limit that forbids it."""
    if trip := checks.no_further_turn(run, at):
        return trip
    budgets = run.budgets
    if not budgets.turns.reserve():
        return Trip(Reason.MAX_TURNS)
    if not budgets.tokens.reserve(tokens):
        budgets.turns.settle(1, 0)
        return Trip(Reason.TOKEN_BUDGET)
    if not budgets.cost.reserve(cost):
        budgets.turns.settle(1, 0)
        budgets.tokens.settle(tokens, 0)
        return Trip(Reason.COST_BUDGET)
    run.open_turns.append(OpenTurn(tokens, cost))
    return None


def settle(
    run: RunState, counts: Counts, tokens: tuple[int, int, int], cost: int, *, usage_known: bool
) -> None:
    """Settle the turn that was reserved first, or one that was not reserved.

    ``tokens`` are the input, the output, and the part of the input that came from a cache. A usage that never
    arrived is settled at the reservation.
    """
    budgets, reserved = run.budgets, bool(run.open_turns)
    held = run.open_turns.popleft() if reserved else OpenTurn(0, 0)
    used, spent = tokens[0] + tokens[1], cost
    if not usage_known:
        used, spent = max(used, held.tokens), max(spent, held.cost)
    counts.turn(*tokens, spent)
    budgets.turns.settle(int(reserved), 1)
    budgets.tokens.settle(held.tokens, used)
    budgets.cost.settle(held.cost, spent)


def charge_open(run: RunState, counts: Counts) -> None:
    """Charge in full the turns that nobody settled, since they may have been made."""
    while run.open_turns:
        settle(run, counts, (0, 0, 0), 0, usage_known=False)
