"""A run that the real guard stopped, exported and run again, meets the same verdict at the same step."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from guardops.guard import cases
from guardops.guard.events import Action, Mode, RunEnded, Step, StepOutcome
from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from runs.models import Run
from runs.pages.story import read_detail
from runs.review.case import case_line, case_of
from tests.factories import NOW, make_run_event
from tests.runs.rows import make_row


def guarded(calls: Iterable[dict[str, Any]], **policy: Any) -> RunEnded:
    """Drive the real guard through calls, one a second, until it says something else than ``continue``."""
    run = Guard(Policy.from_mapping(policy), jitter=lambda: 0.0).run(
        job_type="research", started_at=NOW, clock=lambda: 0.0
    )
    for second, call in enumerate(calls):
        checked = run.check(call["tool"], call.get("args", {}), at=float(second))
        if checked.ticket is None:
            break
        seen = run.observe(
            checked.ticket,
            result=call.get("result"),
            error=call.get("error"),
            progressed=call.get("progressed"),
            at=float(second),
        )
        if seen.action is not Action.CONTINUE:
            break
    return run.end(at=60.0)


def exported(event: RunEnded) -> dict[str, Any]:
    """Return the case of the event's row, as the page writes it to a file."""
    columns = {
        "run_id": event.run_id,
        "outcome": event.outcome,
        "halt_reason": event.halt_reason or "",
        "would_halt": event.would_halt.reason if event.would_halt else "",
        "mode": event.policy.mode,
        "steps": event.steps,
        "tool_calls": event.tool_calls,
        "started_at": event.started_at,
    }
    names = {field.name for field in Run._meta.get_fields()}
    row = {name: value for name, value in make_row(NOW, **columns).items() if name in names}
    detail, unreadable = read_detail(json.loads(msgspec.json.encode(event)))
    assert unreadable == []
    case: dict[str, Any] = json.loads(case_line(case_of(Run(**row), detail, source="acme/run")))
    return case


def search(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "tool": "search",
        "args": {"q": text},
        "result": f"hits for {text}",
        "progressed": False,
        **fields,
    }


FAILED = {"class": "permanent", "code": "no_match"}
STOPPED = {
    "repeated_call": [search("x")] * 6,
    "cycle_period_2": [search("a"), search("b")] * 6,
    "no_progress": [search(f"q{number}") for number in range(12)],
    "tool_no_progress": [search("x", result=None, error=FAILED)] * 3,
    "error_streak": [search(f"q{number}", result=None, error=FAILED) for number in range(8)],
    "tool_retry_exhausted": [search("x", result=None, error={"status": 503, "retry_after": 0})] * 6,
    "source_cap": [
        {
            "tool": "fetch",
            "args": {"url": f"https://shop.example/{n}"},
            "result": f"page {n}",
            "progressed": True,
        }
        for n in range(5)
    ],
    "step_budget": [search(f"q{number}", progressed=True) for number in range(9)],
}
LIMITS: dict[str, dict[str, Any]] = {
    "source_cap": {"domain_cap": 3},
    "step_budget": {"max_steps": 7},
    "tool_retry_exhausted": {"backoff": 0},
}


@pytest.mark.parametrize("reason", STOPPED)
def test_a_stop_meets_the_same_verdict_at_the_same_step(reason: str) -> None:
    event = guarded(STOPPED[reason], **LIMITS.get(reason, {}))
    case = exported(event)
    assert "partial" not in case, case.get("partial_why")
    result = cases.run_case(case)
    assert (result.verdict, result.at_step) == (reason, event.tool_calls)
    assert cases.difference(case, result) == ""


def test_a_run_that_nothing_stopped_goes_on_to_its_end() -> None:
    case = exported(guarded([search(f"q{number}", progressed=True) for number in range(5)]))
    assert case["expect"] == {"verdict": "continue", "at_step": 5}
    assert "partial" not in case


def test_shadow_mode_is_judged_as_if_it_were_enforced() -> None:
    event = guarded(STOPPED["no_progress"], mode="shadow")
    assert event.policy.mode is Mode.SHADOW
    case = exported(event)
    assert "partial" not in case, case.get("partial_why")
    assert case["expect"]["verdict"] == "no_progress"
    assert case["expect"]["at_step"] < len(case["calls"])


def test_calls_that_redaction_made_alike_stay_apart() -> None:
    long = "x" * 2_000
    case = exported(
        guarded([search("", args={"q": f"{long}{number}"}, progressed=True) for number in range(6)])
    )
    assert "partial" not in case, case.get("partial_why")
    assert len({json.dumps(call["args"]) for call in case["calls"]}) == 6
    assert long not in json.dumps(case["calls"])


def test_more_calls_than_are_kept_make_it_partial() -> None:
    case = exported(guarded([search(f"q{number}", progressed=True) for number in range(34)]))
    assert case["partial"] is True
    assert case["partial_why"] == ["The run made 34 calls, of which the last 20 are kept."]


def test_a_verdict_that_steps_do_not_tell_makes_it_partial() -> None:
    event = make_run_event(
        halt_reason="max_turns",
        steps=1,
        tool_calls=1,
        last_steps=[Step(step=1, tool="search", args="{}", result_digest="d")],
        limits={"max_turns": 40},
    )
    (why,) = exported(event)["partial_why"]
    assert why.startswith("The steps alone do not lead to this verdict: verdict 'continue'")


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": {"max_steps": -1}},
        {"limits": {"max_cost": "a lot", "window": None}},
        {"last_steps": [Step(step=1, tool="@restart", args="[1")]},
        {"last_steps": [Step(step=1, tool="@none", args='{"a":' + "[" * 2_000, at=NOW - timedelta(days=9))]},
        {"last_steps": [Step(step=3, tool="x", outcome=StepOutcome.ERROR, error_class="\u202e<b>")]},
    ],
)
def test_nonsense_from_a_guard_is_a_partial_case(fields: dict[str, Any]) -> None:
    case = exported(make_run_event(**{"tool_calls": 1, "halt_reason": "<b>", **fields}))
    assert case["partial"] is True


def test_the_runner_takes_an_exported_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = exported(guarded(STOPPED["no_progress"]))
    part = exported(guarded([search(f"q{number}", progressed=True) for number in range(34)]))
    path = tmp_path / "cases.jsonl"
    path.write_text(case_line(whole) + case_line(part))
    assert cases.main([str(path)]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 cases as expected" in said
    assert f"partial, not judged: {part['id']}" in said
