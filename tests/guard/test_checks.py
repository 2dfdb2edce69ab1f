"""The pre-check's table and the post-check's order, row by row, through a real run."""

from __future__ import annotations

from typing import Any

import pytest

from guardops.guard.events import Action
from tests.guard.agent import Agent, allowed, said

WRITE = {"class": "write"}
ONCE = {"class": "side_effect"}


@pytest.mark.parametrize(
    "error",
    ["some text", {"status": 404}, {"status": 500}, {"code": "exit_1"}, {"status": 503, "retryable": False}],
)
def test_a_permanent_or_unknown_failure_is_refused_the_second_time(error: Any) -> None:
    assert Agent().reasons(2, "read", error=error) == ["continue", "tool_no_progress"]


def test_an_empty_result_is_refused_the_second_time() -> None:
    assert Agent().reasons(2, "read", result=[]) == ["continue", "tool_no_progress"]


def test_a_tool_may_be_asked_again_after_an_empty_result_as_often_as_it_says() -> None:
    agent = Agent(tools={"read": {"max_empty": 2}})
    assert agent.reasons(3, "read", result=[]) == ["continue", "continue", "tool_no_progress"]


def test_a_retryable_failure_is_retried_twice_each_time_later() -> None:
    agent = Agent()
    for earliest in (1, 3):
        agent.call("read", error={"status": 503})
        check = agent.check("read")
        assert (check.action, check.not_before) == (Action.WAIT, earliest)
        agent.now = earliest
    agent.call("read", error={"status": 503})
    agent.now = 100
    assert said(agent.check("read")) == "tool_retry_exhausted"


def test_a_retry_that_succeeds_gives_the_next_failure_all_retries() -> None:
    agent = Agent()
    for step in range(3):
        agent.call("read", error={"status": 503})
        agent.now += 10
        assert allowed(agent.call("read", result=f"r{step}"))


def test_retry_after_is_honoured_up_to_a_minute_and_beyond_it_exhausted() -> None:
    agent = Agent()
    agent.call("read", error={"status": 429, "retry_after": 60})
    assert agent.check("read").not_before == 60
    agent.call("other", error={"status": 429, "retry_after": 61})
    agent.now = 100
    assert said(agent.check("other")) == "tool_retry_exhausted"


def test_all_calls_share_the_runs_retry_budget() -> None:
    agent = Agent(max_retries_run=1)
    for tool in ("a", "b"):
        agent.call(tool, error={"status": 503})
    agent.now = 50
    assert allowed(agent.call("a", result="r"))
    assert said(agent.check("b")) == "tool_retry_exhausted"


def test_no_retry_is_allowed_where_the_limit_is_zero() -> None:
    agent = Agent(max_retries=0)
    agent.call("read", error={"status": 503})
    agent.now = 50
    assert said(agent.check("read")) == "tool_retry_exhausted"


@pytest.mark.parametrize("status", [409, 412, 428])
def test_a_failed_precondition_is_allowed_again_after_another_success(status: int) -> None:
    agent = Agent(tools={"save": WRITE})
    agent.call("save", error={"status": status})
    assert said(agent.check("save")) == "tool_no_progress"
    agent.call("read", result="current")
    assert allowed(agent.call("save", result="saved"))


def test_a_precondition_that_fails_again_needs_another_success_again() -> None:
    agent = Agent()
    agent.call("save", error={"status": 409})
    agent.call("read", result="one")
    agent.call("save", error={"status": 409})
    assert said(agent.check("save")) == "tool_no_progress"


def test_an_unchanged_success_is_refused_the_fourth_time() -> None:
    assert Agent().reasons(4, "read", result="same") == ["continue"] * 3 + ["repeated_call"]


def test_a_changed_result_starts_the_count_again() -> None:
    agent = Agent()
    for result in ("a", "a", "b", "b", "b"):
        assert allowed(agent.call("read", result=result))
    assert said(agent.check("read")) == "repeated_call"


