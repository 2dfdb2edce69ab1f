from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest

from guardops.guard.bundle import SigningKey
from guardops.guard.envelope import (
    MAX_LINKS,
    Refusal,
    package_hash,
    receive,
    seconds_left,
    sign,
    within,
)
from guardops.guard.events import ChainLink, Envelope
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.guard.session import RunGuard
from tests.guard.agent import STARTED_AT, guard, said

KEY = SigningKey(kid="k1", secret="s3cret")
NEXT_KEY = SigningKey(kid="k2", secret="other", not_after=STARTED_AT + timedelta(days=1))
TOOLS = {"ask": {"kind": "delegate"}, "spawn": {"kind": "spawn"}}


def run_of(agent: str = "lead", /, **policy: Any) -> RunGuard:
    return guard(tools=TOOLS, **policy).run(job_type="research", agent=agent, clock=lambda: 0.0)


def made(run: RunGuard, package: object = "find it", **more: Any) -> Envelope:
    envelope = run.envelope(package, **more)
    assert isinstance(envelope, Envelope), envelope
    return envelope


def chain(*agents: str, package: str = "p") -> list[ChainLink]:
    return [ChainLink(agent=agent, package_hash=package) for agent in agents]


def reason(envelope: Envelope, agent: str = "worker", **more: Any) -> str | None:
    refusal = receive(envelope, agent=agent, **({"now": STARTED_AT} | more))
    return refusal.reason if refusal else None


def test_work_that_is_handed_over_gets_what_its_sender_has_left() -> None:
    run = run_of(hops=3, descendants=5, max_seconds=60)
    envelope = made(run, policy_revision=42)
    assert (envelope.root_task_id, envelope.parent_run_id) == (run.who.root_task_id, run.who.run_id)
    assert (envelope.hops_remaining, envelope.descendants_budget, envelope.policy_revision) == (2, 5, 42)
    assert envelope.deadline == STARTED_AT + timedelta(seconds=60)
    assert envelope.chain == [ChainLink(agent="lead", package_hash=package_hash("find it"))]
    assert made(run).descendants_budget == 4
    assert run.state.budgets.descendants.settled == 2


def test_the_sooner_of_deadline_and_time_limit_goes_along() -> None:
    run = guard(max_seconds=60).run(job_type="t", deadline=30, clock=lambda: 0.0)
    assert made(run).deadline == STARTED_AT + timedelta(seconds=30)


def test_a_call_that_hands_over_has_paid_already() -> None:
    run = run_of(descendants=2)
    ticket = run.check("spawn", {"task": 1}).ticket
    assert made(run, ticket=ticket).descendants_budget == 2
    assert run.state.budgets.descendants.settled == 1
    read = run.check("read", {}).ticket
    assert made(run, ticket=read).descendants_budget == 1
    assert run.state.budgets.descendants.settled == 2


def test_nothing_is_handed_over_without_hops_or_descendants() -> None:
    assert run_of(hops=0).envelope("p") == Refusal(Reason.HOP_BUDGET)
    run = run_of(descendants=1)
    assert made(run).descendants_budget == 1
    assert run.envelope("p") == Refusal(Reason.DESCENDANTS_BUDGET)


def test_descendants_are_charged_at_the_root() -> None:
    guarded = guard(descendants=3)
    parent, child = (guarded.run(job_type="t", root_task_id="root") for _ in range(2))
    made(parent)
    assert made(child).descendants_budget == 2
    assert made(parent).descendants_budget == 1
    assert child.envelope("p") == Refusal(Reason.DESCENDANTS_BUDGET)


def test_a_package_is_the_same_whatever_was_injected_into_it() -> None:
    package = {"task": "find it", "sources": ["a"]}
    assert package_hash(package) == package_hash({"request_id": "7", **package, "api_key": "k"})
    assert package_hash(package) != package_hash({**package, "sources": ["b"]})


def test_work_is_held_to_the_tighter_of_two_limits() -> None:
    envelope = Envelope(root_task_id="r", hops_remaining=2, descendants_budget=3)
    limits = within(Policy.from_mapping({"hops": 4, "descendants": 20}), envelope).limits
    assert (limits.hops, limits.descendants) == (2, 2), "who takes it on is one of the descendants"
    own = Policy.from_mapping({"hops": 1, "descendants": 0})
    assert (within(own, envelope).limits.hops, within(own, envelope).limits.descendants) == (1, 0)
    assert within(own, Envelope(root_task_id="r")) is own


