"""Every number on the overview beside a plain count over the run table."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction

from runs.reports.metrics import Bucket, Counts, Overview, Scope, StepsRow, Window
from runs.reports.overview import read_overview
from runs.reports.windows import parse_window
from tests.runs.rows import fold, insert_rows, make_row, random_rows

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 10, 26, 9, 7, 31, tzinfo=UTC)  # Berlin's day before had 25 hours

COUNTS = """\
SELECT count(*) AS runs,
    sum(CASE WHEN completes THEN 1 ELSE 0 END) AS completed,
    sum(CASE WHEN eligible THEN 1 ELSE 0 END) AS eligible,
    sum(CASE WHEN outcome = 'halted' OR outcome = 'escalated' THEN 1 ELSE 0 END) AS halted,
    sum(CASE WHEN halt_reason = '' THEN 0 ELSE 1 END) AS stopped,
    sum(CASE WHEN looped THEN 1 ELSE 0 END) AS looped,
    sum(CASE WHEN outcome = 'completed_forced' THEN 1 ELSE 0 END) AS forced,
    sum(CASE WHEN blocked >= 1 THEN 1 ELSE 0 END) AS blocked,
    sum(duplicates) AS duplicates,
    sum(tool_calls) AS tool_calls,
    sum(CASE WHEN provider_failure THEN 1 ELSE 0 END) AS provider_failures,
    sum(tokens_input) + sum(tokens_output) AS tokens,
    sum(cost) AS cost,
    sum(CASE WHEN attempt > 1 THEN cost ELSE 0 END) AS repeated_cost,
    sum(CASE WHEN looped THEN cost ELSE 0 END) AS loop_cost,
    sum(CASE WHEN outcome = 'completed' THEN cost ELSE 0 END) AS cost_useful,
    sum(CASE WHEN outcome = 'completed_forced' OR outcome = 'unresolved' THEN cost ELSE 0 END) AS cost_forced,
    sum(CASE WHEN outcome = 'halted' OR outcome = 'escalated' THEN cost ELSE 0 END) AS cost_halted,
    sum(CASE WHEN outcome = 'failed' OR outcome = 'cancelled' THEN cost ELSE 0 END) AS cost_failed
FROM run WHERE {where}"""
STEPS = """\
SELECT job_type, step_unit, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY steps),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY steps), percentile_disc(0.99) WITHIN GROUP (ORDER BY steps),
    max(steps), max(step_cap), sum(CASE WHEN steps >= 0.9 * step_cap THEN 1 ELSE 0 END)
