"""The live demo: what its agents tell as time goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import httpx
import pytest

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import Outcome, RunEnded, RunHeartbeat, RunStarted
from guardops.guard.scenarios.roster import Job, jobs
from guardops.guard.scenarios.tarpit import Loopback, serving
from guardops.guard.wire import Event
from runs.replay.demo_tenants import TENANTS
from runs.replay.live import EARLIER, Stage

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
MINUTES = 12


@pytest.fixture(scope="module")
def roster() -> Iterator[Mapping[str, Job]]:
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        yield jobs(client)


@pytest.fixture(scope="module")
def stage(roster: Mapping[str, Job]) -> Stage:
    return Stage(TENANTS, roster, Random(3), NOW)


@pytest.fixture(scope="module")
def looks(stage: Stage) -> list[tuple[datetime, dict[str, list[Event]]]]:
    """Twelve minutes, a look a second."""
    moments = (NOW + timedelta(seconds=second) for second in range(60 * MINUTES))
    return [(moment, stage.look(moment)) for moment in moments]


@pytest.fixture(scope="module")
def told(looks: list[tuple[datetime, dict[str, list[Event]]]]) -> dict[UUID, list[Event]]:
    runs = defaultdict(list)
    for _, seen in looks:
        for events in seen.values():
            for event in events:
                if not isinstance(event, CheckpointOpened):
                    runs[event.run_id].append(event)
    return runs


def moment_of(event: Event) -> datetime:
    match event:
        case RunStarted():
            return event.started_at
        case RunHeartbeat(at=datetime() as at):
            return at
        case RunEnded():
            return event.ended_at
        case CheckpointOpened():
            return event.opened_at
    raise AssertionError(event)


def test_every_event_is_told_when_it_happens_and_not_before(
    looks: list[tuple[datetime, dict[str, list[Event]]]],
) -> None:
    earlier = NOW - EARLIER
    for moment, seen in looks:
        for events in seen.values():
            moments = [moment_of(event) for event in events]
            assert moments == sorted(moments)
            assert all(earlier < at <= moment for at in moments)
        earlier = moment - timedelta(seconds=1)


def test_a_run_starts_shows_how_far_it_is_and_ends(told: dict[UUID, list[Event]]) -> None:
    ended = [events for events in told.values() if isinstance(events[-1], RunEnded)]

    assert len(ended) > 80
    for first, *beats, last in ended:
        assert isinstance(first, RunStarted)
        assert [beat.seq for beat in beats] == list(range(len(beats)))
        steps = [beat.steps for beat in beats]
        assert steps == sorted(steps)
        assert not steps or steps[-1] <= last.steps
        assert (first.job_type, first.root_task_id) == (last.job_type, last.root_task_id)


def test_every_tenant_sends_at_a_pace_that_people_can_follow(
    looks: list[tuple[datetime, dict[str, list[Event]]]],
) -> None:
    begun = dict.fromkeys((tenant.slug for tenant in TENANTS), 0)
    for _, seen in looks:
        for slug, events in seen.items():
            begun[slug] += sum(isinstance(e, RunStarted) and e.parent_run_id is None for e in events)

    assert all(2 * MINUTES < count < 8 * MINUTES for count in begun.values()), begun


def test_at_the_first_look_there_are_runs_under_way_and_none_that_is_over(
    looks: list[tuple[datetime, dict[str, list[Event]]]],
) -> None:
    first = [event for events in looks[0][1].values() for event in events]
    tasks = {event.root_task_id for event in first if isinstance(event, RunStarted)}
    over = {event.root_task_id for event in first if isinstance(event, RunEnded)}

    assert len(tasks) > 5
    helpers = {event.root_task_id for event in first if isinstance(event, RunEnded) and event.parent_run_id}
    assert over == helpers


def test_some_runs_come_near_a_limit_and_some_never_end(stage: Stage, told: dict[UUID, list[Event]]) -> None:
    beats = [event for events in told.values() for event in events if isinstance(event, RunHeartbeat)]
    silent = [events[-1] for events in told.values() if not isinstance(events[-1], RunEnded)]
    long_ago = NOW + timedelta(minutes=MINUTES - 6)
    pressed = {beat.run_id for beat in beats if max(beat.pressure.values()) >= 0.8}

    assert len(pressed) > 3
    assert {name for beat in beats for name in beat.pressure} >= {"max_steps", "max_turns", "max_seconds"}
    assert any(moment_of(event) < long_ago for event in silent)


def test_told_to_stop_every_live_run_ends_cancelled_where_it_was(roster: Mapping[str, Job]) -> None:
    stage = Stage(TENANTS, roster, Random(5), NOW)
    before = [event for events in stage.look(NOW).values() for event in events]
    live = {e.run_id for e in before if isinstance(e, RunStarted)}
    live -= {e.run_id for e in before if isinstance(e, RunEnded)}
    assert stage.live == len(live) > 3

    ends = [event for events in stage.close(NOW).values() for event in events]

    assert {end.run_id for end in ends if isinstance(end, RunEnded)} == live
    assert {end.outcome for end in ends if isinstance(end, RunEnded)} == {Outcome.CANCELLED}
    assert stage.live == 0
    assert not [event for events in stage.close(NOW).values() for event in events]
