"""A run that is handed to a person: what is told, what is waited for, and what follows from each decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from guardops.guard.bundle import SigningKey
from guardops.guard.calls import Stopped
from guardops.guard.client import Pace
from guardops.guard.deciding import KEY_PATIENCE
from guardops.guard.decisions import BlockedForTask, DecisionAction, DecisionChange, Reconciled, Refused
from guardops.guard.desk import MAX_WAIT
from guardops.guard.escalation import Escalation
from guardops.guard.events import Action, Answer, OnTimeout, Outcome, SourceKind
from guardops.guard.reasons import Reason
from guardops.guard.session import AgentRun, Guard
from tests.guard.agent import allowed, said

from .world import AT, World, added, resolved

RUN = UUID("01958c1e-0000-7000-8000-000000000001")
RESUME, STOP, APPROVE = DecisionAction.RESUME, DecisionAction.STOP, DecisionAction.APPROVE
ANSWER, FORCE = DecisionAction.ANSWER, DecisionAction.FORCE_ANSWER


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.kill()


def go(run: AgentRun, tool: str, result: Any = "ok", /, **args: Any) -> Any:
    """Make a call that must be allowed."""
    check = run.check(tool, args)
    assert check.ticket is not None, check
    return run.observe(check.ticket, result=result)


def begin(guard: Guard, **options: Any) -> AgentRun:
    return guard.run(**({"job_type": "research", "run_id": RUN, "clock": lambda: 10.0} | options))


def handed_over(guard: Guard, steps: int = 2, **said: Any) -> Escalation:
    """Let a run make a few steps and hand it over."""
    run = begin(guard)
    for number in range(steps):
        go(run, "read", f"page {number}", page=number)
        run.turn(100, 10, "0.25")
    return run.escalate("May it go on?", **said)


# -- handing over ----------------------------------------------------------------------------------------


def test_a_run_that_is_handed_over_ends_and_tells_what_it_knows(world: World) -> None:
    guard = world.guard(max_steps=5)
    run = begin(guard, agent="scout", release="r1")
    go(run, "fetch", "text", url="https://www.a.example/1")
    run.turn(100, 10, "0.25")
    started = run.check("save", {"row": 1})
    assert started.ticket is not None
    waits = run.escalate(
        "Which of the two?",
        reason=Reason.NO_PROGRESS,
        unresolved=["the price"],
        artifact="a draft, password=hunter22",
        evidence={"a.example": "v3"},
    )
    with pytest.raises(Stopped):
        run.call("read", {}, lambda: "x")
    gate = world.told()
    [ended], [opened] = gate.of("run.ended"), gate.of("checkpoint.opened")
    assert (ended["outcome"], ended["halt_reason"]) == ("escalated", "no_progress")
    assert [event["type"] for event in gate.events].index("run.ended") < gate.events.index(opened)
    assert (opened["checkpoint_id"], opened["run_id"]) == (str(waits.checkpoint_id), str(RUN))
    assert (opened["question"], opened["unresolved"]) == ("Which of the two?", ["the price"])
    assert opened["artifact"]["text"] == "a draft, password=***"
    assert opened["sources"][0] == {
        "kind": "domain",
        "name": "a.example",
        "calls": 1,
        "evidence_version": "v3",
    }
    assert {call["tool"]: call["calls"] for call in opened["calls"]} == {"fetch": 1, "save": 1}
    [pending] = opened["pending"]
    assert (pending["tool"], pending["uncertain"], pending["args"]) == ("save", True, '{"row":1}')
    assert (opened["spent"]["steps"], opened["spent"]["cost"], opened["spent"]["seconds"]) == (1, "0.25", 10)
    assert (opened["remaining"]["steps"], opened["agent"], opened["release"]) == (3, "scout", "r1")
    assert run.escalate() is waits


def test_what_the_guard_stopped_for_a_person_keeps_its_reason(world: World) -> None:
    run = begin(world.guard())
    with pytest.raises(Stopped) as stopped:
        run.call("pay", {"to": "a"}, lambda to: to)
    assert (stopped.value.action, run.escalate().reason) == (Action.ESCALATE, "approval_required")
    [opened] = world.told().of("checkpoint.opened")
    assert (opened["refused"]["tool"], opened["refused"]["args"]) == ("pay", '{"to":"a"}')


def test_a_block_that_ended_as_escalated_can_still_be_handed_over(world: World) -> None:
    with pytest.raises(Stopped), begin(world.guard()) as run:
        run.call("pay", {"to": "a"}, lambda to: to)
    waits = run.escalate()
    assert world.told().of("run.ended")[0]["outcome"] == "escalated"
    assert [event["checkpoint_id"] for event in world.gate.of("checkpoint.opened")] == [
        str(waits.checkpoint_id)
    ]


def test_only_what_waits_for_a_person_is_handed_over(world: World) -> None:
    guard = world.guard()
    finished = begin(guard)
    finished.end(Outcome.COMPLETED)
    with pytest.raises(ValueError, match="completed"):
        finished.escalate()
    halted = begin(guard, run_id=None)
    halted.stop()
    with pytest.raises(Stopped) as stopped:
        halted.escalate()
    assert stopped.value.action is Action.HALT
    assert guard.pending() == []


def test_what_makes_no_sense_is_refused_before_the_run_ends(world: World) -> None:
    run = begin(world.guard())
    for wrong in ({"expires_in": 0.0}, {"expires_in": 1e9}, {"context": {1, object()}}):
        with pytest.raises(ValueError):
            run.escalate(**wrong)
    assert allowed(run.check("read", {}))


# -- decisions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True])
def test_a_resumed_attempt_has_what_was_left_and_what_was_added(world: World, memory: bool) -> None:
    guard = world.guard(memory=memory, max_steps=4, max_seconds=60, max_cost="1")
    waits = handed_over(guard, steps=3, context=["so far"])
    world.decide(waits, RESUME, change=added(steps=2, seconds=30, cost="0.5"), reason="go on")
    found, run = resolved(waits.decided(0))
    assert (found.action, found.context, found.reason) == (RESUME, ["so far"], "go on")
    budgets = run.state.budgets
    assert (budgets.steps.left, budgets.turns.left, budgets.cost.left) == (3, 39, 750_000)
    assert (run.policy.limits.max_seconds, run.state.carried_seconds) == (90, 10.0)
    assert run.who.run_id == world.gate.granted[world.gate.decisions[waits.checkpoint_id].decision_id][0]
    for number in range(2):
        go(run, "read", f"more {number}", more=number)
    assert go(run, "read", "last", more=2).action is Action.FORCE_ANSWER
    event = run.end()
    assert (event.attempt, event.resumed_from, event.steps, event.root_task_id) == (2, RUN, 3, str(RUN))


def test_the_third_attempt_has_what_both_decisions_added(world: World) -> None:
    guard = world.guard(max_steps=2)
    waits = handed_over(guard, steps=1)
    world.decide(waits, RESUME, change=added(steps=1))
    _, second = resolved(waits.decided(0))
    go(second, "read", "b", page="b")
    go(second, "read", "c", page="c")
    again = second.escalate()
    world.decide(again, RESUME, change=added(steps=3))
    _, third = resolved(again.decided(0))
    assert (third.who.attempt, third.state.budgets.steps.left) == (3, 3)


def test_a_sub_agent_that_is_resumed_spends_what_its_own_part_has_left(world: World) -> None:
    guard = world.guard(max_steps=10)
    parent = begin(guard)
    child = begin(guard, run_id=None, root_task_id=str(RUN), parent_run_id=RUN, policy=guard.policy)
    for number in range(8):
        go(child, "read", number, page=number)
    waits = child.escalate()
    world.decide(waits, RESUME, change=added(steps=1))
    _, resumed = resolved(waits.decided(0))
    assert resumed.state.budgets.steps.left == 3
    assert (parent.state.root.budgets.steps.limit, resumed.who.parent_run_id) == (11, RUN)


def test_a_granted_budget_outlives_a_restart_and_is_granted_once(world: World) -> None:
    waits = handed_over(world.guard(max_steps=2), steps=2)
    world.decide(waits, RESUME, change=added(steps=3))
    _, run = resolved(waits.decided(0))
    go(run, "read", "more", page="more")
    world.kill()
    [again] = world.guard(max_steps=2).pending()
    _, restarted = resolved(again.decided(0))
    assert (restarted.who.run_id, restarted.state.budgets.steps.left) == (run.who.run_id, 2)
    assert world.gate.asked.count("POST consume") == 1
    restarted.end(Outcome.COMPLETED)
    world.kill()
    assert world.guard(max_steps=2).pending() == []


def test_new_evidence_makes_an_equal_read_legitimate_and_a_larger_budget_does_not(world: World) -> None:
    for change, then in ((DecisionChange(evidence="it is there now"), "continue"), (added(steps=9), "nudge")):
        guard = world.guard(memory=True)
        run = begin(guard, run_id=None)
        go(run, "find", [], q="x")
        waits = run.escalate()
        world.decide(waits, RESUME, change=change)
        found, resumed = resolved(waits.decided(0))
        assert resumed.check("find", {"q": "x"}).action.value == then
    assert found.evidence is None


def test_a_person_gives_failures_that_can_be_mended_another_chance(world: World) -> None:
    run = begin(world.guard())
    check = run.check("read", {"x": 1})
    assert check.ticket is not None
    assert run.observe(check.ticket, error={"status": 401}).action is Action.ESCALATE
    waits = run.escalate()
    world.decide(waits, RESUME, change=DecisionChange(evidence="the key is renewed"))
    assert allowed(resolved(waits.decided(0))[1].check("read", {"x": 1}))


def test_a_source_that_the_decision_closes_is_refused_to_the_whole_task_which_goes_on(world: World) -> None:
    waits = handed_over(world.guard())
    closed = (
        BlockedForTask(kind=SourceKind.DOMAIN, name="Tarpit.example"),
        BlockedForTask(kind=SourceKind.TOOL, name="scrape"),
    )
    world.decide(waits, RESUME, change=DecisionChange(blocked_sources=closed))
    found, run = resolved(waits.decided(0))
    refused = run.check("fetch", {"url": "https://www.tarpit.example/2"})
    assert (refused.action, refused.reason) == (Action.REFUSE, Reason.BLOCKED_SOURCE)
    assert run.check("scrape", {}).reason is Reason.BLOCKED_SOURCE
    assert allowed(run.check("fetch", {"url": "https://www.other.example/"}))
    child = begin(world.guard(), run_id=None, root_task_id=str(RUN), parent_run_id=RUN)
    assert child.check("fetch", {"url": "https://tarpit.example/"}).reason is Reason.BLOCKED_SOURCE
    assert found.told.endswith("Do not use Tarpit.example, scrape.")


def test_an_approved_call_may_be_made_once(world: World) -> None:
    run = begin(world.guard())
    run.check("pay", {"to": "a"})
    waits = run.escalate()
    row = next(iter(run.state.ledger))
    world.decide(waits, APPROVE, tool="pay", args_hash=row.args_hash)
    found, approved = resolved(waits.decided(0))
    assert "pay" in found.told
    go(approved, "pay", to="a")
    approved.end(Outcome.COMPLETED)
    other = begin(world.guard(), run_id=None, root_task_id=str(RUN))
    assert said(other.check("pay", {"to": "b"})) == "approval_required"


def test_an_approval_is_used_up_by_the_call_and_by_no_restart(world: World) -> None:
    run = begin(world.guard())
    run.check("pay", {"to": "a"})
    waits = run.escalate()
    world.decide(waits, APPROVE, tool="pay", args_hash=next(iter(run.state.ledger)).args_hash)
    _, approved = resolved(waits.decided(0))
    go(approved, "pay", to="a")
    world.kill()
    [again] = world.guard().pending()
    _, restarted = resolved(again.decided(0))
    assert restarted.state.root.approvals == {}
    assert said(restarted.check("pay", {"to": "a"})) == "duplicate_side_effect"


@pytest.mark.parametrize(("happened", "then"), [(True, "duplicate_side_effect"), (False, "continue")])
def test_a_write_of_unknown_outcome_is_what_the_person_found_out(
    world: World, happened: bool, then: str
) -> None:
    tools = {"pay": {"class": "side_effect"}}
    run = begin(world.guard(tools=tools))
    assert run.check("pay", {"to": "a"}).ticket is not None
    world.kill()  # in the middle of the payment
    again = begin(world.guard(tools=tools))
    assert said(again.check("pay", {"to": "a"})) == "uncertain_write"
    waits = again.escalate()
    [opened] = world.told().of("checkpoint.opened")
    [pending] = opened["pending"]
    known = Reconciled(tool=pending["tool"], args_hash=pending["args_hash"], happened=happened)
    world.decide(waits, RESUME, reconciled=(known,), change=added(steps=1))
    assert said(resolved(waits.decided(0))[1].check("pay", {"to": "a"})) == then


def test_a_write_that_another_run_of_the_task_left_can_be_reconciled_too(world: World) -> None:
    guard = world.guard(tools={"pay": {"class": "side_effect"}})
    parent = begin(guard)
    child = begin(guard, run_id=None, root_task_id=str(RUN), parent_run_id=RUN)
    ticket = child.check("pay", {"to": "a"}).ticket
    assert ticket is not None
    child.end(Outcome.CANCELLED)
    waits = parent.escalate()
    [pending] = world.told().of("checkpoint.opened")[0]["pending"]
    assert pending["uncertain"]
    known = Reconciled(tool=pending["tool"], args_hash=pending["args_hash"], happened=False)
    world.decide(waits, RESUME, reconciled=(known,), change=added(steps=1))
    assert allowed(resolved(waits.decided(0))[1].check("pay", {"to": "a"}))


def test_an_answer_of_a_person_completes_the_task(world: World) -> None:
    waits = handed_over(world.guard())
    world.decide(waits, ANSWER, answer="42")
    found = waits.decided(0)
    assert found is not None
    assert (found.action, found.answer, found.run) == (ANSWER, "42", None)
    ended = world.told().of("run.ended")[-1]
    assert (ended["outcome"], ended["answer"], ended["answer_by"]) == ("completed", "full", "person")
    assert (ended["attempt"], ended["resumed_from"], ended.get("cost", "0")) == (2, str(RUN), "0")
    assert world.guard().pending() == []


def test_a_forced_answer_is_one_turn_without_tools(world: World) -> None:
    waits = handed_over(world.guard(), reason=Reason.NO_PROGRESS)
    world.decide(waits, FORCE)
    found, run = resolved(waits.decided(0))
    assert (run.tools(["read"]), "Answer with what you have" in found.told) == ([], True)
    run.turn(100, 10, "0.1")
    event = run.end(answer=Answer.FULL)
    assert (event.outcome, event.halt_reason, event.attempt) == (
        Outcome.COMPLETED_FORCED,
        "no_progress",
        2,
    )


def test_a_second_turn_or_a_call_ends_a_forced_answer(world: World) -> None:
    for misbehave in ("call", "turn"):
        waits = begin(guard := world.guard(), run_id=None).escalate()
        assert guard
        world.decide(waits, FORCE)
        _, run = resolved(waits.decided(0))
        run.tools(["read"])
        if misbehave == "call":
            with pytest.raises(Stopped):
                run.call("read", {}, lambda: "x")
        else:
            run.turn()
            assert run.turn().action is Action.HALT


def test_a_stop_ends_the_task_and_its_sub_agents_in_other_processes(world: World) -> None:
    guard, other = world.guard(), world.guard()
    waits = handed_over(guard)
    child = begin(other, run_id=None, root_task_id=str(RUN), parent_run_id=RUN)
    go(child, "read", x=1)
    world.decide(waits, STOP)
    found = waits.decided(0)
    assert found is not None
    assert (found.action, found.run) == (STOP, None)
    assert said(child.check("read", {"x": 2})) == "cancelled"
    assert child.end(Outcome.COMPLETED).outcome is Outcome.CANCELLED
    assert said(begin(world.guard(), run_id=None, root_task_id=str(RUN)).check("read", {})) == "cancelled"
    assert guard.pending() == []
    assert world.gate.asked.count("POST consume") == 1


def test_no_later_decision_revives_a_task_that_a_person_has_stopped(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    child = begin(guard, run_id=None, root_task_id=str(RUN), parent_run_id=RUN).escalate()
    world.decide(waits, STOP)
    waits.decided(0)
    world.decide(child, RESUME, change=added(steps=1))
    _, run = resolved(child.decided(0))
    assert said(run.check("read", {})) == "cancelled"


def test_a_person_has_stopped_a_task_too_that_the_guard_had_halted_before(world: World) -> None:
    guard = world.guard(tools={"rm": {"forbidden": True}})
    waits = handed_over(guard)
    child = begin(guard, run_id=None, root_task_id=str(RUN), parent_run_id=RUN).escalate()
    begin(guard, run_id=None, root_task_id=str(RUN), parent_run_id=RUN).check("rm", {})
    world.decide(waits, STOP)
    waits.decided(0)
    world.decide(child, RESUME, change=added(steps=1))
    _, run = resolved(child.decided(0))
    assert said(run.check("read", {})) == "cancelled"


def test_no_word_of_the_application_revives_a_task_that_a_person_has_stopped(world: World) -> None:
    waits = handed_over(world.guard())
    world.decide(waits, STOP)
    waits.decided(0)
    for fields in ({}, {"run_id": None, "root_task_id": str(RUN), "attempt": 2}):
        again = begin(world.guard(), resumed=True, **fields)
        assert said(again.check("read", {})) in ("cancelled", "requeue_refused")


def test_the_run_that_was_handed_over_starts_again_in_no_other_way(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    assert said(begin(guard).check("read", {})) == "requeue_refused"
    world.decide(waits, RESUME, change=added(steps=1))
    _, run = resolved(waits.decided(0))
    assert said(begin(world.guard()).check("read", {})) == "requeue_refused"
    assert allowed(run.check("read", {}))


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("wrong_checkpoint", {"checkpoint_id": UUID(int=7)}),
        ("wrong_artifact", {"artifact_digest": "sha256:another"}),
        ("expired", {"expires_at": AT}),
        ("wrong_run", {"run_id": UUID(int=7)}),
        ("wrong_attempt", {"attempt": 2}),
    ],
)
def test_a_decision_about_something_else_is_refused(world: World, code: str, changed: dict[str, Any]) -> None:
    waits = handed_over(world.guard())
    world.decide(waits, RESUME, **changed)
    with pytest.raises(Refused) as refused:
        waits.decided(0)
    assert (refused.value.code, world.gate.granted) == (code, {})


def test_a_decision_that_was_changed_on_its_way_is_refused(world: World) -> None:
    waits = handed_over(world.guard())
    decision = world.decide(waits, STOP)
    world.gate.decisions[waits.checkpoint_id] = msgspec.structs.replace(decision, action=RESUME)
    with pytest.raises(Refused) as refused:
        waits.decided(0)
    assert refused.value.code == "wrong_signature"


def test_a_decision_of_another_tenant_is_refused(world: World) -> None:
    waits = begin(world.guard(), tenant="acme").escalate()
    world.decide(waits, RESUME, tenant="rival", change=added(steps=1))
    with pytest.raises(Refused) as refused:
        waits.decided(0)
    assert (refused.value.code, world.gate.headers["guardops-tenant"]) == ("wrong_tenant", "acme")


def test_a_key_that_has_not_arrived_is_waited_for_a_while_and_no_longer(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    newer = SigningKey(kid="k2", secret="newer")
    world.decide(waits, RESUME, key=newer, change=added(steps=1))
    assert waits.decided(0) is None
    guard.signing = [newer]
    assert resolved(waits.decided(0))[1].who.attempt == 2
    forged = begin(guard, run_id=None).escalate()
    world.decide(forged, RESUME, key=SigningKey(kid="k3", secret="made up"))
    with pytest.raises(Refused) as refused:
        forged.decided()
    waited = sum(world.paused)
    assert (refused.value.code, KEY_PATIENCE <= waited < KEY_PATIENCE + 10) == ("unknown_key", True)
    assert waited > Pace().longest_wait + MAX_WAIT, "a guard that backs off asks for its policies in between"


def test_work_that_has_changed_since_is_not_resumed(world: World) -> None:
    waits = handed_over(world.guard(), artifact="draft 1")
    world.decide(waits, RESUME, change=added(steps=1))
    with pytest.raises(Refused) as refused:
        waits.decided(0, artifact="draft 2")
    assert refused.value.code == "wrong_artifact"
    assert resolved(waits.decided(0, artifact="draft 1"))[1].who.attempt == 2


def test_a_decision_that_another_attempt_has_had_is_refused_for_good(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    decision = world.decide(waits, RESUME, change=added(steps=1))
    world.gate.granted[decision.decision_id] = (UUID(int=7), None)  # type: ignore[assignment]
    with pytest.raises(Refused) as refused:
        waits.decided(0)
    assert (refused.value.code, guard.pending()) == ("already_consumed", [])


def test_a_decision_is_carried_out_by_one_part_of_a_machine_alone(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    [twin], [neighbour] = guard.pending(), world.guard().pending()
    world.decide(waits, RESUME, change=added(steps=1))
    _, run = resolved(waits.decided(0))
    for other in (twin, neighbour):
        with pytest.raises(Refused) as refused:
            other.decided(0)
        assert refused.value.code == "in_hand"
    assert guard.pending() == world.guard().pending() == []
    run.end(Outcome.COMPLETED)
    with pytest.raises(Refused) as refused:
        twin.decided(0)
    assert refused.value.code == "already_done"


# -- outages and restarts --------------------------------------------------------------------------------


def test_nothing_decided_yet_is_nothing(world: World) -> None:
    waits = handed_over(world.guard())
    world.told()
    assert (waits.decided(0), waits.resolution) == (None, None)


def test_a_restarted_process_finds_what_waits_and_goes_on(world: World) -> None:
    waits = handed_over(world.guard(), context={"messages": ["hello"]})
    world.told()
    world.kill()
    guard = world.guard()
    [found] = guard.pending()
    assert (found.checkpoint_id, found.context) == (waits.checkpoint_id, {"messages": ["hello"]})
    assert (found.job_type, found.run_id, found.reason) == ("research", RUN, "approval_required")
    assert guard.escalation(waits.checkpoint_id).expires_at == waits.expires_at
    world.decide(found, RESUME, change=DecisionChange(input="look elsewhere"))
    resolution, run = resolved(found.decided(0))
    assert resolution.input == "look elsewhere"
    assert said(run.check("read", {"page": 0})) == "continue"
    assert [row.count for row in run.state.ledger] == [2, 1]


def test_the_reply_to_a_consumption_may_be_lost(world: World) -> None:
    waits = handed_over(world.guard())
    decision = world.decide(waits, RESUME, change=added(steps=1))
    world.gate.drops = 1
    assert waits.decided(0) is None
    held = world.gate.granted[decision.decision_id][0]
    world.kill()
    [again] = world.guard().pending()
    assert resolved(again.decided(0))[1].who.run_id == held


def test_a_checkpoint_that_the_gate_does_not_know_of_is_told_again(world: World) -> None:
    world.gate.deaf = True
    waits = handed_over(world.guard())
    world.told()
    world.gate.deaf = False
    assert waits.decided(5) is None
    assert [event["type"] for event in world.gate.events] == ["run.ended", "checkpoint.opened"]


def test_without_a_gate_what_was_agreed_holds_when_the_time_is_over(world: World) -> None:
    guard = world.guard()
    stopped = handed_over(guard, expires_in=60)
    answered = begin(guard, run_id=None).escalate(expires_in=60, on_timeout=OnTimeout.FORCE_ANSWER)
    world.gate.away = True
    found = stopped.decided()
    assert found is not None
    assert (found.action, found.decision) == (STOP, None)
    assert world.now >= AT + timedelta(seconds=60)
    assert said(begin(guard, run_id=None, root_task_id=str(RUN)).check("read", {})) == "cancelled"
    _, run = resolved(answered.decided(0))
    assert run.tools(["read"]) == []


def test_a_person_who_was_in_time_counts_until_the_time_is_over_and_no_longer(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard, expires_in=60)
    world.decide(waits, RESUME, change=added(steps=1))
    world.now = waits.expires_at
    found = waits.decided(0)
    assert found is not None
    assert found.action is STOP


def test_what_the_gate_notes_for_a_checkpoint_that_expired_is_consumed(world: World) -> None:
    waits = handed_over(world.guard(), expires_in=60)
    world.now += timedelta(seconds=61)
    decision = world.decide(waits, STOP, expires_at=world.now + timedelta(days=7))
    found = waits.decided(0)
    assert found is not None
    assert found.action is STOP
    assert decision.decision_id in world.gate.granted


def test_a_plain_guard_waits_for_nobody_and_ends_in_time() -> None:
    now = [AT]

    def sleep(seconds: float) -> None:
        now[0] += timedelta(seconds=seconds)

    guard = Guard(now=lambda: now[0], sleep=sleep)
    waits = guard.run(job_type="t").escalate(expires_in=120)
    assert waits.event is not None
    assert waits.event.reason == "approval_required"
    found = waits.decided()
    assert found is not None
    assert found.action is STOP


def test_asynchronous_waiting_does_the_same(world: World) -> None:
    waits = handed_over(world.guard())
    world.decide(waits, RESUME, change=added(steps=1))
    _, run = resolved(asyncio.run(waits.adecided(1)))
    assert run.who.attempt == 2


def test_a_wait_that_is_cancelled_leaves_the_decision_to_the_next(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    world.decide(waits, RESUME, change=added(steps=1))
    world.gate.drops = 9

    async def cancelled() -> None:
        async def forever(seconds: float) -> None:
            await asyncio.sleep(3_600)

        object.__setattr__(waits._means, "asleep", forever)
        await asyncio.wait_for(waits.adecided(), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    world.gate.drops = 0
    [again] = guard.pending()
    assert resolved(again.decided(0))[1].who.attempt == 2


def test_a_file_that_cannot_be_used_keeps_nobody_from_being_asked(world: World) -> None:
    guard = world.guard()
    run = begin(guard)
    go(run, "read", x=1)
    [store] = world.stores
    store.close()
    waits = run.escalate("May it go on?")
    world.decide(waits, RESUME, change=added(steps=1))
    assert len(world.gate.of("checkpoint.opened")) == 1
    assert resolved(waits.decided(0))[1].who.attempt == 2


def test_a_stop_waits_for_no_receipt(world: World) -> None:
    guard = world.guard()
    waits = handed_over(guard)
    world.decide(waits, STOP)
    world.gate.drops = 9
    found = waits.decided(0)
    assert found is not None
    assert found.action is STOP
    assert said(begin(guard, run_id=None, root_task_id=str(RUN)).check("read", {})) == "cancelled"


def test_one_thread_at_a_time_waits_with_a_handle(world: World) -> None:
    waits = handed_over(world.guard())
    world.told()

    def meanwhile(seconds: float) -> None:
        with pytest.raises(Refused) as refused:
            waits.decided(0)
        assert refused.value.code == "in_hand"
        world.decide(waits, RESUME, change=added(steps=1))

    object.__setattr__(waits._means, "sleep", meanwhile)
    found = waits.decided(30)
    assert found is not None
    assert waits.decided(0) is found