FROM run WHERE {where} AND completes AND answer IN ('full', 'forced') GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2"""


def ask(query: str, scope: Scope, start: datetime, end: datetime) -> list[tuple[Any, ...]]:
    where, values = "at >= %s AND at < %s", [start, end]
    if 0 not in scope.tenant_ids:
        where, values = f"{where} AND tenant_id = ANY(%s)", [*values, list(scope.tenant_ids)]
    for column, value in (("job_type", scope.job_type), ("release", scope.release)):
        if value is not None:
            where, values = f"{where} AND {column} = %s", [*values, value]
    with connection.cursor() as cursor:
        cursor.execute(query.format(where=where), values)
        return cursor.fetchall()


def counts(scope: Scope, start: datetime, end: datetime) -> Counts:
    return Counts(*(value or 0 for value in ask(COUNTS, scope, start, end)[0]))


def halts(column: str, scope: Scope, start: datetime, end: datetime) -> dict[str, int]:
    return dict(
        ask(
            f"SELECT {column}, count(*) FROM run WHERE {{where}} AND halt_reason <> '' GROUP BY 1",
            scope,
            start,
            end,
        )
    )


def steps(scope: Scope, start: datetime, end: datetime) -> list[StepsRow]:
    rows = [StepsRow(*row[:3], *row[3:5], row[5], *row[6:]) for row in ask(STEPS, scope, start, end)]
    return [StepsRow(**asdict(row) | {"p99": row.p99 if row.tasks >= 300 else None}) for row in rows]


def check(overview: Overview) -> None:
    scope, window = overview.scope, overview.window
    whole = (scope, window.start, window.end)
    assert overview.as_of.exact
    assert overview.tiles.now == counts(*whole)
    assert overview.tiles.before == counts(scope, window.before.start, window.before.end)
    check_buckets(overview.tiles.buckets, window)
    for bucket, shown in zip(overview.tiles.buckets, overview.tiles.series, strict=True):
        assert shown == counts(scope, bucket.start, bucket.end)
    check_halts(overview)
    assert list(overview.steps.rows) == steps(*whole)
    check_steps_over_time(overview)
    unfiltered = Scope(scope.tenant_ids), window.start, window.end
    names = "SELECT DISTINCT {column} FROM run WHERE {{where}} ORDER BY 1"
    for column, shown in (("job_type", overview.job_types), ("release", overview.releases)):
        assert [(name,) for name in shown] == ask(names.format(column=column), *unfiltered)


def check_buckets(buckets: tuple[Bucket, ...], window: Window) -> None:
    assert buckets[0].start == window.start
    assert buckets[-1].end == window.end
    assert all(left.end == right.start for left, right in itertools.pairwise(buckets))


def check_halts(overview: Overview) -> None:
    scope, window, shown = overview.scope, overview.window, overview.halts
    families = halts("family", scope, window.start, window.end)
    assert {name: count for name, count in shown.totals.items() if count} == families
    earlier = halts("family", scope, window.before.start, window.before.end)
    assert {name: count for name, count in shown.before.items() if count} == earlier
    for place, bucket in enumerate(shown.buckets):
        inside = {name: series[place] for name, series in shown.families.items() if series[place]}
        assert inside == halts("family", scope, bucket.start, bucket.end)
    reason = "CASE WHEN family = 'other' THEN 'other' ELSE halt_reason END"
    assert shown.reasons == halts(reason, scope, window.start, window.end)
    assert sum(shown.totals.values()) == overview.tiles.now.stopped


def check_steps_over_time(overview: Overview) -> None:
    shown = overview.steps.shown
    if shown is None:
        assert overview.steps.rows == ()
        return
    scope = Scope(overview.scope.tenant_ids, shown.job_type, overview.scope.release)
    for place, bucket in enumerate(overview.steps.buckets):
        rows = [row for row in steps(scope, bucket.start, bucket.end) if row.unit == shown.unit]
        expected = (rows[0].p50, rows[0].p95, rows[0].p99, rows[0].highest) if rows else (None,) * 4
        series = overview.steps.p50, overview.steps.p95, overview.steps.p99, overview.steps.highest
        assert tuple(part[place] for part in series) == expected


def write_runs(rng: random.Random) -> None:
    """Write nine days of runs as they come: folded along, some late, the last ones not folded."""
    for days in range(9, 0, -1):
        now = NOW - timedelta(days=days - 1)
        insert_rows(random_rows(rng, 150, now - timedelta(days=2), now))
        if days > 1:
            fold(now)


SCOPES = list(
    itertools.product(
        [(0,), (1,), (2, 3)],
        [(None, None), ("research", None), (None, "r1"), ("coding", ""), ("no such job", None)],
    )
)


@pytest.mark.parametrize(("place", "zone"), [(0, "UTC"), (1, "Europe/Berlin"), (2, "Asia/Kathmandu")])
def test_every_number_equals_a_plain_count_over_the_runs(place: int, zone: str) -> None:
    write_runs(random.Random(zone))
    keys = itertools.cycle(["6h", "24h", "7d", "14d"])
    for tenant_ids, (job_type, release) in SCOPES[place::3]:
        window = parse_window({"range": next(keys)}, NOW, zone)
        overview = read_overview(Scope(tenant_ids, job_type, release), window, now=NOW)
        assert overview.as_of.tail_rows > 0
        check(overview)


def test_numbers_stay_equal_once_everything_is_folded() -> None:
    write_runs(random.Random(4))
    fold(NOW)
    for key in ("1h", "24h", "30d"):
        overview = read_overview(Scope((0,)), parse_window({"range": key}, NOW, "Europe/Berlin"), now=NOW)
        assert overview.as_of.tail_rows == 0
        check(overview)


def test_custom_window_with_ragged_edges_equals_a_plain_count() -> None:
    write_runs(random.Random(5))
    params = {"from": "2026-10-20T11:40+05:45", "to": "2026-10-25T23:02"}
    check(read_overview(Scope((0,)), parse_window(params, NOW, "Asia/Kathmandu"), now=NOW))


def test_numbers_are_right_before_fold_has_ever_run() -> None:
    insert_rows(random_rows(random.Random(6), 120, NOW - timedelta(hours=30), NOW))

    overview = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)

    assert overview.tiles.now.runs > 0
    check(overview)


def test_parts_of_the_cost_sum_to_the_cost() -> None:
    write_runs(random.Random(7))
    now = read_overview(Scope((0,)), parse_window({"range": "7d"}, NOW, "UTC"), now=NOW).tiles.now

    assert now.cost > 0
    assert now.cost_useful + now.cost_forced + now.cost_halted + now.cost_failed == now.cost


def test_no_completed_task_has_no_cost_a_task() -> None:
    insert_rows([make_row(NOW, outcome="failed", answer="none", cost=Decimal(3))])
    now = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW).tiles.now

    assert (now.cost, now.completed, now.cost_per_completed_task) == (3, 0, None)


def test_children_halts_and_attempts_count_in_the_cost_of_a_completed_task() -> None:
    insert_rows(
        [
            make_row(NOW, attempt=1, outcome="halted", halt_reason="no_progress", cost=Decimal(1)),
            make_row(NOW, attempt=2, cost=Decimal(2)),
            make_row(NOW, parent_run_id=make_row(NOW)["run_id"], completes=False, cost=Decimal(4)),
        ]
    )
    now = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW).tiles.now

    assert (now.completed, now.cost_per_completed_task, now.repeated_cost) == (1, 7, 2)


def test_loop_rate_leaves_provider_failures_out_of_both_sides() -> None:
    insert_rows([make_row(NOW, looped=True, blocked=1), make_row(NOW)])
    insert_rows([make_row(NOW, outcome="failed", provider_failure=True) for _ in range(6)])
    now = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW).tiles.now

    assert (now.loop_rate, now.provider_failures) == (0.5, 6)


def test_p99_needs_three_hundred_tasks() -> None:
    insert_rows([make_row(NOW, steps=1 + number % 100) for number in range(299)])
    window = parse_window({"range": "1h"}, NOW, "UTC")
    few = read_overview(Scope((1,)), window, now=NOW).steps
    insert_rows([make_row(NOW, steps=100)])
    enough = read_overview(Scope((1,)), window, now=NOW).steps

    assert (few.rows[0].p99, few.rows[0].highest, few.p99[-1]) == (None, 99 + 1, None)
    assert (enough.rows[0].p99, enough.p99[-1]) == (99, 99)


def test_job_asked_for_is_drawn_over_time() -> None:
    insert_rows([make_row(NOW, job_type="often"), make_row(NOW, job_type="often")])
    insert_rows([make_row(NOW, job_type="rare", steps=9, step_unit="turn")])
    window = parse_window({"range": "1h"}, NOW, "UTC")

    asked = read_overview(Scope((1,)), window, now=NOW, steps_job=("rare", "turn")).steps
    unknown = read_overview(Scope((1,)), window, now=NOW, steps_job=("rare", "tool_call")).steps

    assert (asked.shown.job_type, asked.p50[-1]) == ("rare", 9)
    assert (unknown.shown.job_type, unknown.p50[-1]) == ("often", 5)


def test_longer_tail_than_a_page_adds_says_as_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.rollup.tail.LONGEST", 3)
    folded_at = NOW - timedelta(minutes=2)
    insert_rows([make_row(NOW)])
    fold(folded_at)
    insert_rows([make_row(NOW) for _ in range(4)])

    overview = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)

    assert (overview.as_of.exact, overview.as_of.at, overview.as_of.tail_rows) == (False, folded_at, 4)
    assert overview.tiles.now.runs == 1
    assert overview.any_runs


def test_tail_of_another_tenant_does_not_make_a_page_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.rollup.tail.LONGEST", 3)
    insert_rows([make_row(NOW, tenant_id=1)])
    insert_rows([make_row(NOW, tenant_id=2) for _ in range(9)])

    overview = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)

    assert (overview.as_of.exact, overview.tiles.now.runs) == (True, 1)


def test_other_tenants_runs_are_never_counted() -> None:
    insert_rows([make_row(NOW, tenant_id=2, job_type="theirs")])
    fold(NOW)
    insert_rows([make_row(NOW, tenant_id=2, job_type="theirs")])

    overview = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)

    assert (overview.tiles.now.runs, overview.any_runs, overview.job_types) == (0, False, ())


def test_tenant_with_runs_outside_the_window_is_not_new() -> None:
    insert_rows([make_row(NOW - timedelta(days=9))])
    fold(NOW)

    overview = read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)

    assert (overview.tiles.now.runs, overview.any_runs) == (0, True)


def test_overview_inside_another_transaction_is_refused() -> None:

    with transaction.atomic(), pytest.raises(RuntimeError):
        read_overview(Scope((1,)), parse_window({}, NOW, "UTC"), now=NOW)
