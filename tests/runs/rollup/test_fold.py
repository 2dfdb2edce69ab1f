from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest
from django.db import connection, transaction

from runs.choices import Cut, Grain
from runs.models import FoldState, Histogram, IngestSpan, Rollup, SourceDay
from runs.rollup.fold import LOCK_SPACE, ForeignCluster, fold_once
from runs.rollup.recount import recount
from tests.runs.rows import fold, insert_rows, make_row, random_rows

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC).replace(hour=12, minute=30, second=0, microsecond=0) - timedelta(days=1)


@contextmanager
def another_session() -> Iterator[psycopg.Connection]:
    with psycopg.connect(**connection.get_connection_params()) as other:
        yield other


def counted(grain: Grain = Grain.QUARTER, tenant_id: int = 0) -> int:
    rows = Rollup.objects.filter(tenant_id=tenant_id, cut=Cut.ALL, grain=grain)
    return sum(rows.values_list("runs", flat=True))


def test_new_runs_are_counted_once_under_their_tenant_and_under_all() -> None:
    insert_rows([make_row(NOW, tenant_id=7), make_row(NOW, tenant_id=8), make_row(NOW, tenant_id=8)])

    assert fold(NOW).rows == 3
    assert fold(NOW).rows == 0

    assert [counted(tenant_id=tenant_id) for tenant_id in (0, 7, 8)] == [3, 1, 2]


def test_random_runs_folded_in_parts_equal_a_recount_of_them_all() -> None:
    rng = random.Random(20261130)
    for hours in range(0, 60, 12):
        now = NOW + timedelta(hours=hours)
        insert_rows(random_rows(rng, 150, now - timedelta(hours=40), now))
        fold(now)

    assert recount() == []
    assert counted() == 750


def test_a_row_changed_behind_folds_back_shows_in_a_recount() -> None:
    insert_rows(random_rows(random.Random(1), 40, NOW - timedelta(hours=3), NOW))
    fold(NOW)
    Rollup.objects.filter(tenant_id=0, cut=Cut.ALL).update(runs=1)
    Histogram.objects.filter(tenant_id=0).update(near_cap=99)

    assert {difference.table for difference in recount()} == {"rollup", "histogram"}


def test_run_of_an_open_transaction_waits_and_is_counted_once_it_commits() -> None:
    with another_session() as writer:
        writer.execute("SELECT pg_current_xact_id()")  # an xid: every later mark lies above the xmin it holds
        insert_rows([make_row(NOW)])
        held = fold_once(NOW)
        writer.commit()
    released = fold(NOW)

    assert (held.rows, held.pending, held.more) == (0, 1, False)
    assert (released.rows, released.pending) == (1, 0)


def test_what_an_open_transaction_holds_back_does_not_pass_for_counted() -> None:
    later = NOW + timedelta(minutes=5)
    fold(NOW)
    with another_session() as writer:
        writer.execute("SELECT pg_current_xact_id()")
        insert_rows([make_row(NOW)])
        fold_once(later)
        fold_once(later + timedelta(seconds=1))
        held = FoldState.objects.get().folded_at
        writer.commit()
    fold(later + timedelta(minutes=1))
    fold_once(later + timedelta(minutes=2))

    assert held <= later
    assert FoldState.objects.get().folded_at > later


def test_rolled_back_rows_are_never_counted() -> None:
    insert_rows([make_row(NOW)])
    with transaction.atomic():
        insert_rows([make_row(NOW)])
        transaction.set_rollback(True)
    fold(NOW)

    assert counted() == 1
    assert recount() == []


def test_backlog_is_folded_in_batches_that_lose_nothing() -> None:
    for _ in range(5):
        insert_rows([make_row(NOW) for _ in range(4)])

    reports = [fold(NOW, rows_a_tick=10) for _ in range(3)]

    assert [(report.rows, report.more) for report in reports] == [(8, True), (8, True), (4, False)]
    assert [report.pending for report in reports] == [12, 4, 0]
    assert recount() == []


def test_a_transaction_larger_than_a_batch_is_folded_whole() -> None:
    insert_rows([make_row(NOW) for _ in range(12)])

    assert fold(NOW, rows_a_tick=10).rows == 12


def test_second_fold_stands_by_while_one_is_at_work() -> None:
    insert_rows([make_row(NOW)])
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        report = fold(NOW)
        other.commit()

    assert report.busy
    assert counted() == 0
    assert fold(NOW).rows == 1


