from __future__ import annotations

import pytest

from guardops.guard.events import Outcome
from guardops.guard.reasons import Reason
from runs.models import Run
from runs.reasons_text import clause, headline, why


def make_run(**columns: object) -> Run:
    return Run(**{"outcome": "halted", "steps": 24, "step_unit": "tool_call", **columns})


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words_of_its_own(reason: Reason) -> None:
    words = [clause(other) for other in Reason]
    assert words.count(clause(reason)) == 1
    assert clause(reason) != clause("made_up")


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_headline(outcome: Outcome) -> None:
    assert headline(make_run(outcome=outcome)).endswith(" after 24 steps")


def test_alias_means_what_its_reason_means() -> None:
    assert clause("GraphRecursionError") == clause("max_turns")


def test_headline_says_why() -> None:
    run = make_run(halt_reason="cycle_period_2")
    assert headline(run) == "Stopped after 24 steps: two calls in turn, nothing new"


def test_headline_counts_in_the_runs_own_unit() -> None:
    assert headline(make_run(steps=1, step_unit="turn")) == "Stopped after 1 turn"
    assert headline(make_run(steps=1_200, step_unit="superstep")) == "Stopped after 1,200 supersteps"


@pytest.mark.parametrize(
    ("reason", "column", "words"),
    [
        ("repeated_call", "peak_repeats", "same call, same result, 5 times"),
        ("no_progress", "peak_stall", "nothing new in 5 steps"),
        ("step_budget", "step_cap", "its 5 steps were used up"),
        ("source_cap", "peak_domain_calls", "one source was called 5 times"),
    ],
)
def test_reason_is_told_with_its_counter(reason: str, column: str, words: str) -> None:
    assert why(make_run(halt_reason=reason, **{column: 5})) == words


def test_counter_that_was_not_reported_is_left_out() -> None:
    assert why(make_run(halt_reason="repeated_call")) == "same call, same result"
    assert why(make_run(halt_reason="step_budget")) == "its step budget was used up"


def test_run_that_no_guard_stopped_has_no_reason() -> None:
    assert why(make_run(outcome="failed")) == ""
