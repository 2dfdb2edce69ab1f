from __future__ import annotations

from datetime import UTC, datetime
from threading import Thread
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardops.guard import checks, observation
from guardops.guard.events import Action, Answer, Mode, Outcome, RunEnded
from guardops.guard.ids import uuid7_ms
from guardops.guard.policy import Policy, PolicyError
from guardops.guard.reasons import Reason
from guardops.guard.session import Guard, TicketError
from tests.guard.agent import STARTED_AT, Agent, allowed, guard, said

STOPS = frozenset({Action.FORCE_ANSWER, Action.ESCALATE, Action.HALT})
RUN_ID = UUID("01958c1e-0000-7000-8000-000000000001")


def test_a_ticket_is_good_for_one_result() -> None:
    agent = Agent()
    ticket = agent.ticket("read")
    agent.run.observe(ticket, result="r")
    with pytest.raises(TicketError):
        agent.run.observe(ticket, result="r")
    with pytest.raises(TicketError):
        Agent().run.observe(agent.ticket("read"), result="r")


def test_a_write_carries_a_key_that_equal_writes_of_the_root_share() -> None:
    guarded = guard(tools={"save": {"class": "write"}})
    keys = []
    for root, args in (("r1", {"x": 1}), ("r1", {"x": 1}), ("r1", {"x": 2}), ("r2", {"x": 1})):
        run = guarded.run(job_type="t", root_task_id=root)
        ticket = run.check("save", args).ticket
        assert ticket is not None
        run.observe(ticket, result="saved")
        keys.append(ticket.idempotency_key)
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    read = guarded.run(job_type="t").check("read", {}).ticket
    assert read is not None
    assert read.idempotency_key == ""


def test_runs_of_one_root_share_its_budgets_and_its_side_effects() -> None:
    guarded = guard(max_steps=3, tools={"pay": {"class": "side_effect"}})
    parent, child = (guarded.run(job_type="t", root_task_id="root", clock=lambda: 0.0) for _ in range(2))
    for run, tool in ((parent, "pay"), (child, "read")):
        ticket = run.check(tool, {}).ticket
        assert ticket is not None
        run.observe(ticket, result="r")
    assert said(child.check("pay", {})) == "duplicate_side_effect"
    last = parent.check("other", {}).ticket
    assert last is not None
    assert said(parent.observe(last, result="o")) == "step_budget"
    assert said(child.check("more", {})) == "step_budget"


def test_equal_names_of_two_tenants_are_two_roots() -> None:
    guarded = guard()
    one, other = (guarded.run(job_type="t", root_task_id="daily", tenant=name) for name in ("a", "b"))
    one.stop()
    assert allowed(other.check("read", {}))
    assert one.who.root_task_id == other.who.root_task_id == "daily"
    assert not allowed(guarded.run(job_type="t", root_task_id="daily", tenant="a").check("read", {}))


def test_a_stopped_run_id_starts_again_only_with_a_grant() -> None:
    guarded = guard(tools={"rm": {"forbidden": True}})
    guarded.run(job_type="t", run_id=RUN_ID).check("rm", {})
    again = guarded.run(job_type="t", run_id=RUN_ID)
    check = again.check("read", {})
    assert (check.action, check.ticket) == (Action.HALT, None)
    assert again.end(Outcome.COMPLETED).halt_reason == "requeue_refused"
    granted = guarded.run(job_type="t", run_id=RUN_ID, resumed=True)
    assert allowed(granted.check("read", {}))


def test_a_run_id_that_ended_by_itself_may_start_again() -> None:
    guarded = guard()
    guarded.run(job_type="t", run_id=RUN_ID).end(Outcome.COMPLETED)
    assert allowed(guarded.run(job_type="t", run_id=RUN_ID).check("read", {}))


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_an_application_may_hand_its_run_over_to_a_person(mode: str) -> None:
    guarded = guard(mode=mode)
    run, sibling = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    assert run.suspend().action is Action.ESCALATE
    assert run.check("read", {}).ticket is None
    assert allowed(sibling.check("read", {}))
    ended = run.end(Outcome.COMPLETED)
    assert (ended.outcome, ended.halt_reason) == (Outcome.ESCALATED, "approval_required")
    sibling.stop()
    assert sibling.suspend().action is Action.HALT


def test_a_cancelled_root_refuses_its_children() -> None:
    guarded = guard()
    parent, child = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    parent.stop(Reason.CANCELLED)
    assert said(child.check("read", {})) == "cancelled"
    assert parent.end().outcome is Outcome.CANCELLED