def test_max_repeats_of_a_tool_and_of_zero() -> None:
    agent = Agent(tools={"read": {"max_repeats": 1}})
    assert agent.reasons(2, "read", result="r") == ["continue", "repeated_call"]
    assert Agent(max_repeats=0).reasons(1, "read", result="r") == ["repeated_call"]


def test_a_fingerprint_runs_twelve_times_at_most_even_with_changing_results() -> None:
    agent = Agent()
    for step in range(12):
        assert allowed(agent.call("read", result=f"r{step}"))
    assert said(agent.check("read")) == "repeated_call"


def test_new_evidence_does_not_lift_the_absolute_cap() -> None:
    agent = Agent(stall_limit=50)
    for step in range(12):
        agent.run.state_changed(step)
        assert allowed(agent.call("read", result=[]))
    agent.run.state_changed(99)
    assert said(agent.check("read")) == "repeated_call"


def test_a_side_effect_happens_once_even_with_new_evidence() -> None:
    agent = Agent(tools={"pay": ONCE})
    assert allowed(agent.call("pay", {"to": "a"}, None))
    agent.run.state_changed()
    assert said(agent.check("pay", {"to": "a"})) == "duplicate_side_effect"
    assert allowed(agent.call("pay", {"to": "b"}, "paid"))


def test_an_idempotent_side_effect_is_retried_until_it_is_done_and_then_never_again() -> None:
    agent = Agent(tools={"put": ONCE | {"idempotent": True}})
    agent.call("put", error={"class": "timeout"})
    agent.now = 5
    assert agent.reasons(2, "put", result="ok") == ["continue", "duplicate_side_effect"]


def test_a_side_effect_that_failed_for_a_while_may_be_retried() -> None:
    agent = Agent(tools={"pay": ONCE})
    agent.call("pay", error={"status": 503})
    agent.now = 5
    assert allowed(agent.call("pay", result="paid"))
    assert said(agent.check("pay")) == "duplicate_side_effect"


@pytest.mark.parametrize(
    "error", [{"class": "timeout"}, {"status": 504}, TimeoutError(), ConnectionResetError()]
)
@pytest.mark.parametrize("tool_class", ["write", "side_effect"])
def test_a_write_that_timed_out_is_refused_until_reconciled(error: Any, tool_class: str) -> None:
    agent = Agent(tools={"save": {"class": tool_class}})
    agent.call("save", error=error)
    agent.now = 50
    assert said(agent.check("save")) == "uncertain_write"
    other = Agent(tools={"save": {"class": tool_class}})
    other.call("save", error=error)
    other.run.reconcile("save", {}, happened=False)
    assert allowed(other.call("save", result="saved"))


def test_a_write_found_to_have_happened_counts_as_done() -> None:
    agent = Agent(tools={"pay": ONCE})
    agent.call("pay", error={"class": "timeout"})
    agent.run.reconcile("pay", {}, happened=True)
    assert said(agent.check("pay")) == "duplicate_side_effect"


def test_a_read_or_an_idempotent_write_that_timed_out_is_retried() -> None:
    agent = Agent(tools={"put": WRITE | {"idempotent": True}})
    for tool in ("read", "put"):
        agent.call(tool, error={"class": "timeout"})
        agent.now += 5
        assert allowed(agent.call(tool, result=tool))


def test_a_call_in_flight_is_refused_and_a_read_names_its_leader() -> None:
    agent = Agent(tools={"save": WRITE})
    read, save = agent.ticket("read"), agent.ticket("save")
    second = agent.check("read")
    assert (said(second), second.leader) == ("duplicate_in_flight", read.number)
    assert agent.check("save").leader is None
    agent.run.observe(read, result="r")
    agent.run.observe(save, result="s")


@pytest.mark.parametrize(
    ("error", "reason"), [({"status": 401}, "tool_auth_error"), ({"status": 402}, "quota_exhausted")]
)
def test_auth_and_quota_end_the_run_at_once(error: Any, reason: str) -> None:
    answer = Agent().call("read", error=error)
    assert (answer.action, said(answer)) == (Action.ESCALATE, reason)


