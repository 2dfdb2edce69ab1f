"""The limits of a policy in words: what each is called, what it counts, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from guardops.guard.policy import BOUNDS, MICRO, Limits

_DEFAULTS = Limits()


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: its ``name`` in policy documents, its label, its unit, and what it is for."""

    name: str
    label: str
    unit: str
    help: str

    @property
    def is_money(self) -> bool:
        return self.name == "max_cost"

    @property
    def is_whole(self) -> bool:
        return isinstance(getattr(_DEFAULTS, self.name), int) and not self.is_money

    @property
    def bounds(self) -> str:
        """The lowest and the highest value, ``0 to 500``; money in USD."""
        low, high = (bound / MICRO if self.is_money else bound for bound in BOUNDS[self.name])
        return f"{low:,.0f} to {high:,.0f}"


GROUPS: Mapping[str, tuple[Limit, ...]] = MappingProxyType(
    {
        "Budgets": (
            Limit("max_steps", "Steps", "tool calls", "Calls of tools in one run."),
            Limit("max_turns", "Turns", "model calls", "Calls of the model in one run."),
            Limit("max_seconds", "Wall clock", "seconds", "From the start of the run."),
            Limit("max_tokens", "Tokens", "in and out", "Tokens in and out together."),
            Limit("max_cost", "Cost", "USD", "What the run may cost."),
        ),
        "Repetition and retries": (
            Limit("max_repeats", "Same call, same result", "times", "The next one is refused."),
            Limit("max_empty", "Empty results of a call", "times", "The next one is refused."),
            Limit("max_retries", "Retries of a call", "after the first", "For errors that may pass."),
            Limit("max_retries_run", "Retries in all", "a run", "Of all calls together."),
            Limit("max_executions", "Executions of a call", "a run", "Whatever came back; polls left out."),
            Limit("max_refusals", "Refusals", "a run", "Then the run must answer."),
            Limit("backoff", "Wait before a retry", "seconds", "Longer after each; a tool may ask for more."),
            Limit("max_retry_after", "Longest wait asked for", "seconds", "Beyond it the retry is given up."),
        ),
        "Cycles and progress": (
            Limit("stall_limit", "Steps without progress", "in a row", "Nothing new was learnt."),
            Limit("max_error_streak", "Errors in a row", "of a kind", "Different calls of one tool."),
            Limit("window", "Calls watched for cycles", "last calls", "At least two rounds must fit."),
            Limit("max_period", "Longest cycle", "calls", "A-B-A-B is a cycle of 2."),
            Limit("cycle_reps", "Rounds of a cycle", "times", "So often it must repeat."),
        ),
        "Sources": (
            Limit("domain_cap", "Fetches of a domain", "a run", "Counted by registrable domain."),
            Limit("listing_cap", "Pages of a listing", "a run", "Of one address with page keys."),
        ),
        "Delegated work": (
            Limit("hops", "Hand-overs", "deep", "From agent to agent."),
            Limit("descendants", "Runs started", "in all", "Charged to the first run."),
            Limit("children", "Sub-agents at once", "at a time", "Of one run."),
        ),
    }
)

LIMITS: Mapping[str, Limit] = MappingProxyType(
    {limit.name: limit for limits in GROUPS.values() for limit in limits}
)

BUILT_IN: Mapping[str, object] = MappingProxyType(
    {
        name: f"{_DEFAULTS.max_cost / MICRO:g}" if limit.is_money else getattr(_DEFAULTS, name)
        for name, limit in LIMITS.items()
    }
)
"""What guards hold to where no policy says anything, as documents write it."""
