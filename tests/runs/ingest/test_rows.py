from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from guardops.guard.ids import uuid7
from runs.ingest.rows import MAX_BACK, MAX_BACKFILL, Receipt, project
from runs.partitions import run_id_bounds
from tests.factories import make_run_id

from .wire import NOW, checked, make_ingest_row

DAY = timedelta(days=1)


def test_run_within_the_window_is_placed_at_its_end() -> None:
    ended_at = NOW - timedelta(hours=3)
    assert make_ingest_row(ended_at=ended_at).at == ended_at


@pytest.mark.parametrize(
    "times",
    [
        {"ended_at": NOW + timedelta(minutes=5, seconds=1)},
        {"ended_at": NOW - MAX_BACK - timedelta(seconds=1)},
        {"ended_at": "1970-01-01T00:00:00Z", "started_at": "1970-01-01T00:00:00Z"},
        {"ended_at": NOW, "started_at": NOW + timedelta(seconds=1)},
    ],
)
def test_run_of_a_suspect_clock_is_placed_at_its_receipt(times: dict[str, Any]) -> None:
    assert make_ingest_row(**times).at == NOW


@pytest.mark.parametrize("ended_at", [NOW + timedelta(minutes=5), NOW - MAX_BACK])
def test_run_at_the_edge_of_the_window_keeps_its_time(ended_at: Any) -> None:
    assert make_ingest_row(ended_at=ended_at).at == ended_at


def test_backfilled_run_keeps_its_time() -> None:
    ended_at = NOW - timedelta(days=399)
    receipt = Receipt(NOW, MAX_BACKFILL)
    row = project(checked(ended_at=ended_at), receipt, index=0, tenant_id=1, sanitized=False)
    assert row.at == ended_at
    assert row.foreign_id is None


@pytest.mark.parametrize("made", [NOW - DAY, NOW, NOW + timedelta(minutes=5)])
def test_run_id_near_the_end_of_its_run_is_its_own(made: Any) -> None:
    run_id = make_run_id(made)
    assert make_ingest_row(run_id=str(run_id), started_at=NOW - DAY).foreign_id is None
    low, high = run_id_bounds(NOW, NOW + timedelta(microseconds=1))
    assert low <= run_id < high


@pytest.mark.parametrize(
    "run_id",
    [
        make_run_id(NOW - DAY - timedelta(milliseconds=1)),
        make_run_id(NOW + timedelta(minutes=5, milliseconds=1)),
        "c0ffee00-0000-4000-8000-000000000000",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
)
def test_run_id_of_another_time_or_kind_is_mapped(run_id: Any) -> None:
    assert make_ingest_row(run_id=str(run_id), started_at=NOW - DAY).foreign_id == f"run:{run_id}"


def test_external_id_is_mapped_in_a_space_of_its_own() -> None:
    assert make_ingest_row(run_id=None, external_id="run:1").foreign_id == "external:run:1"


def test_digest_ignores_what_means_the_same() -> None:
    run_id = str(make_run_id(NOW))
    one = make_ingest_row(
        run_id=run_id, cost="0.50", started_at="2026-03-14T15:00:00Z", limits={"a": 1, "b": 2}
    )
    same = make_ingest_row(
        run_id=run_id.upper(),
        cost="0.5",
        started_at="2026-03-14T20:45:00+05:45",
        tenant="a",
        unknown=1,
        limits={"b": 2, "a": 1},
    )
    assert one.digest == same.digest


@pytest.mark.parametrize(
    "change",
    [
        {"cost": "0.043"},
        {"steps": 1},
        {"agent": "x"},
        {"halt_reason": "no_progress"},
        {"attributes": {"a": "b"}},
        {"provider_failure": True},
        {"limits": {"max_steps": 3}},
        {"ended_at": NOW + timedelta(microseconds=1)},
    ],
)
def test_digest_differs_where_the_run_does(change: dict[str, Any]) -> None:
    fixed = {"run_id": str(make_run_id(NOW)), "started_at": NOW - timedelta(seconds=9)}
    assert make_ingest_row(**fixed).digest != make_ingest_row(**fixed | change).digest


def test_digest_is_the_same_at_another_receipt() -> None:
    fixed = {"run_id": str(make_run_id(NOW)), "started_at": NOW - timedelta(seconds=9)}
    later = make_ingest_row(received_at=NOW + 40 * DAY, **fixed)
    assert later.digest == make_ingest_row(**fixed).digest


ROOT = uuid7(int(NOW.timestamp() * 1000), 1)  # not random: two processes of the suite name tests by them
PARENT = uuid7(int(NOW.timestamp() * 1000), 2)


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({}, ""),
        ({"root_task_id": str(ROOT)}, ""),
        ({"root_task_id": str(ROOT).upper()}, ""),
        ({"root_task_id": "ticket-7"}, "ticket-7"),
        ({"lineage": {"root": "ticket-8"}}, "ticket-8"),
        ({"parent_run_id": str(PARENT)}, str(PARENT)),
        ({"resumed_from": str(PARENT), "attempt": 2}, str(PARENT)),
        ({"run_id": None, "external_id": "job-9"}, "job-9"),
        ({"run_id": "c0ffee00-0000-4000-8000-000000000000"}, "c0ffee00-0000-4000-8000-000000000000"),
    ],
)
def test_task_is_the_root_that_the_event_names_or_implies(fields: dict[str, Any], task: str) -> None:
    assert make_ingest_row(**{"run_id": str(ROOT)} | fields).task == task


@pytest.mark.parametrize(
    ("fields", "completing"),
    [
        ({}, True),
        ({"task": {"completed": True}}, True),
        ({"task": {"completed": False}}, False),
        ({"parent_run_id": str(PARENT)}, False),
        ({"lineage": {"parent": "a"}}, False),
        ({"outcome": "completed_forced"}, False),
        ({"outcome": "failed"}, False),
    ],
)
def test_task_is_completed_by_a_completed_root_run_alone(fields: dict[str, Any], completing: bool) -> None:
    assert make_ingest_row(**fields).completing is completing


def test_sources_are_listed_of_stopped_runs_only() -> None:
    sources = [{"kind": "tool", "name": "search"}]
    assert make_ingest_row(sources=sources).sources == []
    assert len(make_ingest_row(sources=sources, halt_reason="no_progress").sources) == 1