def test_auth_comes_before_a_budget_that_is_used_up_with_the_same_call() -> None:
    assert said(Agent(max_steps=1).call("read", error={"status": 401})) == "tool_auth_error"


def test_new_evidence_makes_an_equal_call_legitimate_and_a_known_version_does_not() -> None:
    agent = Agent()
    agent.run.state_changed(7)
    agent.call("read", result=[])
    agent.run.state_changed(7)
    assert said(agent.check("read")) == "tool_no_progress"
    agent.run.state_changed(8)
    assert allowed(agent.call("read", result=["r"]))


def test_new_evidence_refreshes_no_back_off() -> None:
    agent = Agent()
    agent.call("read", error={"status": 429, "retry_after": 30})
    agent.run.state_changed()
    assert agent.check("read").not_before == 30


def test_a_successful_write_refreshes_reads_and_never_writes() -> None:
    agent = Agent(tools={"save": WRITE, "edit": WRITE})
    agent.call("read", error={"status": 404})
    agent.call("edit", error={"status": 404})
    assert allowed(agent.call("save", result="saved"))
    assert allowed(agent.call("read", result="there"))
    assert said(agent.check("edit")) == "tool_no_progress"
    again = Agent(tools={"save": WRITE})
    assert again.reasons(4, "save", result="saved") == ["continue"] * 3 + ["repeated_call"]


def test_a_failed_write_refreshes_nothing() -> None:
    agent = Agent(tools={"save": WRITE})
    agent.call("read", error={"status": 404})
    agent.call("save", error={"status": 422})
    assert said(agent.check("read")) == "tool_no_progress"


def test_a_forbidden_tool_halts() -> None:
    answer = Agent(tools={"rm": {"forbidden": True}}).call("rm")
    assert (answer.action, said(answer)) == (Action.HALT, "forbidden_tool")


def test_a_tool_that_is_not_listed_is_forbidden_under_an_allow_list() -> None:
    agent = Agent(allow_list=True, tools={"read": {}})
    assert allowed(agent.call("read", result="r"))
    assert said(agent.check("rm")) == "forbidden_tool"


def test_an_approval_is_for_one_use_of_exactly_one_call() -> None:
    tools = {"save": WRITE | {"approval": True}}
    assert said(Agent(tools=tools).check("save", {"x": 1})) == "approval_required"
    agent = Agent(tools=tools)
    agent.run.approve("save", {"x": 1})
    assert allowed(agent.call("save", {"x": 1}, "saved"))
    assert said(agent.check("save", {"x": 1})) == "approval_required"


def test_an_approval_of_other_arguments_does_not_count() -> None:
    agent = Agent(tools={"save": WRITE | {"approval": True}})
    agent.run.approve("save", {"x": 1})
    assert said(agent.check("save", {"x": 2})) == "approval_required"


def test_steps_are_counted_when_they_start() -> None:
    agent = Agent(max_steps=2)
    first, second = agent.ticket("a"), agent.ticket("b")
    assert said(agent.check("c")) == "step_budget"
    agent.run.observe(first, result=1)
    agent.run.observe(second, result=2)
    assert agent.run.end().steps == 2


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("max_steps", "step_budget"),
        ("max_seconds", "wall_clock"),
        ("max_cost", "cost_budget"),
        ("max_tokens", "token_budget"),
        ("max_turns", "max_turns"),
    ],
)
def test_a_limit_of_zero_allows_no_call(limit: str, reason: str) -> None:
    assert said(Agent(**{limit: 0}).check("read")) == reason


def test_time_is_checked_before_and_after_a_call() -> None:
    before, after = Agent(max_seconds=10), Agent(max_seconds=10)
    before.now = 10
    assert said(before.check("read")) == "wall_clock"
    ticket = after.ticket("read")
    after.now = 11
    assert said(after.run.observe(ticket, result="late")) == "wall_clock"


