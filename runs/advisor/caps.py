"""The caps that a run's row can answer, and from which value on a run meets each, as `guardops.guard` judges.

Pure. Values are in the column's own unit: milliseconds for time, USD for money, else plain counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from types import MappingProxyType
from typing import Any

from guardops.guard.events import Mode, Outcome, StepUnit
from guardops.guard.ladder import always_enforced
from guardops.guard.policy import MICRO, micro_usd
from guardops.guard.reasons import Reason
from policies.limits import BUILT_IN

Amount = int | Decimal


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit and the column that counts against it.

    The guard stops at the limit itself (``beyond`` false: it looks after a call) or refuses what would go
    beyond it (it looks before). ``least`` is what must have been counted at all. A ``total`` only grows, so
    that the end of a run says when it stood where; a peak doesn't.
    """

    name: str
    column: str
    reason: Reason
    beyond: bool = False
    least: int = 0
    total: bool = False
    counts_refused: bool = True
    """Whether the column counts the call that was refused, too."""

    @property
    def always(self) -> bool:
        """Whether it is enforced in every mode."""
        return always_enforced(self.reason)

    def meets_from(self, value: Amount) -> Amount:
        """Return the lowest count with which a run meets this cap at ``value``."""
        return max(value + 1 if self.beyond else value, self.least)

    def stopped_from(self, value: Amount) -> Amount:
        """Return the lowest count of a run that was stopped by this cap at ``value``."""
        return self.meets_from(value) if self.counts_refused else value

    def read(self, value: Any) -> Amount:
        """Return a document's value in the column's unit."""
        if self.name == "max_cost":
            return Decimal(micro_usd(value)) / MICRO
        return ceil(value * 1_000) if self.name == "max_seconds" else int(value)

    def count(self, run: Any) -> Amount:
        """Return what a row of the run table counted against this cap.

        A completed run's last turn was its answer, and asked for no other.
        """
        counted: Amount
        match self.name:
            case "max_steps":
                counted = run.steps if run.step_unit == StepUnit.TOOL_CALL else 0
            case "max_turns":
                counted = run.turns - (run.outcome == Outcome.COMPLETED)
            case "max_tokens":
                counted = run.tokens_input + run.tokens_output
            case _:
                counted = getattr(run, self.column)
        return counted


_STEPS = f"CASE step_unit WHEN '{StepUnit.TOOL_CALL.value}' THEN steps ELSE 0 END"
_TURNS = f"turns - (outcome = '{Outcome.COMPLETED.value}')::int"
_RETRIES = Reason.TOOL_RETRY_EXHAUSTED

CAPS: Mapping[str, Cap] = MappingProxyType(
    {
        cap.name: cap
        for cap in (
            Cap("max_steps", _STEPS, Reason.STEP_BUDGET, least=1, total=True),
            Cap("max_turns", _TURNS, Reason.MAX_TURNS, total=True),
            Cap("max_seconds", "duration_ms", Reason.WALL_CLOCK, total=True),
            Cap("max_tokens", "tokens_input + tokens_output", Reason.TOKEN_BUDGET, total=True),
            Cap("max_cost", "cost", Reason.COST_BUDGET, total=True),
            Cap("max_retries_run", "retries", _RETRIES, beyond=True, counts_refused=False),
            Cap("max_repeats", "peak_repeats", Reason.REPEATED_CALL, beyond=True),
            Cap("max_refusals", "peak_refusals", Reason.REFUSAL_LIMIT, least=1),
            Cap("stall_limit", "peak_stall", Reason.NO_PROGRESS, least=1),
            Cap("max_error_streak", "peak_error_streak", Reason.ERROR_STREAK, least=1),
            Cap("domain_cap", "peak_domain_calls", Reason.SOURCE_CAP, beyond=True),
            Cap("listing_cap", "peak_listing_pages", Reason.LISTING_CAP, beyond=True),
        )
    }
)


def caps_of(document: Mapping[str, Any]) -> dict[str, Amount]:
    """Return the caps that stop a run under a merged policy document.

    Without ``enforce`` only budgets do; what a document leaves out is built in.
    """
    limits = document.get("limits", {})
    enforced = document.get("mode", Mode.ENFORCE.value) == Mode.ENFORCE.value
    return {
        name: cap.read(limits.get(name, BUILT_IN[name]))
        for name, cap in CAPS.items()
        if enforced or cap.always
    }
