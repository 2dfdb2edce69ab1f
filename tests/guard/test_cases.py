"""The case files of the specification, one test a case, and the runner itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from guardops.guard.cases import Result, difference, load, main, run_case
from tests.plugin import SHARED
from tests.shared import shared

FILES = ("cases/acceptance.jsonl", "cases/public.jsonl")
CASES = [case for name in FILES if (SHARED / name).exists() for case in load(SHARED / name)]


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case_meets_the_expected_verdict(case: dict[str, Any]) -> None:
    assert difference(case, run_case(case)) == ""


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case_meets_the_same_verdict_out_of_a_file(case: dict[str, Any]) -> None:
    assert difference(case, run_case(case, durable=True)) == ""


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_a_case_file_of_the_specification_passes_as_a_whole(name: str) -> None:
    assert main([str(shared(name))]) == 0


def write_case(path: Path, **changes: Any) -> Path:
    call = {"tool": "search", "args": {"q": "x"}, "result": [], "error": None, "progressed": None}
    case: dict[str, Any] = {
        "id": "own-1",
        "description": "an empty search again",
        "policy": {},
        "calls": [call, call],
        "expect": {"verdict": "tool_no_progress", "at_step": 2, "phase": "pre"},
    }
    path.write_bytes(msgspec.json.encode(case | changes))
    return path


def test_runner_counts_cases_as_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_case(tmp_path / "cases.jsonl"))]) == 0
    assert capsys.readouterr().out == "1 of 1 cases as expected\n"


def test_runner_names_what_differs_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_case(tmp_path / "cases.jsonl", expect={"verdict": "repeated_call", "at_step": 3})
    assert main([str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "own-1: verdict 'tool_no_progress' instead of 'repeated_call', at_step 2 instead of 3"
    )
    assert lines[-1] == "0 of 1 cases as expected"


def test_an_outcome_that_would_be_wrong_is_a_difference() -> None:
    case = {"expect": {"verdict": "continue", "at_step": 1, "outcome_not": "completed"}}
    call = {"tool": "a", "args": {}, "result": "r"}
    result = run_case({"policy": {}, "calls": [call]})
    assert isinstance(result, Result)
    assert difference(case, result) == "outcome 'completed'"


def test_an_unknown_pseudo_tool_is_an_error() -> None:
    with pytest.raises(ValueError, match="@sleep"):
        run_case({"policy": {}, "calls": [{"tool": "@sleep", "args": {}}]})


def test_the_turn_of_a_call_settles_the_turns_before_it() -> None:
    calls = [{"tool": "a", "args": {"i": i}, "result": f"r{i}", "turn": 1 + i // 2} for i in range(6)]
    result = run_case({"policy": {"max_turns": 2}, "calls": calls})
    assert (result.verdict, result.at_step, result.phase) == ("max_turns", 5, "pre")


def test_a_policy_that_must_not_be_run_meets_its_own_verdict() -> None:
    assert run_case({"policy": {"max_steps": None}, "calls": []}) == Result("invalid_policy", 0)


def test_a_case_that_cannot_be_run_differs_and_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write_case(tmp_path / "broken.jsonl", calls=[{"tool": "@sleep", "args": {}}])
    assert main([str(broken), str(write_case(tmp_path / "cases.jsonl"))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "own-1: ValueError: @sleep is no pseudo tool (an empty search again)",
        "1 of 2 cases as expected",
    ]


def test_a_case_may_hold_what_is_no_json(tmp_path: Path) -> None:
    path = write_case(tmp_path / "cases.jsonl", calls=[{"tool": "a", "args": {"x": "NUMBER"}}])
    path.write_text(path.read_text().replace('"NUMBER"', "NaN"))
    assert (run_case(load(path)[0]).verdict, run_case(load(path)[0]).phase) == ("tool_no_progress", "pre")