def test_hard_budgets_come_before_the_counters() -> None:
    agent = Agent(max_steps=6)
    answers = [said(agent.call("read", {"i": i}, error={"status": 404}, progressed=False)) for i in range(4)]
    assert answers == ["continue"] * 4
    both = Agent(max_steps=5)
    assert [said(both.call("read", {"i": i}, error={"status": 404})) for i in range(5)][-1] == "step_budget"


def test_a_cycle_comes_before_the_stall_counter() -> None:
    agent = Agent(stall_limit=6)
    answers = [said(agent.call("ab"[i % 2], {}, "same", progressed=False)) for i in range(6)]
    assert answers[-1] == "cycle_period_2"


def test_a_cycle_with_changing_results_or_reported_progress_is_none() -> None:
    changing = Agent()
    assert all(allowed(changing.call("ab"[i % 2], {}, f"r{i}")) for i in range(12))
    progressing = Agent(max_repeats=50)
    assert all(allowed(progressing.call("ab"[i % 2], {}, "same", progressed=i % 3 == 0)) for i in range(12))


@pytest.mark.parametrize("status", [404, 500, 409])
def test_five_distinct_calls_with_one_class_of_error_are_a_streak(status: int) -> None:
    agent = Agent()
    answers = [said(agent.call("read", {"i": i}, error={"status": status})) for i in range(5)]
    assert answers == ["continue"] * 4 + ["error_streak"]


def test_empty_results_are_a_class_of_error_for_reads_only() -> None:
    reads, writes = Agent(), Agent(tools={"save": WRITE})
    assert [said(reads.call("read", {"i": i}, [])) for i in range(5)][-1] == "error_streak"
    assert all(allowed(writes.call("save", {"i": i}, None)) for i in range(8))


@pytest.mark.parametrize(
    "error", [{"status": 503}, {"status": 429}, {"class": "timeout"}, {"class": "reset"}]
)
def test_retryable_classes_feed_neither_the_streak_nor_unasked_the_stall_counter(error: Any) -> None:
    agent = Agent()
    assert all(allowed(agent.call("read", {"i": i}, error=error)) for i in range(8))


def test_a_success_or_reported_progress_ends_a_streak() -> None:
    succeeded, progressed = Agent(), Agent()
    for i in range(9):
        assert allowed(
            succeeded.call("read", {"i": i}, error=None if i == 4 else {"status": 404}, result=f"r{i}")
        )
        assert allowed(progressed.call("read", {"i": i}, error={"status": 404}, progressed=i == 4))


def test_reported_progress_resets_the_stall_counter_whatever_the_result() -> None:
    agent = Agent(max_error_streak=50)
    for i in range(20):
        assert allowed(agent.call("read", {"i": i}, error={"status": 404}, progressed=i % 5 == 4))


def test_unknown_progress_falls_back_to_novelty() -> None:
    agent = Agent()
    assert all(allowed(agent.call("read", {"i": i}, f"r{i}")) for i in range(12))
    assert [said(agent.call("read", {"j": i}, "r0")) for i in range(6)] == ["continue"] * 5 + ["no_progress"]


def test_novelty_proves_nothing_for_an_external_tool() -> None:
    agent = Agent(tools={"fetch": {"external": True}})
    assert [said(agent.call("fetch", {"i": i}, f"r{i}")) for i in range(6)] == ["continue"] * 5 + [
        "no_progress"
    ]
    good = Agent(tools={"fetch": {"external": True}})
    assert all(allowed(good.call("fetch", {"i": i}, f"r{i}", progressed=True)) for i in range(12))


def test_a_write_done_for_the_first_time_is_news_though_it_answers_like_the_last() -> None:
    agent = Agent(tools={"send": ONCE})
    assert all(allowed(agent.call("send", {"to": i}, "ok")) for i in range(12))


