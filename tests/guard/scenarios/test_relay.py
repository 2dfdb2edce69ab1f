"""A package that two processes hand to and fro: their guards share nothing but the envelope."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from uuid import UUID, uuid5

from guardops.guard.events import RunEnded, WorkRefused
from guardops.guard.reasons import Reason
from guardops.guard.scenarios.relay import relay

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


def test_the_second_round_of_an_unchanged_package_is_not_taken_on() -> None:
    *runs, refused = relay(Random(1), "lead-1", NOW, lambda at, path: uuid5(UUID(int=7), f"{at} {path}"))

    assert all(isinstance(run, RunEnded) for run in runs)
    assert [run.agent for run in runs] == ["author", "reviewer", "author", "reviewer"]
    assert isinstance(refused, WorkRefused)
    assert (refused.reason, refused.agent) == (Reason.LINEAGE_PING_PONG, "author")
    assert refused.envelope is not None
    assert [link.agent for link in refused.envelope.chain] == [run.agent for run in runs]


def test_each_run_is_the_child_of_the_one_that_handed_over_and_of_the_same_task() -> None:
    events = list(relay(Random(1), "lead-1", NOW, lambda at, path: uuid5(UUID(int=7), f"{at} {path}")))
    runs = [event for event in events if isinstance(event, RunEnded)]

    assert [run.parent_run_id for run in runs[1:]] == [run.run_id for run in runs[:-1]]
    assert {run.root_task_id for run in runs} == {str(runs[0].run_id)}
    assert all(before.ended_at < after.started_at for before, after in pairwise(runs))
