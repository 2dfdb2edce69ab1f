"""What migration 0008 counts of runs that fold had counted before it knew of tool calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random

import pytest
from django.db import connection

from guardops.tenants.models import Tenant
from runs.models import Rollup
from runs.rollup.recount import recount
from tests.factories import make_tenant
from tests.runs.rows import fold, insert_rows, random_rows

pytestmark = pytest.mark.django_db(transaction=True)

SQL = import_module("runs.migrations.0008_checkpoints").COUNT_TOOL_CALLS


@pytest.fixture
def tenants(transactional_db: None) -> list[Tenant]:
    return [make_tenant(), make_tenant()]


def test_tool_calls_of_counted_runs_are_added_up_in_every_cut_and_grain(tenants: list[Tenant]) -> None:
    now, rng = datetime.now(UTC), Random(5)
    for tenant in tenants:
        rows = random_rows(rng, 120, now - timedelta(days=3), now - timedelta(minutes=30))
        insert_rows(row | {"tenant_id": tenant.pk} for row in rows)
    fold(now)
    before = Rollup.objects.exclude(tool_calls=0).count()
    assert before > 100
    Rollup.objects.update(tool_calls=0)
    with connection.cursor() as cursor:
        cursor.execute(SQL)
    assert Rollup.objects.exclude(tool_calls=0).count() == before
    assert recount() == []
