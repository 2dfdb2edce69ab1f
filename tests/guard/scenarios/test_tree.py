"""Tasks of several runs: helpers are guarded runs of the same root, and the root's limits hold for all."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from uuid import UUID, uuid5

import pytest

from guardops.guard.events import Outcome
from guardops.guard.reasons import Reason
from guardops.guard.scenarios import delivery
from guardops.guard.scenarios.roster import DELIVERY, Start
from guardops.guard.scenarios.tree import HELPER, Tree
from guardops.guard.session import Guard

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
SPACE = UUID(int=7)


def play(start: Start, seed: int = 1) -> Tree:
    tree = Tree(
        Guard(DELIVERY.policy, jitter=lambda: 0.0),
        delivery.JOB,
        delivery.AGENT,
        "lead-1",
        make_id=lambda started_at, path: uuid5(SPACE, f"{started_at} {path}"),
    )
    tree.play(start(Random(seed)), NOW)
    return tree


@pytest.mark.parametrize("seed", range(20))
def test_a_lead_that_splits_its_work_is_never_stopped(seed: int) -> None:
    events = play(delivery.splits_the_work, seed).events

    assert {event.halt_reason for event in events} == {None}
    assert events[-1].parent_run_id is None
    assert {event.parent_run_id for event in events[:-1]} == {events[-1].run_id}
    assert {event.agent for event in events[:-1]} == {HELPER}


def test_a_helper_runs_while_its_lead_waits_for_it() -> None:
    *helpers, lead = play(delivery.splits_the_work).events

    for helper in helpers:
        assert lead.started_at < helper.started_at < helper.ended_at < lead.ended_at


def test_a_package_that_comes_back_unchanged_halts_at_its_second_round() -> None:
    (event,) = play(delivery.hands_it_back_and_forth).events

    assert (event.outcome, event.halt_reason) == (Outcome.HALTED, Reason.LINEAGE_PING_PONG)
    assert [row.count for row in event.ledger if row.tool == "hand_over"] == [2, 1]


def test_work_that_schedules_itself_ends_where_the_hops_do() -> None:
    events = play(delivery.schedules_itself).events

    assert len(events) == DELIVERY.policy.limits.hops + 1
    assert (events[0].outcome, events[0].halt_reason) == (Outcome.COMPLETED_FORCED, Reason.HOP_BUDGET)
    assert [event.lineage.hops_remaining for event in events[:-1] if event.lineage] == [0, 1, 2, 3]
    assert {event.root_task_id for event in events} == {str(events[-1].run_id)}


def test_a_lead_that_hires_without_end_is_stopped_by_the_roots_descendants() -> None:
    *helpers, lead = play(delivery.starts_helpers_without_end).events

    assert len(helpers) == DELIVERY.policy.limits.descendants
    assert lead.halt_reason == Reason.DESCENDANTS_BUDGET


def test_a_second_attempt_belongs_to_the_task_of_the_first() -> None:
    first = play(delivery.splits_the_work).events[-1]
    tree = play(delivery.splits_the_work, seed=2)
    again = tree.play(delivery.splits_the_work(Random(2)), NOW, resumed=first)

    assert (again.root_task_id, again.attempt, again.resumed_from) == (
        first.root_task_id,
        2,
        first.run_id,
    )