def test_the_time_left_is_counted_from_the_start_of_who_takes_it_on() -> None:
    east = timezone(timedelta(hours=5, minutes=45))
    envelope = Envelope(root_task_id="r", deadline=(STARTED_AT + timedelta(seconds=90)).astimezone(east))
    assert seconds_left(envelope, STARTED_AT) == 90
    assert seconds_left(Envelope(root_task_id="r"), STARTED_AT) is None


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({}, None),
        ({"hops_remaining": 1, "descendants_budget": 1}, None),
        ({"hops_remaining": 0}, "hop_budget"),
        ({"descendants_budget": 0}, "descendants_budget"),
        ({"deadline": STARTED_AT}, "deadline"),
        ({"deadline": STARTED_AT.replace(tzinfo=None)}, "deadline"),
        ({"deadline": STARTED_AT + timedelta(seconds=1)}, None),
        ({"deadline": datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))}, None),
        ({"deadline": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, "deadline"),
    ],
)
def test_work_that_has_nothing_left_is_refused(fields: dict[str, Any], refused: str | None) -> None:
    assert reason(Envelope(root_task_id="r", **fields)) == refused


@pytest.mark.parametrize(
    ("agents", "taker", "refused"),
    [
        ("", "a", None),
        ("ab", "a", None),
        ("aba", "b", None),
        ("abab", "a", "lineage_ping_pong"),
        ("abab", "c", None),
        ("xabab", "a", "lineage_ping_pong"),
        ("abcabc", "a", "lineage_ping_pong"),
        ("abcabc", "d", None),
        ("abcdabcd", "a", "lineage_ping_pong"),
        ("abcdeabcde", "a", None),
    ],
)
def test_a_package_that_goes_round_twice_is_refused(agents: str, taker: str, refused: str | None) -> None:
    assert reason(Envelope(root_task_id="r", chain=chain(*agents)), taker) == refused


def test_a_package_that_changes_may_go_round() -> None:
    links = [ChainLink(agent=agent, package_hash=f"p{i}") for i, agent in enumerate("ababab")]
    assert reason(Envelope(root_task_id="r", chain=links), "a") is None


def test_real_hand_overs_there_and_back_are_refused_the_second_time_round() -> None:
    envelope: Envelope | None = None
    taken = []
    for agent in "abababab":
        if envelope is not None:
            if refused := reason(envelope, agent):
                break
            taken.append(agent)
        run = guard(hops=32).run(job_type="t", agent=agent, clock=lambda: 0.0)
        run.who = msgspec.structs.replace(run.who, chain=tuple(envelope.chain) if envelope else ())
        envelope = made(run, "the same")
    assert (taken, refused) == (["b", "a", "b"], "lineage_ping_pong")


def test_an_envelope_carries_the_newest_hand_overs_only() -> None:
    run = run_of("last")
    run.who = msgspec.structs.replace(run.who, chain=tuple(chain(*map(str, range(40)))))
    links = made(run).chain
    assert (len(links), links[-1].agent) == (MAX_LINKS, "last")


def test_a_signature_survives_the_wire_and_no_change() -> None:
    envelope = made(run_of(), key=KEY)
    sent = msgspec.json.decode(msgspec.json.encode(envelope), type=Envelope)
    assert (sent.kid, len(sent.signature or "")) == ("k1", 64)
    assert reason(sent, keys=[NEXT_KEY, KEY]) is None
    changes: list[dict[str, Any]] = [
        {"hops_remaining": 9},
        {"descendants_budget": 99},
        {"deadline": None},
        {"root_task_id": "other"},
        {"parent_run_id": UUID(int=1)},
        {"chain": []},
        {"policy_revision": 1},
        {"signature": "0" * 64},
        {"signature": "é\ud800"},
        {"signature": None},
        {"kid": "k2"},
        {"kid": "unknown"},
        {"kid": None},
    ]
    for change in changes:
        forged = msgspec.structs.replace(sent, **change)
        assert reason(forged, keys=[NEXT_KEY, KEY]) == "requeue_refused", change


def test_a_signature_is_void_when_its_key_has_expired() -> None:
    envelope = sign(Envelope(root_task_id="r"), NEXT_KEY)
    assert reason(envelope, keys=[NEXT_KEY]) is None
    late = receive(envelope, agent="w", now=STARTED_AT + timedelta(days=1), keys=[NEXT_KEY])
    assert late == Refusal(Reason.REQUEUE_REFUSED, "signed with a key that has expired")


def test_without_a_secret_nothing_is_signed_and_nothing_is_checked() -> None:
    assert made(run_of()).signature is None
    assert reason(Envelope(root_task_id="r")) is None
    assert reason(Envelope(root_task_id="r"), keys=[KEY]) == "requeue_refused"


def test_the_event_of_a_run_says_where_it_stands_in_its_tree() -> None:
    parent = UUID("01958c1e-0000-7000-8000-000000000009")
    run = guard(hops=2).run(job_type="t", root_task_id="root", parent_run_id=parent)
    run.who = msgspec.structs.replace(run.who, chain=tuple(chain("lead")))
    lineage = run.end().lineage
    assert lineage is not None
    assert (lineage.root, lineage.parent, lineage.hops_remaining) == ("root", str(parent), 2)
    assert lineage.chain == chain("lead")


def test_a_run_with_no_hops_left_spawns_nothing() -> None:
    policy = within(Policy.from_mapping({"tools": TOOLS}), Envelope(root_task_id="r", hops_remaining=0))
    run = guard().run(job_type="t", policy=policy)
    assert said(run.check("spawn", {})) == "hop_budget"
