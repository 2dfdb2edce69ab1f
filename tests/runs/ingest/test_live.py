from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from guardops.tenants.models import Tenant
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import MAX_BACK, MAX_BACKFILL
from runs.models import ExternalRun, LiveRun, Run
from tests.factories import make_run_id, make_tenant

from .wire import make_event, make_heartbeat, make_rows, make_started

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
RUN = str(make_run_id(NOW))
EXTERNAL: dict[str, Any] = {"run_id": None, "external_id": "job-1"}


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def store(
    tenant: Tenant, *events: dict[str, Any], at: datetime = NOW, max_back: timedelta = MAX_BACK
) -> Recorded:
    return record_runs(make_rows(*events, tenant_id=tenant.pk, received_at=at, max_back=max_back))


def outcome(recorded: Recorded) -> tuple[int, int, list[tuple[int, str]]]:
    """Return how many events were accepted and were duplicates, and the others by index and code."""
    others = [(result.index, result.code) for result in recorded.results if result.code != "duplicate"]
    return recorded.accepted, recorded.duplicates, others


def started(**fields: Any) -> dict[str, Any]:
    return make_started(**{"run_id": RUN, "started_at": NOW} | fields)


def beat(seq: int = 1, **fields: Any) -> dict[str, Any]:
    return make_heartbeat(**{"run_id": RUN, "at": NOW, "seq": seq} | fields)


def ended(**fields: Any) -> dict[str, Any]:
    return make_event(**{"run_id": RUN, "ended_at": NOW + timedelta(seconds=40), "started_at": NOW} | fields)


def only() -> LiveRun:
    return LiveRun.objects.get()


def test_start_makes_a_live_run(tenant: Tenant) -> None:
    parent, before = make_run_id(NOW), make_run_id(NOW)
    event = started(
        root_task_id="ticket-7",
        parent_run_id=str(parent),
        resumed_from=str(before),
        attempt=2,
        release="7",
        prompt_version="p9",
        started_at=NOW - timedelta(seconds=3),
        envelope={"root_task_id": "ticket-7", "hops_remaining": 3, "deadline": "2030-01-01T01:00:00+01:00"},
        limits={"max_steps": 40},
        policy={"revision_start": 8, "mode": "shadow"},
        guard={"version": "0.1"},
    )
    assert outcome(store(tenant, event)) == (1, 0, [])
    run = only()
    assert (run.tenant_id, str(run.run_id), run.external_id) == (tenant.pk, RUN, "")
    assert (run.root_task_id, run.parent_run_id, run.resumed_from) == ("ticket-7", parent, before)
    assert (run.attempt, run.job_type, run.agent, run.release) == (2, "research", "researcher", "7+p9")
    assert run.started_at == NOW - timedelta(seconds=3)
    assert (run.received_at, run.last_at, run.seq) == (NOW, NOW, -1)
    assert (run.steps, run.turns, run.cost, run.pressure, run.pressure_limit) == (0, 0, 0, 0, "")
    assert (run.pressures, run.sources) == ({}, [])
    assert (run.clock_suspect, run.sanitized) == (False, False)
    assert run.detail["envelope"]["deadline"] == "2030-01-01T00:00:00Z"
    assert run.detail["limits"] == {"max_steps": 40}
    assert run.detail["policy"] == {"revision_start": 8, "mode": "shadow"}
    assert run.detail["prompt_version"] == "p9"


def test_envelope_names_task_and_parent_of_a_start_that_does_not(tenant: Tenant) -> None:
    parent = make_run_id(NOW)
    store(tenant, started(envelope={"root_task_id": "ticket-7", "parent_run_id": str(parent)}))
    assert (only().root_task_id, only().parent_run_id) == ("ticket-7", parent)


def test_heartbeat_moves_a_live_run_on(tenant: Tenant) -> None:
    store(tenant, started())
    sources = [{"kind": "domain", "name": "a.example", "calls": 3}]
    event = beat(
        7, steps=9, turns=8, cost="1.5", pressure={"max_steps": 0.29, "max_cost": 0.875}, sources=sources
    )
    assert outcome(store(tenant, event, at=NOW + timedelta(seconds=5))) == (1, 0, [])
    run = only()
    assert (run.seq, run.steps, run.turns, run.cost) == (7, 9, 8, Decimal("1.5"))
    assert (run.pressure, run.pressure_limit) == (87, "max_cost")
    assert (run.pressures, run.sources) == ({"max_steps": 0.29, "max_cost": 0.875}, sources)
    assert (run.received_at, run.last_at) == (NOW, NOW + timedelta(seconds=5))
    assert (run.job_type, run.started_at) == ("research", NOW)


def test_share_is_shown_in_whole_percent_that_were_reached(tenant: Tenant) -> None:
    store(
        tenant, *(beat(run_id=str(make_run_id(NOW)), pressure={"x": share}) for share in (0.29, 0.799, 100))
    )
    assert sorted(LiveRun.objects.values_list("pressure", flat=True)) == [29, 79, 10_000]