def test_a_refusal_resets_no_counter_and_feeds_none() -> None:
    agent = Agent()
    for i in range(5):
        agent.call("read", {"i": i}, f"r{i}", progressed=False)
    agent.call("gone", error={"status": 429, "retry_after": 61})
    assert said(agent.check("gone")) == "tool_retry_exhausted"
    assert agent.run.state.stall.count == 5
    assert said(agent.call("read", {"i": 9}, "r9", progressed=False)) == "no_progress"


def test_spawning_and_delegating_leave_stall_and_novelty_alone() -> None:
    agent = Agent(tools={"spawn": {"kind": "spawn"}, "ask": {"kind": "delegate"}})
    for i in range(5):
        agent.call("read", {"i": i}, f"r{i}", progressed=False)
    for i in range(6):
        assert allowed(agent.call(("spawn", "ask")[i % 2], {"i": i}, "started"))
    assert said(agent.call("read", {"i": 9}, "started")) == "continue"
    assert said(agent.call("read", {"i": 10}, "started")) == "continue"


def test_descendants_hops_and_children_are_budgets() -> None:
    tools = {"spawn": {"kind": "spawn"}}
    agent = Agent(tools=tools, descendants=2)
    assert [said(agent.call("spawn", {"i": i}, "started")) for i in range(3)][-1] == "descendants_budget"
    deep = Agent(tools=tools)
    assert said(deep.check("spawn", depth=3)) == "continue"
    assert said(deep.check("spawn", {"i": 2}, depth=4)) == "hop_budget"
    wide = Agent(tools=tools)
    assert [said(wide.check("spawn", {"i": i})) for i in range(9)] == ["continue"] * 8 + ["children_budget"]


def test_a_child_that_came_back_makes_room_for_another() -> None:
    agent = Agent(tools={"spawn": {"kind": "spawn"}}, children=1)
    assert all(allowed(agent.call("spawn", {"i": i}, "done")) for i in range(3))


def test_hand_overs_of_an_unchanged_package_back_and_forth_are_ping_pong() -> None:
    agent = Agent(tools={"hand": {"kind": "delegate"}})
    answers = [agent.call("hand", {"to": "AB"[i % 2], "package": "p"}, "ok") for i in range(4)]
    assert [said(answer) for answer in answers] == ["continue"] * 3 + ["lineage_ping_pong"]
    assert answers[-1].action is Action.HALT
    changed = Agent(tools={"hand": {"kind": "delegate"}})
    assert all(allowed(changed.call("hand", {"to": "AB"[i % 2], "package": i}, "ok")) for i in range(6))


def test_arguments_without_a_canonical_form_are_refused_with_the_place() -> None:
    check = Agent().check("read", {"limit": float("nan")})
    assert (check.ticket, said(check)) == (None, "tool_no_progress")
    assert check.message == "limit: holds a number that is not finite"


def test_hand_overs_that_return_nothing_are_no_empty_results() -> None:
    agent = Agent(tools={"hand": {"kind": "delegate"}})
    answers = [said(agent.call("hand", {"to": "AB"[i % 2]}, None)) for i in range(4)]
    assert answers == ["continue"] * 3 + ["lineage_ping_pong"]


def test_spawned_siblings_are_no_chain() -> None:
    agent = Agent(tools={"spawn": {"kind": "spawn"}})
    assert all(allowed(agent.call("spawn", {"task": "AB"[i % 2]}, "started")) for i in range(4))


def test_an_empty_result_is_judged_by_its_own_allowance_alone() -> None:
    agent = Agent(tools={"find": {"max_empty": 5}})
    assert agent.reasons(6, "find", result=[]) == ["continue"] * 5 + ["tool_no_progress"]


def test_a_failure_in_between_makes_no_unchanged_result_a_new_one() -> None:
    agent = Agent()
    assert agent.reasons(2, "read", result="same") == ["continue"] * 2
    agent.call("read", error={"status": 503})
    agent.now = 5
    assert agent.reasons(2, "read", result="same") == ["continue", "repeated_call"]
