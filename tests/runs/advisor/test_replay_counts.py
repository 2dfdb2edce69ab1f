"""The counts and the money of a replay, against a reading of the same rows one by one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from runs.advisor.counting import Stratum, count_fates, list_fates
from runs.advisor.replay import Fate, Tally, changes_between
from tests.runs.rows import insert_rows, make_row

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
DAY = timedelta(days=1)
SMALL = st.integers(0, 12)
CAPS = st.fixed_dictionaries(
    {},
    optional={
        "max_steps": SMALL,
        "max_turns": SMALL,
        "max_seconds": st.integers(0, 12_000),
        "max_tokens": st.integers(0, 3_000),
        "max_cost": st.decimals(0, 1, places=2),
        "max_retries_run": SMALL,
        "max_repeats": SMALL,
        "max_refusals": SMALL,
        "stall_limit": SMALL,
        "max_error_streak": SMALL,
        "domain_cap": SMALL,
        "listing_cap": SMALL,
    },
)
ENDS = [
    *[("completed", "")] * 3,
    ("completed", "step_budget"),
    ("completed_forced", "step_budget"),
    ("completed_forced", "max_turns"),
    ("halted", "wall_clock"),
    ("halted", "repeated_call"),
    ("halted", "tool_retry_exhausted"),
    ("escalated", "source_cap"),
    ("unresolved", "no_progress"),
    ("failed", ""),
    ("cancelled", ""),
]
REASONS = {
    "max_steps": "step_budget",
    "max_turns": "max_turns",
    "max_seconds": "wall_clock",
    "max_tokens": "token_budget",
    "max_cost": "cost_budget",
    "max_retries_run": "tool_retry_exhausted",
    "max_repeats": "repeated_call",
    "max_refusals": "refusal_limit",
    "stall_limit": "no_progress",
    "max_error_streak": "error_streak",
    "domain_cap": "source_cap",
    "listing_cap": "listing_cap",
}
BEYOND = {"max_retries_run", "max_repeats", "domain_cap", "listing_cap"}
AT_LEAST_ONE = {"max_steps", "max_refusals", "stall_limit", "max_error_streak"}
TOTALS = {"max_steps", "max_turns", "max_seconds", "max_tokens", "max_cost"}


def random_row(rng: random.Random) -> dict[str, Any]:
    outcome, reason = rng.choice(ENDS)
    few = rng.randrange
    return make_row(
        NOW - timedelta(minutes=rng.randrange(1, 1_400)),
        outcome=outcome,
        halt_reason=reason,
        job_type=rng.choice(["research", "coding"]),
        tenant_id=rng.choice([1, 1, 2]),
        step_unit=rng.choice(["tool_call", "tool_call", "turn"]),
        steps=few(14),
        turns=few(14),
        duration_ms=few(14_000),
        tokens_input=few(2_500),
        tokens_output=few(500),
        cost=Decimal(few(1_200)) / 1_000,
        retries=few(14),
        peak_repeats=few(14),
        peak_refusals=few(14),
        peak_stall=few(14),
        peak_error_streak=few(14),
        peak_domain_calls=few(14),
        peak_listing_pages=few(14),
    )


class Rows(list[dict[str, Any]]):
    def __repr__(self) -> str:
        return f"{len(self)} rows"


@pytest.fixture
def rows(db: None) -> list[dict[str, Any]]:
    rng = random.Random(7)
    found = [random_row(rng) for _ in range(400)]
    insert_rows(found)
    return Rows(row for row in found if row["tenant_id"] == 1 and row["job_type"] == "research")


def counted(row: Mapping[str, Any], name: str) -> Any:
    match name:
        case "max_steps":
            return row["steps"] if row["step_unit"] == "tool_call" else 0
        case "max_turns":
            return row["turns"] - 1 if row["outcome"] == "completed" else row["turns"]
        case "max_seconds":
            return row["duration_ms"]
        case "max_tokens":
            return row["tokens_input"] + row["tokens_output"]
        case "max_cost":
            return row["cost"]
        case "max_retries_run":
            return row["retries"]
    peaks = {
        "max_repeats": "repeats",
        "max_refusals": "refusals",
        "stall_limit": "stall",
        "max_error_streak": "error_streak",
        "domain_cap": "domain_calls",
        "listing_cap": "listing_pages",
    }
    return row[f"peak_{peaks[name]}"]


def meets(row: Mapping[str, Any], name: str, caps: Mapping[str, Any]) -> bool:
    if name not in caps:
        return False
    count, cap = counted(row, name), caps[name]
    if name in BEYOND:
        return bool(count > cap)
    return bool(count >= cap and (count >= 1 or name not in AT_LEAST_ONE))


def stood(row: Mapping[str, Any], name: str, caps: Mapping[str, Any]) -> bool:
    """Whether a stopped run stood at the cap: of retries, the refused one isn't counted."""
    if name == "max_retries_run":
        return bool(row["retries"] >= caps[name])
    return meets(row, name, caps)