def test_a_restored_halt_refuses_every_call_even_for_a_reason_nobody_knows() -> None:
    for halt, reason in (("cancelled", "cancelled"), ("because", "operator_stop")):
        agent = Agent()
        agent.run.restore({"halt": halt})
        check = agent.check("read")
        assert (check.action, said(check), check.ticket) == (Action.HALT, reason, None)


def test_a_deadline_is_a_budget_of_its_own() -> None:
    run = guard().run(job_type="t", deadline=30, clock=lambda: 30.0)
    assert said(run.check("read", {})) == "deadline"


def test_a_policy_without_limits_does_not_start() -> None:
    with pytest.raises(PolicyError):
        Guard(Policy.from_mapping({"max_turns": None}))


def test_tokens_and_turns_are_budgets_of_the_model() -> None:
    tokens, turns = Agent(max_tokens=1000), Agent(max_turns=2)
    assert said(tokens.run.turn(400, 100)) == "continue"
    assert said(tokens.run.turn(400, 100)) == "token_budget"
    assert said(turns.run.turn()) == "continue"
    assert said(turns.run.turn()) == "max_turns"


def test_a_run_that_answers_in_its_last_turn_was_not_stopped_but_may_not_begin_another() -> None:
    agent = Agent(max_turns=2)
    agent.run.turn()
    assert allowed(agent.run.turn(answered=True))
    ended = agent.run.end()
    assert (ended.outcome, ended.halt_reason, ended.turns) == (Outcome.COMPLETED, None, 2)
    assert said(agent.run.reserve_turn()) == "max_turns"
    assert said(Agent(max_turns=0).run.reserve_turn()) == "max_turns"


def test_time_is_checked_between_turns() -> None:
    agent = Agent(max_seconds=60)
    agent.now = 60
    assert said(agent.run.turn()) == "wall_clock"


def test_a_turn_that_cannot_be_paid_for_is_not_made() -> None:
    agent = Agent(max_cost="1", max_tokens=1000)
    assert said(agent.run.reserve_turn(tokens=500, cost="0.75")) == "continue"
    agent.run.turn(100, 100, "0.25")
    assert said(agent.run.reserve_turn(tokens=900, cost="0.10")) == "token_budget"
    other = Agent(max_cost="1")
    assert said(other.run.reserve_turn(cost="1.01")) == "cost_budget"
    assert other.run.state.budgets.tokens.reserved == 0


def test_a_cancelled_stream_is_settled_at_its_reservation() -> None:
    agent = Agent()
    agent.run.reserve_turn(tokens=700, cost="0.50")
    agent.run.turn(usage_known=False)
    budgets = agent.run.state.budgets
    assert (budgets.tokens.settled, budgets.tokens.reserved) == (700, 0)
    assert budgets.cost.settled == 500_000


def test_shadow_reports_the_first_stop_and_lets_the_run_go_on() -> None:
    agent = Agent(mode="shadow")
    assert agent.reasons(6, "read", result="same") == ["continue"] * 6
    agent.call("gone", error={"status": 404})
    assert agent.reasons(2, "gone", error={"status": 404}) == ["continue"] * 2
    ended = agent.run.end(Outcome.COMPLETED)
    assert ended.would_halt is not None
    assert (ended.would_halt.reason, ended.would_halt.step) == ("repeated_call", 4)
    assert (ended.outcome, ended.halt_reason, ended.refusals) == (Outcome.COMPLETED, None, 0)
    assert ended.interventions == []


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_hard_budgets_and_stop_orders_are_enforced_in_every_mode(mode: str) -> None:
    agent = Agent(mode=mode, max_steps=2)
    assert agent.reasons(2, "read", result="r") == ["continue", "step_budget"]
    stopped = Agent(mode=mode)
    stopped.run.stop()
    assert stopped.check("read").ticket is None


def test_off_reports_nothing() -> None:
    agent = Agent(mode="off")
    assert agent.reasons(6, "read", result="same") == ["continue"] * 6
    ended = agent.run.end(Outcome.COMPLETED)
    assert (ended.would_halt, ended.policy.mode) == (None, Mode.OFF)


def test_shadow_asks_nobody_to_wait() -> None:
    agent = Agent(mode="shadow")
    agent.call("read", error={"status": 503})
    assert allowed(agent.check("read"))


@pytest.fixture
def broken_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(checks, "pre_check", fail)


