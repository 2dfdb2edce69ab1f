from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db.models import Sum

from guardops.guard.events import Outcome
from runs.choices import Family
from runs.models import Run
from runs.querysets import ALL_TENANTS, COST_PARTS, RunQuerySet, ids_beginning
from runs.reports.metrics import Scope
from runs.reports.overview import read_overview
from runs.reports.windows import parse_window
from tests.runs.rows import insert_rows, make_row, random_rows

pytestmark = pytest.mark.django_db


def test_every_measure_has_a_verb_of_the_same_count() -> None:
    now = datetime.now(UTC)
    insert_rows(random_rows(random.Random(11), 400, now - timedelta(hours=30), now))
    window = parse_window({"range": "24h"}, now, "UTC")
    overview = read_overview(Scope((1, 2)), window, now=now)
    counts, halts, steps = overview.tiles.now, overview.halts, overview.steps
    runs = Run.objects.for_tenants((1, 2)).within(window)

    verbs = {
        name: getattr(runs, name)().count() for name in ("halted", "stopped", "looped", "forced", "blocked")
    }
    assert verbs == {name: getattr(counts, name) for name in verbs}
    assert runs.count() == counts.runs
    assert runs.completing().count() == counts.completed
    assert runs.eligible().count() == counts.eligible
    assert runs.provider_failures().count() == counts.provider_failures

    assert {family: runs.of_family(family).count() for family in Family.values} == halts.totals
    assert {reason: runs.stopped_for(reason).count() for reason in halts.reasons} == halts.reasons

    costs = {part: cost_of(runs.of_cost_part(part)) for part in COST_PARTS}
    assert costs == {part: getattr(counts, f"cost_{part}") for part in COST_PARTS}
    assert cost_of(runs.looped()) == counts.loop_cost
    assert cost_of(runs.from_attempt(2)) == counts.repeated_cost

    assert steps.rows
    for row in steps.rows:
        tasks = runs.of_job(row.job_type).completing().answered().counted_in(row.unit)
        assert tasks.count() == row.tasks
        assert tasks.near_cap().count() == row.near_cap


def cost_of(runs: RunQuerySet) -> Decimal:
    return runs.aggregate(cost=Sum("cost"))["cost"]


def test_every_outcome_is_in_one_part_of_the_cost() -> None:
    parts = [outcome for outcomes in COST_PARTS.values() for outcome in outcomes]
    assert sorted(parts) == sorted(Outcome)


def test_no_tenants_have_no_runs() -> None:
    insert_rows([make_row(datetime.now(UTC))])
    assert Run.objects.for_tenants(()).count() == 0
    assert Run.objects.for_tenants((1,)).count() == 1
    assert Run.objects.for_tenants((2, 3)).count() == 0
    assert Run.objects.for_tenants((ALL_TENANTS,)).count() == 1


def test_window_reads_only_the_partitions_that_can_hold_it() -> None:
    window = parse_window({"range": "1h"}, datetime.now(UTC), "UTC")
    plan = Run.objects.for_tenants((1,)).within(window).explain()
    assert 1 <= len(set(re.findall(r"\brun_\d{8}\b", plan))) <= 3


def test_list_leaves_the_json_column_unread() -> None:
    assert '"detail"' not in str(Run.objects.for_tenants((1,)).without_detail().query)


@pytest.mark.parametrize("text", ["", "0193b4d", "0193b4d7-5c1e-zzzz", "0" * 33, "agent-lead", "٠١٢٣٤٥٦٧"])
def test_text_that_begins_no_id(text: str) -> None:
    assert ids_beginning(text) is None
