from __future__ import annotations

import pytest

from guardops.guard.events import Action, Outcome
from guardops.guard.ladder import always_enforced, message
from guardops.guard.reasons import Family, Reason, family_of
from tests.guard.agent import Agent, guard, said


def test_budgets_and_peoples_orders_are_enforced_in_every_mode() -> None:
    enforced = {reason for reason in Reason if always_enforced(reason)}
    orders = {Reason.OPERATOR_STOP, Reason.CANCELLED, Reason.REQUEUE_REFUSED}
    assert enforced == {reason for reason in Reason if family_of(reason) is Family.BUDGET} | orders


@pytest.mark.parametrize("reason", Reason)
def test_every_message_is_complete(reason: Reason) -> None:
    text = message(reason, "search", 3, "a.example")
    assert text
    assert "{" not in text


def test_a_nudge_names_the_pattern() -> None:
    agent = Agent()
    for _ in range(3):
        agent.call("search", {"q": "x"}, "r")
    assert agent.check("search", {"q": "x"}).message.startswith(
        "search was called 3 times with the same arguments"
    )


def unproductive(agent: Agent, count: int) -> list[Action]:
    return [
        agent.call("f", {"i": agent.run.counts.tool_calls}, "r", progressed=False).action
        for _ in range(count)
    ]


def test_a_nudge_resets_no_counter_so_the_next_step_forces_the_answer() -> None:
    actions = unproductive(Agent(), 7)
    assert actions == [Action.CONTINUE] * 5 + [Action.NUDGE, Action.FORCE_ANSWER]


def test_a_tool_call_inside_the_forced_turn_halts() -> None:
    agent = Agent()
    unproductive(agent, 7)
    check = agent.check("g")
    assert (check.action, said(check), check.ticket) == (Action.HALT, "no_progress", None)
    assert agent.run.end().outcome is Outcome.HALTED


def test_a_forced_answer_takes_one_turn_beside_the_one_under_way() -> None:
    agent = Agent()
    unproductive(agent, 7)
    assert [agent.run.turn().action for _ in range(3)] == [
        Action.FORCE_ANSWER,
        Action.FORCE_ANSWER,
        Action.HALT,
    ]


def test_a_forced_answer_can_always_be_paid_for() -> None:
    agent = Agent(max_cost="0.10", max_tokens=100)
    assert said(agent.run.turn(80, 20, "0.10")) == "cost_budget"
    assert agent.run.reserve_turn(tokens=500, cost="5").action is Action.FORCE_ANSWER
    assert agent.run.turn(80, 20, "0.05").action is Action.FORCE_ANSWER
    ended = agent.run.end()
    assert (ended.outcome, str(ended.cost)) == (Outcome.COMPLETED_FORCED, "0.15")


def test_a_root_is_nudged_once_whichever_run_it_was() -> None:
    guarded = guard()
    first, second = (guarded.run(job_type="t", root_task_id="root", clock=lambda: 0.0) for _ in range(2))
    actions = []
    for run in (first, second):
        for i in range(6):
            ticket = run.check("f", {"i": i}).ticket
            assert ticket is not None
            verdict = run.observe(ticket, result="r", progressed=False)
        actions.append(verdict.action)
    assert actions == [Action.NUDGE, Action.FORCE_ANSWER]


def test_after_a_halt_every_call_of_the_root_is_refused_with_its_reason() -> None:
    guarded = guard(tools={"rm": {"forbidden": True}})
    first, second = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    assert first.check("rm", {}).action is Action.HALT
    check = second.check("read", {})
    assert (check.action, said(check), check.ticket) == (Action.HALT, "forbidden_tool", None)


def test_an_escalated_run_makes_no_further_call_but_its_root_goes_on() -> None:
    guarded = guard()
    first, second = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    ticket = first.check("read", {}).ticket
    assert ticket is not None
    assert first.observe(ticket, error={"status": 401}).action is Action.ESCALATE
    assert first.check("other", {}).action is Action.ESCALATE
    assert second.check("other", {}).action is Action.CONTINUE


def test_what_failed_is_blocked_again_and_again_before_the_run_is_stopped() -> None:
    agent = Agent()
    agent.call("read", error={"status": 404})
    answers = [agent.check("read") for _ in range(3)]
    assert [(answer.action, said(answer)) for answer in answers] == [
        (Action.NUDGE, "tool_no_progress"),
        (Action.REFUSE, "tool_no_progress"),
        (Action.FORCE_ANSWER, "refusal_limit"),
    ]
    ended = agent.run.end()
    assert (ended.halt_reason, ended.first_reason, ended.refusals) == ("refusal_limit", "tool_no_progress", 3)


def test_a_call_refused_for_repetition_a_second_time_forces_the_answer() -> None:
    agent = Agent()
    agent.call("gone", error={"status": 404})
    agent.check("gone")
    assert agent.reasons(3, "read", result="r") == ["continue"] * 3
    assert agent.check("read").action is Action.REFUSE
    other = Agent()
    other.reasons(3, "read", result="r")
    assert [other.check("read").action for _ in range(2)] == [Action.NUDGE, Action.FORCE_ANSWER]


def test_the_refusal_limit_of_the_policy_ends_the_run() -> None:
    agent = Agent(max_refusals=1)
    agent.call("read", error={"status": 404})
    assert agent.check("read").action is Action.FORCE_ANSWER
    assert agent.run.end().halt_reason == "refusal_limit"


def test_a_limit_that_the_framework_met_forces_the_answer() -> None:
    agent = Agent()
    assert agent.run.report(Reason.FRAMEWORK_LIMIT).action is Action.FORCE_ANSWER
