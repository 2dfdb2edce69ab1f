"""What a run may spend: reserved before work is dispatched, settled with what it really took.

Amounts are whole numbers (money in micro-USD). A reservation is granted while settled + reserved + amount
stays within the limit, in a child's own budget and in all its parents'. What a final, forced answer takes is
settled on top of the limit, so that it can always be paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardops.guard.policy import Limits
from guardops.guard.reasons import Reason

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "steps": "max_steps",
        "turns": "max_turns",
        "tokens": "max_tokens",
        "cost": "max_cost",
        "retries": "max_retries_run",
        "descendants": "descendants",
        "children": "children",
    }
)
"""The kinds of budgets, with the limit that each is held to."""


class Budget:
    """One kind of spending of one run, or of a whole root where runs share it."""

    __slots__ = ("granted", "limit", "parent", "reserved", "settled")

    def __init__(self, limit: int, parent: Budget | None = None) -> None:
        self.limit = limit
        """The most that may be spent, what was granted on top included."""
        self.granted = 0
        """What people have added to what the policy allows."""
        self.parent = parent
        self.settled = 0
        self.reserved = 0

    def grant(self, amount: int) -> None:
        """Allow ``amount`` more than the policy does, from here on."""
        self.granted += amount
        self.limit += amount

    def reserve(self, amount: int = 1) -> bool:
        """Set ``amount`` aside, or say that it isn't there."""
        budget: Budget | None = self
        while budget is not None:
            if budget.settled + budget.reserved + amount > budget.limit:
                return False
            budget = budget.parent
        budget = self
        while budget is not None:
            budget.reserved += amount
            budget = budget.parent
        return True

    def spend(self, amount: int = 1) -> None:
        """Settle ``amount`` at once, without a reservation."""
        self.settle(0, amount)

    def settle(self, reserved: int, actual: int) -> None:
        """Replace a reservation by what was really spent; ``reserved`` is 0 where there was none."""
        budget: Budget | None = self
        while budget is not None:
            budget.reserved -= reserved
            budget.settled += actual
            budget = budget.parent

    @property
    def spent(self) -> bool:
        """Whether nothing is left, here or in a parent."""
        return self.settled >= self.limit or (self.parent is not None and self.parent.spent)

    @property
    def share(self) -> float | None:
        """The share that is spent or set aside, at the nearer limit; None where nothing is allowed."""
        own = (self.settled + self.reserved) / self.limit if self.limit else None
        above = self.parent.share if self.parent is not None else None
        return max((share for share in (own, above) if share is not None), default=None)

    @property
    def left(self) -> int:
        """What can still be reserved."""
        own = max(0, self.limit - self.settled - self.reserved)
        return own if self.parent is None else min(own, self.parent.left)


class Budgets:
    """All budgets of one run; a child's lie within its parent's and never reset them."""

    __slots__ = (
        "by_kind",
        "children",
        "cost",
        "descendants",
        "parent",
        "retries",
        "steps",
        "tokens",
        "turns",
    )

    steps: Budget
    turns: Budget
    tokens: Budget
    cost: Budget
    retries: Budget
    descendants: Budget
    children: Budget

    def __init__(self, limits: Limits, parent: Budgets | None = None) -> None:
        self.parent = parent
        self.by_kind: dict[str, Budget] = {}
        for kind, limit in KINDS.items():
            budget = Budget(getattr(limits, limit), parent.by_kind[kind] if parent else None)
            self.by_kind[kind] = budget
            setattr(self, kind, budget)

    def hold_to(self, limits: Limits) -> None:
        """Put other limits on what has been spent."""
        for kind, limit in KINDS.items():
            budget = self.by_kind[kind]
            budget.limit = getattr(limits, limit) + budget.granted

    def lower_to(self, limits: Limits) -> None:
        """Put lower limits on what has been spent; none is raised."""
        for kind, limit in KINDS.items():
            budget = self.by_kind[kind]
            budget.limit = min(budget.limit, getattr(limits, limit) + budget.granted)

    def spent_by_turns(self) -> Reason | None:
        """Return the reason why no further model turn can be paid for, if any."""
        level: Budgets | None = self
        while level is not None:
            cost, tokens, turns = level.cost, level.tokens, level.turns
            if cost.settled >= cost.limit:
                return Reason.COST_BUDGET
            if tokens.settled >= tokens.limit:
                return Reason.TOKEN_BUDGET
            if turns.settled >= turns.limit:
                return Reason.MAX_TURNS
            level = level.parent
        return None
