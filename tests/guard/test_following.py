"""A run that follows what is published: at its start everything, later what tightens, and orders to stop."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from guardops.guard.bundle import SigningKey, read_bundle
from guardops.guard.decisions import AddedBudget, Decision, DecisionAction, DecisionChange, sign
from guardops.guard.escalation import Escalation
from guardops.guard.events import Action, Envelope, Mode, OnTimeout, Outcome, PolicyInForce, PolicySource
from guardops.guard.kept_checkpoints import OpenCheckpoint
from guardops.guard.policy import Policy
from guardops.guard.session import AgentRun, Check, Guard, Verdict
from guardops.guard.snapshot import NOTHING, Snapshot
from guardops.guard.sqlite import SqliteStore
from guardops.guard.stores import Store
from tests.guard.agent import said
from tests.guard.test_bundle import make_document

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


class Published:
    """What a client has pulled: put there by the test."""

    guard = "4f6e1c1e-0000-4000-8000-000000000000"

    def __init__(self) -> None:
        self.snapshot: Snapshot = NOTHING
        self.closed = False

    def publish(self, **document: Any) -> None:
        document.setdefault("defaults", {})
        document.setdefault("job_types", {})
        document.setdefault("blocked", [])
        document.setdefault("revision", self.snapshot.revision + 1)
        body = msgspec.json.encode(make_document(**document))
        self.snapshot = Snapshot(read_bundle(body, tenant="acme"), PolicySource.SERVER, NOW)

    def limits(self, **limits: Any) -> None:
        self.publish(defaults={"limits": limits})

    def order(self, scope: str, name: str = "", **more: Any) -> None:
        self.publish(stops=[{"scope": scope, "name": name, "id": "s1", "reason": "r", **more}])

    def close(self) -> None:
        self.closed = True


class World:
    """A guard that follows, and a clock for all of it."""

    def __init__(self, declared: Policy | None = None, store: Store | None = None) -> None:
        self.seconds = 0.0
        self.published = Published()
        self.guard = Guard(
            declared, store=store, policies=self.published, jitter=lambda: 0.0, now=self.moment
        )

    def moment(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def run(self, job_type: str = "research", **more: Any) -> AgentRun:
        begun = self.seconds
        return self.guard.run(job_type=job_type, clock=lambda: self.seconds - begun, **more)


@pytest.fixture
def world() -> World:
    return World()


def step(run: AgentRun, url: str = "https://a.example/", tool: str = "fetch") -> Check:
    """Make one call that is like no other."""
    check = run.check(tool, {"url": url, "n": run.counts.tool_calls})
    if check.ticket is not None:
        run.observe(check.ticket, result=run.counts.tool_calls, progressed=True)
    return check


def test_a_run_starts_under_what_is_published_for_its_job_type(world: World) -> None:
    world.published.publish(
        defaults={"limits": {"max_steps": 30}}, job_types={"research": {"version": 7, "mode": "shadow"}}
    )
    research, other = world.run(), world.run("other")
    assert (research.policy.limits.max_steps, research.policy.mode) == (30, Mode.SHADOW)
    assert other.policy.mode is Mode.ENFORCE


def test_without_a_bundle_the_declared_policy_holds() -> None:
    world = World(Policy.from_mapping({"max_steps": 3}))
    run = world.run()
    assert run.policy.limits.max_steps == 3
    assert run.end().policy == PolicyInForce()


def test_a_lower_cap_reaches_a_running_run(world: World) -> None:
    run = world.run()
    assert step(run).allowed
    world.published.limits(max_steps=1)
    assert said(step(run)) == "step_budget"
    assert run.end().limits["max_steps"] == 1


def test_a_raised_cap_is_for_new_runs_only(world: World) -> None:
    world.published.limits(max_steps=1)
    run = world.run()
    world.published.limits(max_steps=9)
    assert [step(run).allowed for _ in range(2)] == [True, False]
    new = world.run()
    assert [step(new).allowed for _ in range(2)] == [True, True]


def test_a_roots_budget_is_lowered_for_all_its_processes_and_never_raised(tmp_path: Path) -> None:
    with_files = [SqliteStore(tmp_path / "guard.db") for _ in range(2)]
    world, elsewhere = World(store=with_files[0]), World(store=with_files[1])
    lead = world.run(root_task_id="root")
    helper = elsewhere.run("other", root_task_id="root")
    world.published.limits(max_steps=2)
    assert [step(lead).allowed for _ in range(2)] == [True, True]
    assert said(step(helper)) == "step_budget"
    world.published.limits(max_steps=9)
    assert not step(helper).allowed
    for store in with_files:
        store.close()


def test_a_new_block_refuses_the_next_fetch(world: World) -> None:
    run = world.run()
    assert step(run).allowed
    world.published.publish(blocked=[{"kind": "domain", "name": "a.example"}])
    check = step(run)
    assert (check.action, said(check)) == (Action.HALT, "blocked_source")


def test_an_exact_host_blocks_nothing_below_it(world: World) -> None:
    world.published.publish(blocked=[{"kind": "domain", "name": "a.example", "exact": True}])
    assert step(world.run(), "https://www.a.example/").allowed
    assert said(step(world.run(), "https://a.example/")) == "blocked_source"


def test_a_lifted_block_is_for_new_runs_and_an_expired_one_for_all(world: World) -> None:
    ends = (NOW + timedelta(seconds=60)).isoformat()
    world.published.publish(blocked=[{"kind": "domain", "name": name} for name in ("a.example", "b.example")])
    lifted = world.run()
    world.published.publish(blocked=[{"kind": "domain", "name": "b.example", "expires_at": ends}])
    expiring, new = world.run(), world.run()
    assert step(new, "https://a.example/").allowed
    assert said(step(lifted, "https://a.example/")) == "blocked_source"
    world.seconds = 60.0
    assert step(expiring, "https://b.example/").allowed


def test_shadow_becomes_enforce_in_a_running_run(world: World) -> None:
    world.published.publish(defaults={"mode": "shadow", "tools": {"rm": {"forbidden": True}}})
    run = world.run()
    assert step(run, tool="rm").allowed
    world.published.publish(defaults={"mode": "enforce", "tools": {"rm": {"forbidden": True}}})
    assert said(step(run, tool="rm")) == "forbidden_tool"


def test_a_version_that_ends_gives_way_without_a_word_of_the_server(world: World) -> None:
    ends = (NOW + timedelta(seconds=60)).isoformat()
    raised = {"limits": {"max_steps": 50}, "until": ends, "then": {"limits": {"max_steps": 2}}}
    world.published.publish(job_types={"research": {"version": 3, **raised}})
    run = world.run()
    assert all(step(run).allowed for _ in range(3))
    world.seconds = 60.0
    assert said(step(run)) == "step_budget"


@pytest.mark.parametrize("place", ["check", "observe", "reserve_turn", "turn"])
def test_an_order_ends_a_running_run_at_its_next_step(world: World, place: str) -> None:
    run = world.run()
    ticket = run.check("fetch", {}).ticket
    assert ticket is not None
    world.published.order("tenant")
    answers: dict[str, Callable[[], Check | Verdict]] = {
        "check": lambda: run.check("other", {}),
        "observe": lambda: run.observe(ticket, result="r"),
        "reserve_turn": run.reserve_turn,
        "turn": run.turn,
    }
    answer = answers[place]()
    assert (answer.action, said(answer)) == (Action.HALT, "operator_stop")
    assert answer.message == "The run was stopped by a person: r"
    event = run.end(Outcome.COMPLETED)
    assert (event.outcome, event.halt_reason) == (Outcome.HALTED, "operator_stop")
    assert event.halt_detail is not None
    assert event.halt_detail["stop"] == {"id": "s1", "reason": "r"}


@pytest.mark.parametrize(
    ("scope", "name", "ends"),
    [
        ("tenant", "", True),
        ("job_type", "research", True),
        ("job_type", "other", False),
        ("task", "root", True),
        ("task", "another", False),
        ("run", "foreign-7", True),
        ("run", "foreign-8", False),
    ],
)
def test_an_order_is_about_what_it_names(world: World, scope: str, name: str, ends: bool) -> None:
    run = world.run(root_task_id="root", external_id="foreign-7")
    world.published.order(scope, name)
    assert (said(step(run)) == "operator_stop") is ends


def test_an_order_about_a_run_leaves_its_root_alone_and_one_about_the_task_does_not(world: World) -> None:
    first, second, third = (world.run(root_task_id="root") for _ in range(3))
    world.published.order("run", str(first.who.run_id))
    assert not step(first).allowed
    assert step(second).allowed
    world.published.order("task", "root")
    assert not step(second).allowed
    world.published.publish()
    assert said(step(third)) == "operator_stop", "its root is over, lifted or not"


def test_a_lifted_order_does_not_revive_what_it_stopped(world: World) -> None:
    run = world.run()
    world.published.order("job_type", "research")
    assert not step(run).allowed
    world.published.publish()
    assert said(step(run)) == "operator_stop"
    assert said(step(world.run(run_id=run.who.run_id))) == "requeue_refused"
    assert step(world.run()).allowed


def test_a_run_does_not_begin_under_an_order_and_its_task_is_free_once_it_is_lifted(world: World) -> None:
    world.published.order("tenant", expires_at=(NOW + timedelta(seconds=60)).isoformat())
    run = world.run(root_task_id="root")
    assert said(run.reserve_turn()) == "operator_stop"
    event = run.end()
    assert (event.outcome, event.halt_detail) == (
        Outcome.HALTED,
        {"stop": {"id": "s1", "reason": "r"}},
    )
    world.seconds = 60.0
    assert step(world.run(root_task_id="root")).allowed, "the order is over by itself"


def test_an_order_of_another_tenant_is_not_obeyed(world: World) -> None:
    world.published.order("tenant")
    run = world.run(tenant="beta")
    assert step(run).allowed
    world.published.order("tenant")
    assert step(run).allowed
    assert run.end().policy == PolicyInForce()
    assert said(world.run(tenant="acme").reserve_turn()) == "operator_stop"


@pytest.mark.parametrize(("on_stale", "most"), [("keep", 200), ("builtin", 40)])
def test_an_old_bundle_holds_as_the_policy_says(world: World, on_stale: str, most: int) -> None:
    world.published.publish(defaults={"limits": {"max_steps": 200}, "on_stale": on_stale})
    world.seconds = 86_401.0
    assert world.run().policy.limits.max_steps == most


def test_where_an_old_bundle_will_not_do_no_run_begins(world: World) -> None:
    world.published.publish(defaults={"on_stale": "refuse"})
    assert step(world.run()).allowed
    world.seconds = 86_401.0
    assert said(world.run().reserve_turn()) == "budget_unavailable"


def test_events_name_the_policy_in_force(world: World) -> None:
    world.published.publish(job_types={"research": {"version": 7, "mode": "shadow"}})
    run = world.run()
    world.published.publish(job_types={"research": {"version": 8}})
    world.seconds = 12.0
    step(run)
    assert run.end().policy == PolicyInForce(
        revision_start=1, revision_end=2, version=7, mode=Mode.ENFORCE, age_s=12, src=PolicySource.SERVER
    )


DECLARED = Policy.from_mapping(
    {
        "max_steps": 25,
        "max_turns": 5,
        "blocked": ["own.example"],
        "tools": {
            "pay": {"class": "side_effect", "max_retries": 0},
            "status": {"poll": {"interval": 5, "max_attempts": 3}},
        },
    }
)


def test_the_published_word_goes_first_and_the_declared_one_fills_in() -> None:
    world = World(DECLARED)
    world.published.publish(
        defaults={"limits": {"max_steps": 60}, "tools": {"pay": {"approval": True}}},
        blocked=[{"kind": "domain", "name": "a.example"}],
    )
    policy = world.run().policy
    assert (policy.limits.max_steps, policy.limits.max_turns) == (60, 5)
    assert (policy.tool("pay").side_effect, policy.tool("pay").max_retries) == ("side_effect", 0)
    assert policy.tool("pay").approval
    assert policy.tool("status").poll is not None
    assert {block.name for block in policy.blocked} == {"a.example", "own.example"}


def test_a_published_allow_list_forbids_what_is_only_declared() -> None:
    world = World(DECLARED)
    world.published.publish(defaults={"allow_list": True, "tools": {"pay": {}}})
    policy = world.run().policy
    assert [policy.tool(name).forbidden for name in ("pay", "status", "other")] == [False, True, True]


def test_declared_limits_that_do_not_go_with_published_ones_give_way() -> None:
    world = World(Policy.from_mapping({"window": 6, "max_turns": 5, "tools": {"pay": {"class": "write"}}}))
    world.published.limits(cycle_reps=6)
    policy = world.run().policy
    assert (policy.limits.cycle_reps, policy.limits.window, policy.limits.max_turns) == (6, 12, 40)
    assert policy.tool("pay").writes


def test_a_step_without_news_reads_no_policy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.published.publish()
    run = world.run()
    confirmed = Snapshot(world.published.snapshot.bundle, PolicySource.SERVER, NOW + timedelta(seconds=30))
    world.published.snapshot = confirmed
    monkeypatch.setattr("guardops.guard.following.rules_of", pytest.fail)
    assert step(run).allowed
    run.turn()


def test_a_fault_while_catching_up_is_noted_once_and_the_run_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    world.published.limits(max_steps=1)

    def broken(*_: object) -> Policy:
        raise ArithmeticError

    monkeypatch.setattr("guardops.guard.following.tighten", broken)
    assert step(run).allowed
    assert step(run).allowed
    assert run.counts.faults == ["ArithmeticError"]


def test_work_is_signed_and_taken_on_with_the_bundles_secrets(world: World) -> None:
    old = {"kid": "k0", "secret": "o", "not_after": (NOW + timedelta(hours=1)).isoformat()}
    world.published.publish(signing=[{"kid": "k1", "secret": "s", "not_after": None}, old])
    lead = world.run()
    envelope = lead.envelope({"find": "it"})
    assert isinstance(envelope, Envelope)
    assert (envelope.kid, envelope.policy_revision) == ("k1", 1)
    worker = world.run(envelope=envelope)
    assert step(worker).allowed
    world.published.order("task", lead.who.root_task_id)
    assert said(step(worker)) == "operator_stop", "it belongs to the task that handed it over"


def test_the_process_has_the_name_of_its_client(world: World) -> None:
    assert world.guard.instance == Published.guard
    world.guard.close()
    assert world.published.closed


def test_what_a_person_has_added_to_a_task_outlives_a_newer_policy_that_tightens_something_else() -> None:
    world = World(Policy.from_mapping({"max_steps": 2}))
    key = SigningKey(kid="k1", secret="s")
    world.guard.signing = [key]
    first = world.run()
    step(first)
    waits = first.escalate()
    world.guard.store.checkpoints.save(granted(waits, key, steps=3), hand(world.guard, waits))
    world.guard.store.checkpoints.give_back(waits.checkpoint_id, "test")
    found = waits.decided(0)
    assert found is not None
    assert found.run is not None
    assert found.run.policy.limits.max_steps == 5
    world.published.publish(defaults={"limits": {"max_refusals": 1}})
    assert [step(found.run).allowed for _ in range(5)] == [True, True, True, True, False]


def hand(guard: Guard, waits: Escalation) -> str:
    guard.store.checkpoints.take(waits.checkpoint_id, "test")
    return "test"


def granted(waits: Escalation, key: SigningKey, **added: int) -> OpenCheckpoint:
    """Return what is kept of a run that waits, with a decision that was consumed."""
    one = waits._one
    decision = Decision(
        decision_id=UUID(int=1),
        checkpoint_id=one.checkpoint_id,
        tenant="acme",
        action=DecisionAction.RESUME,
        artifact_digest=one.artifact_digest,
        version=1,
        expires_at=one.expires_at,
        change=DecisionChange(budget=AddedBudget(**added)),
    )
    return msgspec.structs.replace(
        one, decision=sign(decision, key), attempt_id=UUID(int=2), settled_as=DecisionAction.RESUME
    )


def test_what_holds_where_nobody_decides_is_the_policys_unless_the_application_says_so(world: World) -> None:
    world.published.publish(defaults={"review": {"on_timeout": "force_answer"}})
    usual = world.run().escalate()
    other = world.run().escalate(on_timeout=OnTimeout.STOP)
    assert usual.event is not None
    assert other.event is not None
    assert (usual.event.on_timeout, other.event.on_timeout) == (OnTimeout.FORCE_ANSWER, OnTimeout.STOP)