def test_heartbeat_with_the_highest_number_counts(tenant: Tenant) -> None:
    assert outcome(store(tenant, *(beat(seq, steps=seq) for seq in (2, 5, 3, 5)))) == (2, 2, [])
    assert (only().seq, only().steps) == (5, 5)
    assert outcome(store(tenant, beat(4, steps=4), at=NOW + timedelta(hours=1))) == (0, 1, [])
    assert (only().seq, only().steps, only().last_at) == (5, 5, NOW)


def test_heartbeat_without_a_start_makes_a_live_run_of_what_it_knows(tenant: Tenant) -> None:
    assert outcome(store(tenant, beat(3, at=None))) == (1, 0, [])
    run = only()
    assert (run.job_type, run.seq, run.steps, run.started_at) == ("", 3, 3, NOW)


def test_late_start_fills_in_what_heartbeats_did_not_know(tenant: Tenant) -> None:
    store(tenant, beat(3))
    assert outcome(store(tenant, started(started_at=NOW - timedelta(seconds=9)))) == (1, 0, [])
    run = only()
    assert (run.job_type, run.seq, run.steps, run.started_at) == (
        "research",
        3,
        3,
        NOW - timedelta(seconds=9),
    )
    assert (run.pressure, run.pressure_limit) == (50, "max_seconds")


def test_end_takes_the_live_run_away(tenant: Tenant) -> None:
    other = make_tenant()
    for owner in (tenant, other):
        store(owner, started(), beat())
    assert outcome(store(tenant, ended())) == (1, 0, [])
    assert only().tenant_id == other.pk
    assert Run.objects.get().announced


def test_run_that_no_start_announced_is_not_said_to_be(tenant: Tenant) -> None:
    store(tenant, beat())
    store(tenant, ended())
    assert not Run.objects.get().announced


def test_start_after_its_end_is_accepted_and_leaves_nothing(tenant: Tenant) -> None:
    store(tenant, ended())
    assert outcome(store(tenant, started())) == (1, 0, [])
    assert not LiveRun.objects.exists()


def test_heartbeat_after_the_end_is_old(tenant: Tenant) -> None:
    store(tenant, started(), ended())
    assert outcome(store(tenant, beat(9))) == (0, 1, [])
    assert not LiveRun.objects.exists()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_run_that_began_and_ended_in_a_request_leaves_no_live_run(
    tenant: Tenant, order: tuple[int, ...]
) -> None:
    events = [started(), beat(), ended()]
    sent = [events[place] for place in order]
    assert outcome(store(tenant, *sent)) == (3, 0, [])
    assert outcome(store(tenant, *sent)) == (0, 3, [])
    assert not LiveRun.objects.exists()
    assert Run.objects.get().announced


def test_resend_is_a_duplicate_and_changes_nothing(tenant: Tenant) -> None:
    events = [started(), beat(1), beat(2, steps=8)]
    store(tenant, *events)
    before = LiveRun.objects.values().get()
    assert outcome(store(tenant, *events, at=NOW + timedelta(hours=1))) == (0, 3, [])
    assert LiveRun.objects.values().get() == before


def test_other_start_under_the_same_id_is_a_conflict_and_the_first_stays(tenant: Tenant) -> None:
    store(tenant, started())
    recorded = store(tenant, started(job_type="other"))
    assert outcome(recorded) == (0, 0, [(0, "different_body")])
    assert recorded.results[0].field == "run_id"
    assert only().job_type == "research"


def test_end_that_conflicts_leaves_other_live_runs(tenant: Tenant) -> None:
    store(tenant, ended())
    other = started(run_id=str(make_run_id(NOW)))
    assert outcome(store(tenant, ended(steps=9), other)) == (1, 0, [(0, "different_body")])
    assert str(only().run_id) == other["run_id"]


def test_same_id_in_two_tenants_is_two_live_runs(tenant: Tenant) -> None:
    other = make_tenant()
    rows = make_rows(started(), tenant_id=tenant.pk) + make_rows(started(job_type="b"), tenant_id=other.pk)
    assert outcome(record_runs(rows)) == (2, 0, [])
    assert LiveRun.objects.for_tenants([other.pk]).get().job_type == "b"


def test_external_id_is_one_run_from_its_start_to_its_end(tenant: Tenant) -> None:
    store(tenant, started(**EXTERNAL))
    live = only()
    assert (live.external_id, live.root_task_id) == ("job-1", "job-1")
    assert outcome(store(tenant, beat(**EXTERNAL))) == (1, 0, [])
    assert (only().run_id, only().seq) == (live.run_id, 1)
    assert outcome(store(tenant, ended(**EXTERNAL))) == (1, 0, [])
    assert not LiveRun.objects.exists()
    run = Run.objects.get()
    assert (run.run_id, run.announced) == (live.run_id, True)
    assert outcome(store(tenant, started(**EXTERNAL), beat(**EXTERNAL), ended(**EXTERNAL))) == (0, 3, [])


