from __future__ import annotations

from guardops.guard.events import Action, Outcome
from tests.guard.agent import Agent, allowed, guard, said


def test_turns_that_overlap_are_settled_in_their_order() -> None:
    agent = Agent()
    agent.run.reserve_turn(tokens=100, cost="0.10")
    agent.run.reserve_turn(tokens=200, cost="0.20")
    agent.run.turn(30, 10, "0.05")
    budgets = agent.run.state.budgets
    assert (budgets.tokens.settled, budgets.tokens.reserved) == (40, 200)
    agent.run.turn(usage_known=False)
    assert (budgets.tokens.settled, budgets.tokens.reserved) == (240, 0)
    assert (budgets.cost.settled, budgets.cost.reserved) == (250_000, 0)
    assert (budgets.turns.settled, budgets.turns.reserved) == (2, 0)


def test_a_turn_that_nobody_settled_is_charged_in_full_at_the_end() -> None:
    agent = Agent()
    agent.run.reserve_turn(tokens=100, cost="0.10")
    ended = agent.run.end(Outcome.FAILED)
    assert (ended.turns, str(ended.cost)) == (1, "0.1")
    assert agent.run.state.budgets.cost.settled == 100_000


def test_two_runs_of_a_root_cannot_both_take_its_last_turn() -> None:
    guarded = guard(max_turns=1)
    first, second = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    assert allowed(first.reserve_turn())
    assert said(second.reserve_turn()) == "max_turns"


def test_a_turn_that_is_not_made_leaves_nothing_reserved() -> None:
    agent = Agent(max_tokens=10)
    assert said(agent.run.reserve_turn(tokens=11)) == "token_budget"
    assert agent.run.state.budgets.turns.reserved == 0


def test_a_halt_by_another_run_of_the_root_ends_the_turns_too() -> None:
    guarded = guard()
    first, second = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    first.stop()
    for verdict in (second.reserve_turn(), second.turn(1, 1)):
        assert (verdict.action, said(verdict)) == (Action.HALT, "operator_stop")
    assert second.end(Outcome.COMPLETED).outcome is Outcome.HALTED