@pytest.mark.usefixtures("broken_checks")
def test_a_fault_inside_the_guard_passes_reads_refuses_writes_and_is_reported() -> None:
    agent = Agent(tools={"save": {"class": "write"}})
    assert allowed(agent.call("read", result="r"))
    check = agent.check("save")
    assert (check.action, said(check), check.ticket) == (Action.ESCALATE, "guard_error", None)
    ended = agent.run.end()
    assert (ended.outcome, ended.halt_reason) == (Outcome.ESCALATED, "guard_error")
    assert ended.halt_detail == {"guard_faults": ["ZeroDivisionError", "ZeroDivisionError"]}
    assert b"secret" not in msgspec.json.encode(ended)


@pytest.mark.usefixtures("broken_checks")
def test_the_step_budget_holds_for_calls_that_could_not_be_judged() -> None:
    agent = Agent(max_steps=2)
    assert agent.reasons(3, "read", result="r")[:2] == ["continue", "step_budget"]
    assert agent.run.end().steps == 2


@pytest.mark.usefixtures("broken_checks")
@pytest.mark.parametrize(
    ("spec", "reason"), [({"forbidden": True}, "forbidden_tool"), ({"approval": True}, "approval_required")]
)
def test_a_fault_opens_no_tool_that_is_closed_by_name(spec: dict[str, Any], reason: str) -> None:
    assert said(Agent(tools={"read": spec}).check("read")) == reason


@pytest.mark.parametrize("redirect", ["http://a\x00.1/", "http://\ud800/", "http://a.example/?\ud800"])
def test_no_result_talks_the_guard_out_of_its_checks(redirect: str) -> None:
    agent = Agent()
    for i in range(6):
        verdict = agent.call("read", {"i": i}, {"redirect": redirect, "i": i}, progressed=False)
    assert said(verdict) == "no_progress"
    assert agent.run.counts.faults == []


def test_half_a_character_in_a_tool_or_code_spoils_neither_snapshot_nor_event() -> None:
    agent = Agent()
    agent.call("read\ud800", error={"code": "gone\udfff"})
    assert b"gone?" in agent.run.snapshot()
    step = agent.run.end().last_steps[0]
    assert (step.tool, step.error_code) == ("read?", "gone?")
    assert msgspec.json.encode(agent.run.end())


def test_a_fault_while_observing_a_write_makes_it_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(tools={"save": {"class": "write"}})
    read, save = agent.ticket("read"), agent.ticket("save")

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(observation, "is_empty", fail)
    assert allowed(agent.run.observe(read, result="r"))
    verdict = agent.run.observe(save, result="s")
    assert (verdict.action, said(verdict)) == (Action.ESCALATE, "guard_error")
    assert save.row.uncertain


def test_a_write_in_flight_at_the_end_is_listed_and_uncertain_for_the_root() -> None:
    guarded = guard(tools={"pay": {"class": "side_effect"}})
    run = guarded.run(job_type="t", root_task_id="root")
    run.check("pay", {})
    run.check("read", {})
    assert run.end().halt_detail == {"in_flight": ["pay", "read"]}
    assert said(guarded.run(job_type="t", root_task_id="root").check("pay", {})) == "uncertain_write"


def test_a_write_that_timed_out_is_told_as_unresolved() -> None:
    agent = Agent(tools={"save": {"class": "write"}})
    agent.call("save", error=TimeoutError())
    assert agent.run.end().halt_detail == {"unresolved": ["save"]}


def test_runs_of_a_root_do_not_make_one_write_at_the_same_time() -> None:
    guarded = guard(tools={"save": {"class": "write"}})
    first, second = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    ticket = first.check("save", {}).ticket
    assert ticket is not None
    check = second.check("save", {})
    assert (said(check), check.leader) == ("duplicate_in_flight", None)
    first.observe(ticket, result="saved")
    assert allowed(second.check("save", {"x": 1}))


def test_what_led_to_a_halt_stays_closed_to_a_run_that_is_resumed() -> None:
    guarded = guard(domain_cap=1)
    run = guarded.run(job_type="t", run_id=RUN_ID)
    for page in range(2):
        check = run.check("fetch", {"url": f"https://a.example/{page}"})
        if check.ticket is not None:
            run.observe(check.ticket, result=f"r{page}")
    run.stop()
    assert [source.name for source in run.end().sources if source.quarantined] == ["a.example"]
    resumed = guarded.run(job_type="t", run_id=RUN_ID, resumed=True)
    assert said(resumed.check("fetch", {"url": "https://www.a.example/other"})) == "blocked_source"
    assert guarded.run(job_type="t").check("fetch", {"url": "https://a.example/"}).allowed


