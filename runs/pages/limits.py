"""The limits that hold a run, in words, and how much of each is used.

Pure: everything follows from the run's row. Names of limits come from guards and are passed on as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from guardops.guard.reasons import Reason
from runs.ingest.rows import Detail

if TYPE_CHECKING:
    from runs.models import Run


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in force, in words; ``used`` where the run counted it; ``hit`` where it stopped the run."""

    name: str
    label: str
    value: str
    used: str = ""
    hit: bool = False


# Label, the column that counts against it, and the reasons that it gives. Names are the policy's.
_LIMITS: dict[str, tuple[str, str, tuple[Reason, ...]]] = {
    "max_steps": ("Steps", "steps", (Reason.STEP_BUDGET,)),
    "max_turns": ("Turns", "turns", (Reason.MAX_TURNS,)),
    "max_seconds": ("Seconds", "seconds", (Reason.WALL_CLOCK,)),
    "max_tokens": ("Tokens", "tokens", (Reason.TOKEN_BUDGET,)),
    "max_cost": ("Cost in USD", "cost", (Reason.COST_BUDGET,)),
    "max_repeats": ("Same call, same result", "peak_repeats", (Reason.REPEATED_CALL,)),
    "max_empty": ("Empty results of a call", "", (Reason.TOOL_NO_PROGRESS,)),
    "max_retries": ("Retries of a call", "", (Reason.TOOL_RETRY_EXHAUSTED,)),
    "max_retries_run": ("Retries in all", "retries", (Reason.TOOL_RETRY_EXHAUSTED,)),
    "max_executions": ("Executions of a call", "", ()),
    "max_refusals": ("Refusals", "peak_refusals", (Reason.REFUSAL_LIMIT,)),
    "window": ("Calls watched for cycles", "", ()),
    "max_period": ("Longest cycle", "", ()),
    "cycle_reps": (
        "Rounds of a cycle",
        "",
        (Reason.CYCLE_PERIOD_2, Reason.CYCLE_PERIOD_3, Reason.CYCLE_PERIOD_4),
    ),
    "stall_limit": ("Steps without progress", "peak_stall", (Reason.NO_PROGRESS,)),
    "max_error_streak": ("Errors in a row", "peak_error_streak", (Reason.ERROR_STREAK,)),
    "domain_cap": ("Calls of a source", "peak_domain_calls", (Reason.SOURCE_CAP,)),
    "listing_cap": ("Pages of a listing", "peak_listing_pages", (Reason.LISTING_CAP,)),
    "hops": ("Hand-overs", "", (Reason.HOP_BUDGET,)),
    "descendants": ("Runs started", "", (Reason.DESCENDANTS_BUDGET,)),
    "backoff": ("Seconds before a retry", "", ()),
    "max_retry_after": ("Longest wait asked for, in seconds", "", ()),
    "children": ("Sub-agents at once", "", (Reason.CHILDREN_BUDGET,)),
}


def limits_in_force(run: Run, detail: Detail) -> list[Limit]:
    """Return the run's limits, the one that stopped it first, then those whose use is known."""
    counted: dict[str, Any] = {
        "seconds": f"{run.duration_ms / 1000:,.0f}",
        "tokens": f"{run.tokens_input + run.tokens_output:,}",
        "cost": f"{run.cost:,.2f}",
    }
    limits, reason = [], run.halt_reason or run.would_halt
    for name, value in detail.limits.items():
        label, column, reasons = _LIMITS.get(name, (name, "", ()))
        used = counted.get(column) or (f"{getattr(run, column):,}" if column else "")
        limits.append(Limit(name, label, _plain(value), used, reason in reasons))
    return sorted(limits, key=lambda limit: (not limit.hit, not limit.used))


NEAR = 0.8
"""From this share of a limit on, a run is under pressure."""
_SMALLEST, _LARGEST = Decimal("1e-6"), Decimal("1e18")  # of limits that are one; a guard may send any number


@dataclass(frozen=True, slots=True)
class Pressure:
    """How much of a limit is used: ``share`` of it (1 is all), and ``used`` in words, ``37 of 40``."""

    label: str
    share: float
    used: str = ""

    @property
    def percent(self) -> int:
        return min(math.floor(self.share * 100), 9_999)

    @property
    def width(self) -> int:
        """The part of a bar that is 1,000 wide."""
        return min(round(self.share * 1_000), 1_000)

    @property
    def word(self) -> str:
        return "used up" if self.share >= 1 else "near its limit" if self.share >= NEAR else "within"

    @property
    def image(self) -> str:
        return "halt" if self.share >= 1 else "warn" if self.share >= NEAR else "check"

    @property
    def severity(self) -> str:
        return "danger" if self.share >= 1 else "warn" if self.share >= NEAR else ""


def label_of(name: str) -> str:
    """Return a limit's name in words, or as it came where this version does not know it."""
    return _LIMITS.get(name, (name, "", ()))[0]


def pressures_of(
    shares: Mapping[str, Any], limits: Mapping[str, Any], counted: Mapping[str, Decimal | int]
) -> list[Pressure]:
    """Return the limits whose used ``shares`` a heartbeat told, the nearest to its end first.

    ``counted`` has what is used of a limit where the heartbeat told that as well.
    """
    found = []
    for name, share in shares.items():
        if isinstance(share, int | float) and math.isfinite(share) and share >= 0:
            exact = pressure_on(name, counted[name], limits) if name in counted else None
            limit = f"of {_plain(limits[name])}" if name in limits else ""
            found.append(Pressure(label_of(name), share, exact.used if exact else limit))
    return sorted(found, key=lambda pressure: (-pressure.share, pressure.label))


def pressure_on(name: str, used: Decimal | int, limits: Mapping[str, Any]) -> Pressure | None:
    """Return what ``used`` is of a limit; None where it is not known, or no such number."""
    try:
        limit = Decimal(str(limits.get(name)))
    except InvalidOperation:
        return None
    if not limit.is_finite() or not _SMALLEST <= limit <= _LARGEST:
        return None
    sign = "$" if name == "max_cost" else ""
    words = f"{sign}{used:,.2f} of {sign}{limit:,.2f}" if sign else f"{used:,} of {limit:,}"
    return Pressure(label_of(name), float(used / limit), words)


def whole_limit(name: str, limits: Mapping[str, Any]) -> int | None:
    """Return a limit that is a count; None where it is not known."""
    value = limits.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