def test_external_id_within_a_request_is_one_run(tenant: Tenant) -> None:
    events = [beat(**EXTERNAL), ended(**EXTERNAL), started(**EXTERNAL)]
    assert outcome(store(tenant, *events)) == (3, 0, [])
    assert ExternalRun.objects.get().run_id == Run.objects.get().run_id
    assert not LiveRun.objects.exists()


def test_external_run_of_several_days_gets_an_id_of_its_end(tenant: Tenant) -> None:
    store(tenant, started(**EXTERNAL, started_at=NOW - timedelta(days=3)))
    lived_as = only().run_id
    assert outcome(store(tenant, ended(**EXTERNAL, started_at=NOW - timedelta(days=3)))) == (1, 0, [])
    assert not LiveRun.objects.exists()
    assert Run.objects.get().run_id not in (lived_as, None)
    assert outcome(store(tenant, beat(9, **EXTERNAL))) == (0, 1, [])


def test_run_id_that_no_run_can_be_stored_under_lives_as_it_was_sent(tenant: Tenant) -> None:
    odd = "c0ffee00-0000-4000-8000-000000000000"
    store(tenant, started(run_id=odd))
    assert str(only().run_id) == odd
    store(tenant, ended(run_id=odd))
    assert not LiveRun.objects.exists()
    assert outcome(store(tenant, started(run_id=odd), beat(run_id=odd))) == (0, 2, [])


@pytest.mark.parametrize(
    ("off", "max_back", "suspect"),
    [
        (timedelta(minutes=4), MAX_BACK, False),
        (timedelta(minutes=6), MAX_BACK, True),
        (timedelta(days=-34), MAX_BACK, False),
        (timedelta(days=-36), MAX_BACK, True),
        (timedelta(days=-36), MAX_BACKFILL, False),
        (timedelta(days=-399), MAX_BACKFILL, False),
        (timedelta(days=-401), MAX_BACKFILL, True),
        (timedelta(days=36_500), MAX_BACKFILL, True),
    ],
)
@pytest.mark.parametrize("kind", ["started", "heartbeat"])
def test_sign_of_a_suspect_clock_is_placed_at_its_receipt(
    tenant: Tenant, kind: str, off: timedelta, max_back: timedelta, suspect: bool
) -> None:
    event = started(started_at=NOW + off) if kind == "started" else beat(at=NOW + off)
    assert outcome(store(tenant, event, max_back=max_back)) == (1, 0, [])
    assert (only().clock_suspect, only().started_at) == (suspect, NOW if suspect else NOW + off)


def test_what_was_cleaned_is_flagged_and_named(tenant: Tenant) -> None:
    rows = make_rows(started(), beat(), tenant_id=tenant.pk, sanitized=True)
    assert outcome(record_runs(rows)) == (2, 0, [(0, "sanitized"), (1, "sanitized")])
    assert only().sanitized


def test_value_that_a_column_refuses_is_named_and_the_others_stored(tenant: Tenant) -> None:
    ids = [str(make_run_id(NOW)) for _ in range(3)]
    rows = make_rows(*[beat(run_id=run_id) for run_id in ids], ended(), tenant_id=tenant.pk, received_at=NOW)
    rows[1].columns = rows[1].columns.replace(b'"steps":3', b'"steps":-3')
    recorded = record_runs(rows)
    assert (recorded.refused, outcome(recorded)) == (1, (3, 0, [(1, "refused")]))
    assert LiveRun.objects.count() == 2
    assert Run.objects.count() == 1


def test_end_that_a_column_refuses_leaves_its_run_alive(tenant: Tenant) -> None:
    store(tenant, started())
    rows = make_rows(beat(), ended(), tenant_id=tenant.pk, received_at=NOW)
    rows[1].body = rows[1].body.replace(b"\0\0\0\x09completed", b"\0\0\0\x09cOmpleted", 1)
    assert outcome(record_runs(rows)) == (1, 0, [(1, "refused")])
    assert only().seq == 1


@pytest.mark.django_db(transaction=True)
def test_five_resends_at_once_take_each_event_once(tenant: Tenant) -> None:
    ids = [str(make_run_id(NOW)) for _ in range(20)]
    events = [
        event
        for place, run_id in enumerate(ids)
        for event in (
            started(run_id=run_id),
            started(run_id=None, external_id=f"job-{place}"),
            beat(1, run_id=run_id),
            beat(2, run_id=run_id),
            beat(1, run_id=None, external_id=f"job-{place}"),
            *([ended(run_id=run_id)] if place % 2 else []),
        )
    ]
    found: list[Recorded] = []

    def send() -> None:
        try:
            found.append(store(tenant, *events))
        finally:
            connection.close()

    senders = [threading.Thread(target=send) for _ in range(5)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted((recorded.accepted, recorded.duplicates) for recorded in found) == [(0, 110)] * 4 + [
        (110, 0)
    ]
    assert (LiveRun.objects.count(), Run.objects.count()) == (30, 10)
