from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from guardops.guard.events import Action, Intervention, Step, StepOutcome
from runs.ingest.rows import Detail
from runs.models import Run
from runs.pages.limits import limits_in_force
from runs.pages.story import GuardLine, StepLine, loop_letters, read_detail, timeline


def steps(calls: str, **fields: Any) -> list[Step]:
    """Return a step a letter; the same letter is the same call with the same result."""
    return [
        Step(step=number, tool=call, args_hash=call, result_digest=call, **fields)
        for number, call in enumerate(calls, start=1)
    ]


@pytest.mark.parametrize(
    ("calls", "reason", "letters"),
    [
        ("xyabab", "cycle_period_2", "  ABAB"),
        ("xybabab", "cycle_period_2", "  ABABA"),
        ("abcabc", "cycle_period_3", "ABCABC"),
        ("xabcdabcd", "cycle_period_4", " ABCDABCD"),
        ("xyaaa", "repeated_call", "  AAA"),
        ("aabc", "repeated_call", "    "),
        ("abax", "cycle_period_2", "    "),
        ("ab", "cycle_period_3", "  "),
        ("", "cycle_period_2", ""),
        ("aaaa", "step_budget", "    "),
        ("aaaa", "", "    "),
    ],
)
def test_steps_of_the_loop_get_letters(calls: str, reason: str, letters: str) -> None:
    assert "".join(letter or " " for letter in loop_letters(steps(calls), reason)) == letters


def test_interventions_stand_at_their_steps() -> None:
    detail = Detail(
        last_steps=steps("abcd")[2:],
        interventions=[
            Intervention(step=4, action=Action.HALT, reason="no_progress"),
            Intervention(step=1, action=Action.NUDGE, reason="repeated_call"),
            Intervention(step=3, action=Action.WAIT),
        ],
    )
    lines = timeline(detail, "no_progress")
    assert [(line.step, line.action if isinstance(line, GuardLine) else line.tool) for line in lines] == [
        (1, "nudge"),
        (3, "c"),
        (3, "wait"),
        (4, "d"),
        (4, "halt"),
    ]


@pytest.mark.parametrize("action", Action)
def test_every_action_has_words(action: Action) -> None:
    (line,) = timeline(Detail(interventions=[Intervention(step=1, action=action)]), "")
    assert isinstance(line, GuardLine)
    assert line.said.startswith("Guard ")


def test_refused_step_says_why_in_its_own_line() -> None:
    detail = Detail(
        last_steps=steps("a", outcome=StepOutcome.REFUSED),
        interventions=[
            Intervention(step=1, action=Action.REFUSE, reason="tool_no_progress"),
            Intervention(step=1, action=Action.HALT, reason="refusal_limit"),
        ],
    )
    refused, halt = timeline(detail, "refusal_limit")
    assert isinstance(refused, StepLine)
    assert refused.said == "refused before it ran: a call that could not succeed was made again"
    assert isinstance(halt, GuardLine)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"progressed": True}, "progress"),
        ({"progressed": False}, "nothing new"),
        ({}, ""),
        ({"outcome": StepOutcome.EMPTY}, "empty"),
        (
            {"outcome": StepOutcome.ERROR, "error_code": "429", "error_class": "retryable"},
            "error 429 retryable",
        ),
        ({"outcome": StepOutcome.REFUSED}, "refused before it ran"),
    ],
)
def test_step_says_how_it_ended(fields: dict[str, Any], said: str) -> None:
    (line,) = timeline(Detail(last_steps=steps("a", **fields)), "")
    assert isinstance(line, StepLine)
    assert line.said == said


def test_same_call_with_the_same_result_is_unchanged() -> None:
    lines = timeline(Detail(last_steps=steps("aba", progressed=True)), "")
    assert [line.said for line in lines] == ["progress", "progress", "unchanged"]


def test_limit_that_stopped_the_run_comes_first_with_what_was_used() -> None:
    run = Run(halt_reason="no_progress", steps=12, peak_stall=6, duration_ms=61_500, cost=Decimal("0.5"))
    detail = Detail(
        limits={"max_steps": 40, "window": 12, "stall_limit": 6, "max_seconds": 900.0, "mine": [1]}
    )
    limits = limits_in_force(run, detail)
    assert [(limit.label, limit.used, limit.value, limit.hit) for limit in limits] == [
        ("Steps without progress", "6", "6", True),
        ("Steps", "12", "40", False),
        ("Seconds", "62", "900", False),
        ("Calls watched for cycles", "", "12", False),
        ("mine", "", "[1]", False),
    ]


def test_part_that_cannot_be_read_costs_only_itself() -> None:
    detail, unreadable = read_detail(
        {"ledger": "lost", "limits": {"max_steps": 4}, "sources": [{"kind": "tool", "name": "search"}]}
    )
    assert unreadable == ["ledger"]
    assert detail.ledger == []
    assert detail.limits == {"max_steps": 4}
    assert detail.sources[0].name == "search"
