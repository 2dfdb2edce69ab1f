from __future__ import annotations

import pytest

from guardops.guard.events import Action
from guardops.guard.fields import PolicyError
from guardops.guard.reasons import Family, Reason, family_of
from guardops.guard.rungs import ALWAYS_HALT, first_rung, read_ladder, rung, stricter
from tests.guard.agent import Agent, said

FORCED = {*(r for r in Reason if family_of(r) is Family.BUDGET), Reason.REFUSAL_LIMIT, Reason.FRAMEWORK_LIMIT}
ESCALATED = {
    Reason.TOOL_AUTH_ERROR,
    Reason.QUOTA_EXHAUSTED,
    Reason.UNCERTAIN_WRITE,
    Reason.APPROVAL_REQUIRED,
    Reason.GUARD_ERROR,
}
HALTED = {
    Reason.LINEAGE_PING_PONG,
    Reason.FORBIDDEN_TOOL,
    Reason.BLOCKED_SOURCE,
    Reason.OPERATOR_STOP,
    Reason.REQUEUE_REFUSED,
    Reason.CANCELLED,
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_starts_on_its_rung(reason: Reason) -> None:
    expected = Action.NUDGE
    for action, reasons in (
        (Action.FORCE_ANSWER, FORCED),
        (Action.ESCALATE, ESCALATED),
        (Action.HALT, HALTED),
    ):
        if reason in reasons:
            expected = action
    assert first_rung(reason) is expected


def test_after_the_nudge_comes_the_forced_answer() -> None:
    assert rung(Reason.NO_PROGRESS, nudged=False, partial_ok=True) is Action.NUDGE
    assert rung(Reason.NO_PROGRESS, nudged=True, partial_ok=True) is Action.FORCE_ANSWER


def test_a_job_that_wants_no_partial_answer_escalates_instead() -> None:
    assert rung(Reason.STEP_BUDGET, nudged=False, partial_ok=False) is Action.ESCALATE
    assert rung(Reason.NO_PROGRESS, nudged=False, partial_ok=False) is Action.NUDGE
    assert rung(Reason.NO_PROGRESS, nudged=True, partial_ok=False) is Action.ESCALATE


def test_a_reasons_own_rung_goes_before_its_familys() -> None:
    chosen = read_ladder("ladder", {"error_streak": "halt", "progress": "escalate"})
    assert first_rung(Reason.NO_PROGRESS, chosen) is Action.ESCALATE
    assert first_rung(Reason.ERROR_STREAK, chosen) is Action.HALT
    assert first_rung(Reason.REPEATED_CALL, chosen) is Action.NUDGE


def test_an_alias_names_its_reason() -> None:
    assert read_ladder("ladder", {"recursion_limit": "escalate"}) == {Reason.MAX_TURNS: Action.ESCALATE}


def test_a_familys_rung_leaves_out_those_that_always_halt() -> None:
    chosen = read_ladder("ladder", {"source": "force_answer", "cycle": "escalate"})
    assert chosen.keys() & ALWAYS_HALT == set()
    assert first_rung(Reason.BLOCKED_SOURCE, chosen) is Action.HALT


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "ladder"),
        (None, "ladder"),
        ({"no_progres": "halt"}, "ladder.no_progres"),
        ({"other": "halt"}, "ladder.other"),
        ({"no_progress": "continue"}, "ladder.no_progress"),
        ({"no_progress": None}, "ladder.no_progress"),
        ({"no_progress": ["halt"]}, "ladder.no_progress"),
        ({"control": "escalate"}, "ladder.control"),
        ({"operator_stop": "nudge"}, "ladder.operator_stop"),
        ({"forbidden_tool": "escalate"}, "ladder.forbidden_tool"),
        ({"blocked_source": "nudge"}, "ladder.blocked_source"),
        ({"lineage_ping_pong": "force_answer"}, "ladder.lineage_ping_pong"),
        ({"budget": "nudge"}, "ladder.budget"),
        ({"step_budget": "nudge"}, "ladder.step_budget"),
        ({"refusal_limit": "nudge"}, "ladder.refusal_limit"),
    ],
)
def test_a_ladder_that_makes_no_sense_or_is_too_soft_is_refused(document: object, field: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_ladder("ladder", document)
    assert refused.value.field == field


def test_the_stricter_of_two_ladders_has_the_higher_rung_of_each_reason() -> None:
    one = read_ladder("ladder", {"no_progress": "halt"})
    other = read_ladder("ladder", {"no_progress": "escalate", "step_budget": "escalate"})
    assert stricter(one, other) == {Reason.NO_PROGRESS: Action.HALT, Reason.STEP_BUDGET: Action.ESCALATE}
    softer = read_ladder("ladder", {"tool_auth_error": "nudge"})
    assert stricter(softer, {}) == {Reason.TOOL_AUTH_ERROR: Action.ESCALATE}


def test_a_run_is_answered_from_the_rung_that_its_policy_says() -> None:
    agent = Agent(ladder={"repeated_call": "halt"})
    answers = [agent.call("search", {"q": "x"}, "r") for _ in range(4)]
    assert (answers[-1].action, said(answers[-1])) == (Action.HALT, "repeated_call")


def test_a_batch_climbs_once_for_reasons_that_start_with_a_nudge_by_choice() -> None:
    agent = Agent(ladder={"tool_auth_error": "nudge"})
    tickets = [agent.ticket("search", {"q": place}, batch=1) for place in range(3)]
    actions = [agent.run.observe(ticket, error={"status": 401}).action for ticket in tickets]
    assert actions == [Action.NUDGE, Action.CONTINUE, Action.CONTINUE]
