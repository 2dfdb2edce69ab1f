"""What a person's decision adds to the limits of a task, on top of what is left of them.

Steps are no use without the model turns that ask for them, nor money without the tokens that it buys: turns
are added like steps, and tokens in the proportion of the money.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from guardops.guard.budgets import KINDS
from guardops.guard.decisions import AddedBudget
from guardops.guard.policy import BOUNDS, Limits, Policy, micro_usd


def extended(policy: Policy, added: AddedBudget | None) -> Policy:
    """Return a policy whose limits are higher by what was added, as far as any limit may go."""
    if added is None:
        return policy
    limits = policy.limits
    values: dict[str, Any] = {
        KINDS[kind]: _bounded(KINDS[kind], getattr(limits, KINDS[kind]) + amount)
        for kind, amount in by_kind(added, limits).items()
    }
    values["max_seconds"] = _bounded("max_seconds", limits.max_seconds + added.seconds)
    return replace(policy, limits=replace(limits, **values))


def by_kind(added: AddedBudget, limits: Limits) -> Mapping[str, int]:
    """Return what is added to each kind of budget; ``limits`` say what tokens cost."""
    cost = micro_usd(added.cost)
    tokens = limits.max_tokens * cost // limits.max_cost if limits.max_cost else 0
    amounts = {"steps": added.steps, "turns": added.steps, "tokens": tokens, "cost": cost}
    return {kind: int(_bounded(KINDS[kind], amount)) for kind, amount in amounts.items() if amount}


def summed(one: AddedBudget | None, other: AddedBudget | None) -> AddedBudget | None:
    """Return what two decisions add."""
    if one is None or other is None:
        return one or other
    return AddedBudget(
        steps=one.steps + other.steps, seconds=one.seconds + other.seconds, cost=one.cost + other.cost
    )


def _bounded(limit: str, value: float) -> float:
    return min(value, type(value)(BOUNDS[limit][1]))
