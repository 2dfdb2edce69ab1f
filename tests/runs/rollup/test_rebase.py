from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runs.choices import Cut, Grain
from runs.models import FoldState, IngestSpan, Rollup, Run
from runs.rollup.rebase import rebase_marks
from runs.rollup.recount import recount
from tests.runs.rows import fold, insert_rows, make_row

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC) - timedelta(hours=1)


def test_rebased_marks_let_fold_go_on_without_losing_or_repeating_a_run() -> None:
    insert_rows([make_row(NOW) for _ in range(3)])
    assert fold(NOW).rows == 3
    insert_rows([make_row(NOW) for _ in range(2)])
    FoldState.objects.update(system_identifier=42, last=2**40 + 1)
    # Restored from a cluster that had come further: its marks lie above any of this one.
    uncounted = IngestSpan.objects.get().mark
    Run.objects.filter(ingest_mark__lt=uncounted).update(ingest_mark=2**40)
    Run.objects.filter(ingest_mark=uncounted).update(ingest_mark=2**40 + 5)
    IngestSpan.objects.all().delete()

    assert rebase_marks() == 2
    insert_rows([make_row(NOW)])
    assert fold(NOW).rows == 3

    assert Rollup.objects.get(tenant_id=0, cut=Cut.ALL, grain=Grain.QUARTER).runs == 6
    assert recount() == []


def test_rebasing_in_the_same_cluster_changes_nothing() -> None:
    insert_rows([make_row(NOW)])
    fold(NOW)
    before = FoldState.objects.get().last

    assert rebase_marks() == 0
    assert FoldState.objects.get().last == before
