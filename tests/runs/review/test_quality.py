from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from guardops.guard.events import Outcome, Peaks, RunEnded, WouldHalt
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.choices import StopVerdict
from runs.models import Run
from runs.reports.metrics import Scope, Window
from runs.reports.windows import floor_quarter
from runs.review import quality
from runs.review.quality import SAMPLE, Kind, Verdicts, read_quality
from runs.review.stops import review_stop
from tests.factories import make_member, make_run_event, make_tenant, store_runs

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def window_to(now: datetime) -> Window:
    end = floor_quarter(now) + timedelta(minutes=15)
    return Window(end - timedelta(days=1), end, timedelta(hours=1))


def stop(now: datetime, reason: str = "no_progress", **fields: Any) -> RunEnded:
    return make_run_event(ended_at=now, outcome=Outcome.HALTED, halt_reason=reason, **fields)


def watched(now: datetime, reason: str = "no_progress", **fields: Any) -> RunEnded:
    return make_run_event(ended_at=now, would_halt=WouldHalt(reason=reason, step=3), **fields)


def store(tenant: Tenant, now: datetime, *runs: RunEnded) -> list[Run]:
    store_runs(tenant, *runs, received_at=now)
    found = {run.run_id: run for run in Run.objects.for_tenants([tenant.pk])}
    return [found[run.run_id] for run in runs if run.run_id]


def judge(run: Run, verdict: StopVerdict, now: datetime) -> None:
    tenant = Tenant.objects.get(pk=run.tenant_id)
    review_stop(
        run,
        verdict=verdict,
        detector=run.halt_reason or run.would_halt,
        note="",
        actor=make_member(tenant, Role.REVIEWER),
        now=now,
        seen=None,
    )


def read(tenant: Tenant, now: datetime, job: str | None = None) -> Any:
    return read_quality(Scope((tenant.pk,), job), window_to(now), now=now)


def test_precision_is_told_by_detector_job_type_and_mode(tenant: Tenant, now: datetime) -> None:
    right, false, shadow, other = store(
        tenant,
        now,
        stop(now),
        stop(now),
        watched(now),
        stop(now, "source_cap", job_type="coding"),
    )
    judge(right, StopVerdict.RIGHT_STOP, now)
    judge(false, StopVerdict.FALSE_STOP, now)
    judge(shadow, StopVerdict.FALSE_STOP, now)
    found = read(tenant, now)
    assert found.stops == {
        Kind("no_progress", "research", False): 2,
        Kind("no_progress", "research", True): 1,
        Kind("source_cap", "coding", False): 1,
    }
    assert found.verdicts == {
        Kind("no_progress", "research", False): Verdicts(2, 1),
        Kind("no_progress", "research", True): Verdicts(1, 1),
    }
    assert found.verdicts[Kind("no_progress", "research", False)].precision == 0.5
    assert other.halt_reason == "source_cap"


def test_reviews_that_are_left_out_are_told_of_whatever_job_type_is_asked_for(
    tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in store(tenant, now, stop(now), stop(now), stop(now - timedelta(hours=1), job_type="coding")):
        judge(run, StopVerdict.RIGHT_STOP, now)
    monkeypatch.setattr(quality, "MOST_REVIEWS", 2)
    found = read(tenant, now, "coding")
    assert (found.cut, found.verdicts) == (True, {})
    monkeypatch.setattr(quality, "MOST_REVIEWS", 3)
    found = read(tenant, now, "coding")
    assert (found.cut, found.verdicts) == (False, {Kind("no_progress", "coding", False): Verdicts(1, 0)})


def test_interval_of_one_review_promises_little() -> None:
    low, high = Verdicts(1, 0).interval
    assert low < 0.25
    assert high == 1.0
    assert Verdicts(200, 0).interval[0] > 0.97


def test_nothing_reviewed_has_no_precision() -> None:
    assert Verdicts().precision is None


def test_sample_is_the_same_each_time_and_no_review_changes_it(tenant: Tenant, now: datetime) -> None:
    runs = store(tenant, now, *(stop(now) for _ in range(80)))
    first = [drawn.run.run_id for drawn in read(tenant, now).sample]
    assert len(set(first)) == SAMPLE
    for run in runs[:40]:
        judge(run, StopVerdict.RIGHT_STOP, now)
    again = read(tenant, now)
    assert [drawn.run.run_id for drawn in again.sample] == first
    reviewed = {run.run_id for run in runs[:40]}
    assert {drawn.run.run_id for drawn in again.sample if drawn.verdict} == reviewed & {*first}
    assert again.sampled.reviewed == len(reviewed & {*first})


def test_sample_is_by_chance_and_not_the_newest(tenant: Tenant, now: datetime) -> None:
    store(tenant, now, *(stop(now - timedelta(minutes=minute)) for minute in range(120)))
    minutes = [round((now - drawn.run.at).total_seconds() / 60) for drawn in read(tenant, now).sample]
    # Of a fair draw of 30 out of 120, fewer than five or more than 25 on one side: once in 100,000.
    assert 5 <= sum(minute < 60 for minute in minutes) <= 25


def test_completed_runs_and_those_of_others_are_not_in_the_sample(tenant: Tenant, now: datetime) -> None:
    store(tenant, now, make_run_event(ended_at=now), stop(now), stop(now, job_type="coding"))
    store(make_tenant(), now, stop(now))
    store(tenant, now, stop(now - timedelta(days=2)))
    assert len(read(tenant, now).sample) == 2
    assert len(read(tenant, now, "coding").sample) == 1


def test_four_figures_follow_from_the_runs(tenant: Tenant, now: datetime) -> None:
    done = make_run_event(ended_at=now, tool_calls=5)
    stuck = stop(now, tool_calls=9, peaks=Peaks(stall=6))
    lost = make_run_event(ended_at=now, outcome=Outcome.FAILED, tool_calls=1)
    [_, halted, _] = store(tenant, now, done, stuck, lost)
    judge(halted, StopVerdict.FALSE_STOP, now)
    found = read(tenant, now)
    assert (found.counts.completed, found.counts.eligible, found.counts.tool_calls) == (1, 3, 15)
    assert (found.progress_stops, found.unresolved_tasks, found.falsely_stopped_tasks) == (1, 2, 1)


def test_two_false_stops_of_one_task_are_one_task(tenant: Tenant, now: datetime) -> None:
    for run in store(tenant, now, *(stop(now, root_task_id="ticket-7", attempt=n) for n in (1, 2))):
        judge(run, StopVerdict.FALSE_STOP, now)
    assert read(tenant, now).falsely_stopped_tasks == 1


def test_would_be_stop_is_no_falsely_stopped_task(tenant: Tenant, now: datetime) -> None:
    [run] = store(tenant, now, watched(now))
    judge(run, StopVerdict.FALSE_STOP, now)
    assert read(tenant, now).falsely_stopped_tasks == 0


def test_sample_and_counts_read_the_index_of_stops_alone(tenant: Tenant, now: datetime) -> None:
    store(tenant, now, *(stop(now) for _ in range(5)))
    where, values = quality._where(Scope((tenant.pk,)), window_to(now))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for statement in (quality._COUNT, quality._DRAW):
            cursor.execute("EXPLAIN " + statement.format(where=where), values | {"most": 30})
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Index Only Scan" in plan, plan