def test_folds_in_two_processes_at_once_count_each_run_once() -> None:
    for _ in range(12):
        insert_rows([make_row(NOW)])

    def fold_all() -> None:
        try:
            while (report := fold(NOW, rows_a_tick=1)).more or report.busy or report.pending:
                pass
        finally:
            connection.close()

    threads = [threading.Thread(target=fold_all) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counted() == 12
    assert recount() == []


def test_roll_ups_of_another_cluster_are_refused() -> None:
    insert_rows([make_row(NOW)])
    fold(NOW)
    FoldState.objects.update(system_identifier=42)
    insert_rows([make_row(NOW)])

    with pytest.raises(ForeignCluster) as refused:
        fold_once(NOW)

    assert refused.value.code == "foreign_cluster"
    assert "42" in refused.value.message
    assert counted() == 1


def test_closed_hours_and_days_are_copied_and_late_runs_added_to_the_copies() -> None:
    fold(NOW)  # from here on copies exist up to this hour, 12:00
    insert_rows([make_row(NOW), make_row(NOW - timedelta(days=1))])
    fold(NOW)
    assert (counted(Grain.HOUR), counted(Grain.DAY)) == (1, 1)  # the run of yesterday

    fold(NOW + timedelta(hours=1))
    assert (counted(Grain.HOUR), counted(Grain.DAY)) == (2, 1)

    fold(NOW + timedelta(days=1))
    insert_rows([make_row(NOW)])
    fold(NOW + timedelta(days=1))
    assert (counted(Grain.HOUR), counted(Grain.DAY), counted()) == (3, 3, 3)
    assert recount() == []


def test_clock_that_goes_back_keeps_the_copies() -> None:
    insert_rows([make_row(NOW - timedelta(hours=2))])
    fold(NOW)
    insert_rows([make_row(NOW - timedelta(hours=2))])
    fold(NOW - timedelta(days=3))

    assert counted(Grain.HOUR) == 2
    assert recount() == []


def test_filters_are_cuts_of_job_type_and_release() -> None:
    insert_rows(
        [
            make_row(NOW, job_type=job, release=release)
            for job, release in (("a", "1"), ("a", "2"), ("b", "1"))
        ]
    )
    fold(NOW)

    rows = Rollup.objects.filter(tenant_id=1, grain=Grain.QUARTER).order_by("cut", "job_type", "release")
    assert list(rows.values_list("cut", "job_type", "release", "runs")) == [
        (Cut.ALL, "", "", 3),
        (Cut.JOB, "a", "", 2),
        (Cut.JOB, "b", "", 1),
        (Cut.RELEASE, "", "1", 2),
        (Cut.RELEASE, "", "2", 1),
        (Cut.JOB_RELEASE, "a", "1", 1),
        (Cut.JOB_RELEASE, "a", "2", 1),
        (Cut.JOB_RELEASE, "b", "1", 1),
    ]


def test_unknown_halt_codes_are_pooled() -> None:
    insert_rows(
        [make_row(NOW, outcome="halted", halt_reason=code) for code in ("mine", "yours", "no_progress")]
    )
    fold(NOW)

    row = Rollup.objects.get(tenant_id=0, cut=Cut.ALL, grain=Grain.QUARTER)
    assert (row.reasons, row.reasons_runs) == (["no_progress", "other"], [1, 2])


def test_histogram_holds_completed_answered_tasks_by_unit() -> None:
    insert_rows([make_row(NOW, steps=steps, step_cap=10) for steps in (3, 9, 3)])
    insert_rows([make_row(NOW, steps=99, answer="none"), make_row(NOW, steps=98, outcome="failed")])
    fold(NOW)
    insert_rows([make_row(NOW, steps=4), make_row(NOW, steps=9), make_row(NOW, steps=7, step_unit="turn")])
    fold(NOW)

    row = Histogram.objects.get(tenant_id=1, cut=Cut.JOB, grain=Grain.QUARTER, step_unit="tool_call")
    assert (row.steps, row.steps_tasks) == ([3, 4, 9], [2, 1, 2])
    assert (row.tasks, row.near_cap, row.cap) == (5, 1, 40)
    assert sum(row.durations_tasks) == 5
    turns = Histogram.objects.get(tenant_id=1, cut=Cut.JOB, grain=Grain.QUARTER, step_unit="turn")
    assert turns.steps == [7]


def test_absurd_steps_cannot_make_a_histogram_long() -> None:
    insert_rows([make_row(NOW, steps=123_456_789 + extra, step_cap=None) for extra in range(30)])
    fold(NOW)

    row = Histogram.objects.get(tenant_id=1, cut=Cut.JOB, grain=Grain.QUARTER)
    assert (row.steps, row.steps_tasks) == ([123_000_000], [30])


def test_largest_values_that_ingest_accepts_do_not_stop_fold() -> None:
    largest = {
        "cost": Decimal("99999999.999999"),
        "tokens_input": 10**12,
        "tokens_output": 10**12,
        "steps": 10**9,
        "step_cap": 2**31 - 1,
        "duplicates": 10**9,
        "duration_ms": 7 * 10**12,
        "started_at": NOW,
    }
    for _ in range(2):
        insert_rows([make_row(NOW, **largest) for _ in range(3)])
        fold(NOW)

    total = Rollup.objects.get(tenant_id=0, cut=Cut.ALL, grain=Grain.QUARTER)
    assert (total.cost, total.tokens) == (6 * largest["cost"], 12 * 10**12)


def test_sources_count_a_run_once_and_name_the_organisations_that_stopped_there() -> None:
    from tests.factories import make_organisation, make_tenant

    acme, globex = make_organisation(), make_organisation()
    tenants = [make_tenant(organisation=owner) for owner in (acme, acme, globex)]
    site = {"kind": "domain", "name": "mirror.example"}
    for tenant, stopped in zip(tenants, (True, True, False), strict=True):
        reason = {"outcome": "halted", "halt_reason": "source_cap"} if stopped else {}
        sources = [site | {"calls": 30}, site | {"calls": 2}, {"kind": "tool", "name": "fetch"}]
        insert_rows([make_row(NOW, tenant_id=tenant.id, detail={"sources": sources}, **reason)])
        fold(NOW)

    row = SourceDay.objects.get(tenant_id=0, kind="domain", name="mirror.example")
    assert (row.stopped, row.completed, row.calls, row.cost) == (2, 1, 96, Decimal("0.03"))
    assert row.organisations == [acme.id]
    mine = SourceDay.objects.get(tenant_id=tenants[2].id, kind="tool", name="fetch")
    assert (mine.stopped, mine.completed, mine.calls, mine.organisations) == (0, 1, 0, None)


def test_a_day_of_made_up_domains_keeps_two_hundred_names() -> None:
    def row(number: int) -> dict[str, object]:
        return make_row(NOW, detail={"sources": [{"kind": "domain", "name": f"d{number:03}.example"}]})

    insert_rows([row(number) for number in range(150)])
    fold(NOW)
    insert_rows([row(number) for number in range(100, 300)])
    fold(NOW)
    insert_rows([row(0), row(299)])
    fold(NOW)

    for tenant_id in (0, 1):
        rows = SourceDay.objects.filter(tenant_id=tenant_id)
        assert rows.exclude(name="").count() == 200
        assert rows.get(kind="domain", name="").completed == 101
        assert rows.get(name="d000.example").completed == 2
    assert recount() == []


def test_a_days_runs_are_counted_whatever_their_sources_and_however_many_names_there_are() -> None:
    names = [{"kind": "domain", "name": f"d{number:03}.example"} for number in range(230)]
    stopped = {"outcome": "halted", "halt_reason": "source_cap", "detail": {"sources": names}}
    insert_rows([make_row(NOW), make_row(NOW, **stopped)])
    fold(NOW)
    insert_rows([make_row(NOW)])
    fold(NOW)

    for tenant_id in (0, 1):
        every = SourceDay.objects.get(tenant_id=tenant_id, kind="", name="")
        assert (every.stopped, every.completed) == (1, 2)
        assert SourceDay.objects.filter(tenant_id=tenant_id).exclude(name="").count() == 200


def test_spans_of_counted_runs_are_cleared() -> None:
    insert_rows([make_row(NOW)])
    fold(NOW)

    assert not IngestSpan.objects.exists()


def test_fold_inside_another_transaction_is_refused() -> None:
    with transaction.atomic(), pytest.raises(RuntimeError):
        fold_once(NOW)