def kept(row: Mapping[str, Any], name: str, caps: Mapping[str, Any]) -> Fraction:
    """The share of the cost that a run spends under one cap."""
    count = counted(row, name)
    if name not in caps or count <= caps[name]:
        return Fraction(1)
    cap = caps[name]
    if name == "max_cost":
        return Fraction(cap) / Fraction(count)
    steps = {"max_steps": row["steps"], "max_turns": row["turns"]}.get(
        name, row["steps"] or row["turns"] or 1
    )
    done = ceil(Fraction(steps * cap, count)) if name == "max_seconds" else cap
    return Fraction(done * (done + 1), steps * (steps + 1))


def by_hand(rows: list[dict[str, Any]], before: Mapping[str, Any], after: Mapping[str, Any]) -> Tally:
    tally, money, on_false_stops = Tally(), Fraction(0), Fraction(0)
    changed = [name for name in REASONS if before.get(name) != after.get(name)]
    tighter = [
        name for name in changed if name in after and (name not in before or after[name] < before[name])
    ]
    for row in rows:
        completed = row["outcome"] == "completed"
        tally.runs += 1
        tally.completed += completed
        stopped = sooner = False
        if row["halt_reason"] and not completed:
            sooner = any(
                counted(row, name) > after[name] if name in TOTALS else meets(row, name, after)
                for name in tighter
            )
            tally.sooner += sooner
            tally.no_longer += not sooner and any(
                row["halt_reason"] == REASONS[name]
                and name in before
                and stood(row, name, before)
                and not meets(row, name, after)
                for name in changed
                if name not in tighter
            )
        else:
            stopped = any(meets(row, name, after) and not meets(row, name, before) for name in tighter)
            tally.stopped += stopped
            tally.false_stops += stopped and completed
            tally.failed += stopped and row["outcome"] in ("failed", "cancelled")
        if stopped or sooner:
            priced = [n for n in tighter if n in ("max_steps", "max_turns", "max_seconds", "max_cost")]
            saved = Fraction(row["cost"]) * (
                min([Fraction(1), *(kept(row, n, before) for n in priced)])
                - min([Fraction(1), *(kept(row, n, after) for n in priced)])
            )
            money += saved
            on_false_stops += saved if stopped and completed else 0
    tally.saved, tally.saved_on_false_stops = (
        Decimal(part.numerator) / part.denominator for part in (money, on_false_stops)
    )
    return tally


def numbers(tally: Tally) -> tuple[int, ...]:
    return (
        *(tally.runs, tally.completed, tally.stopped, tally.false_stops),
        *(tally.failed, tally.sooner, tally.no_longer),
    )


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=CAPS, after=CAPS)
def test_counts_and_money_are_those_of_the_rows(
    rows: list[dict[str, Any]], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    assume(before != after)
    stratum = Stratum((1,), ("research",), changes_between(before, after))
    found = count_fates(stratum, NOW - DAY, NOW)
    wanted = by_hand(rows, before, after)
    assert numbers(found) == numbers(wanted)
    assert abs(found.saved - wanted.saved) < Decimal("1e-8")
    assert abs(found.saved_on_false_stops - wanted.saved_on_false_stops) < Decimal("1e-8")


@pytest.fixture
def tightened(rows: list[dict[str, Any]]) -> Stratum:
    return Stratum((1,), ("research",), changes_between({"max_steps": 12}, {"max_steps": 6}))


def test_listed_are_the_completed_first_and_the_newest_of_them(tightened: Stratum) -> None:
    tally = count_fates(tightened, NOW - DAY, NOW)
    listed = list_fates(tightened, NOW - DAY, NOW, 1_000)
    assert len(listed) == tally.stopped + tally.no_longer
    first = listed[: tally.false_stops]
    assert {one.fate for one in first} == {Fate.FALSE_STOP}
    assert Fate.FALSE_STOP not in {one.fate for one in listed[tally.false_stops :]}


def test_all_but_some_job_types_are_the_others(rows: list[dict[str, Any]]) -> None:
    changes = changes_between({}, {"max_steps": 6})
    of_one = count_fates(Stratum((1,), ("research",), changes), NOW - DAY, NOW)
    others = count_fates(Stratum((1,), ("coding",), changes, all_but=True), NOW - DAY, NOW)
    assert others == of_one
    assert others.runs == len(rows)


def test_a_run_of_another_tenant_is_not_counted(rows: list[dict[str, Any]]) -> None:
    changes = changes_between({}, {"max_steps": 0})
    alone, both = (Stratum(ids, (), changes, all_but=True) for ids in ((1,), (1, 2)))
    assert count_fates(alone, NOW - DAY, NOW).runs < count_fates(both, NOW - DAY, NOW).runs == 400
    assert {listed.tenant_id for listed in list_fates(alone, NOW - DAY, NOW, 50)} == {1}