def test_a_recorded_identity_replaces_the_arguments() -> None:
    agent = Agent(max_repeats=1)
    for identity in ("a", "b"):
        ticket = agent.ticket("read", {"q": "masked"}, identity=identity)
        agent.run.observe(ticket, result="r", digest=identity)
    assert said(agent.check("read", {"q": "other"}, identity="a")) == "repeated_call"


def test_a_run_id_carries_the_start() -> None:
    run = guard().run(job_type="t", started_at=datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC))
    moment = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    assert uuid7_ms(run.who.run_id) == int(moment.timestamp() * 1000)
    assert guard().run(job_type="t").who.started_at == STARTED_AT


def test_jitter_stretches_the_back_off_by_at_most_a_quarter() -> None:
    run = Guard(Policy(), jitter=lambda: 1.0).run(job_type="t", clock=lambda: 0.0)
    ticket = run.check("read", {}).ticket
    assert ticket is not None
    run.observe(ticket, error={"status": 503})
    assert run.check("read", {}).not_before == 1.25


def test_threads_of_one_run_lose_no_step() -> None:
    agent = Agent(max_steps=400)

    def work(name: int) -> None:
        for i in range(50):
            ticket = agent.run.check("read", {"i": i, "by": name}).ticket
            assert ticket is not None
            agent.run.observe(ticket, result=f"{name} {i}")

    threads = [Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = agent.run.end(Outcome.COMPLETED, answer=Answer.FULL)
    assert (ended.steps, ended.tool_calls, len(agent.run.state.ledger)) == (200, 200, 200)
    assert agent.run.state.budgets.steps.reserved == 0


TOOLS = {
    "pay": {"class": "side_effect"},
    "save": {"class": "write"},
    "job": {"poll": {"interval": 2, "max_attempts": 3}},
}
outcomes = st.sampled_from(
    [
        {"result": "same"},
        {"result": []},
        {"result": {"final_url": "https://a.example/"}},
        {"error": "text"},
        {"error": {"status": 503}},
        {"error": {"status": 409}},
        {"error": TimeoutError()},
        {"result": "new", "progressed": True},
        {"result": "old", "progressed": False},
    ]
)
proposals = st.tuples(
    st.sampled_from(["read", "fetch", "pay", "save", "job"]),
    st.sampled_from(
        [{}, {"x": 1}, {"url": "https://a.example/?page=1"}, {"url": "https://a.example/?page=2"}]
    ),
    outcomes,
    st.sampled_from([0.0, 1.0, 30.0]),
)


@given(st.lists(proposals, max_size=40))
def test_whatever_an_agent_does_the_limits_hold(sequence: list[Any]) -> None:
    agent = Agent(max_steps=15, tools=TOOLS)
    done: list[tuple[str, str]] = []
    stopped = False
    for tool, args, outcome, seconds in sequence:
        agent.now += seconds
        check = agent.check(tool, args)
        assert not (stopped and check.allowed)
        stopped = stopped or check.action in STOPS
        if check.ticket is None:
            continue
        stopped = agent.run.observe(check.ticket, **outcome).action in STOPS
        if "error" not in outcome:
            done.append((tool, str(args)))
    event = agent.run.end()
    assert agent.run.counts.faults == []
    assert event.steps <= 15
    assert agent.run.state.budgets.steps.reserved == 0
    paid = [args for tool, args in done if tool == "pay"]
    assert len(paid) == len(set(paid))
    assert msgspec.json.decode(msgspec.json.encode(event), type=RunEnded) == event


def test_the_tarpit_is_nudged_at_ten_and_forced_at_eleven() -> None:
    agent = Agent()
    actions: list[Action] = []
    for step in range(11):
        agent.run.turn(1_000, 100)
        good = step < 4
        url = f"https://good{step}.example/" if good else f"https://mirror.example/opts?page={step}"
        actions.append(agent.call("fetch", {"url": url}, f"page {step}", progressed=good).action)
    agent.run.turn(1_000, 100)
    ended = agent.run.end(answer=Answer.FORCED)
    assert actions == [Action.CONTINUE] * 9 + [Action.NUDGE, Action.FORCE_ANSWER]
    assert (ended.outcome, ended.answer) == (Outcome.COMPLETED_FORCED, Answer.FORCED)
    assert (ended.halt_reason, ended.first_reason, ended.turns, ended.steps) == (
        "no_progress",
        "no_progress",
        12,
        11,
    )
    assert [(i.step, i.action, i.reason) for i in ended.interventions] == [
        (10, Action.NUDGE, "no_progress"),
        (11, Action.FORCE_ANSWER, "no_progress"),
    ]
    assert [source.name for source in ended.sources if source.proposed] == ["mirror.example"]
