"""Runs for the pages under test: enough of every kind that each panel has something to show."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from guardops.tenants.models import Tenant
from tests.runs.rows import insert_rows, make_row, random_rows

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200bgnp.exe"


def insert_day(tenant: Tenant, *, count: int = 300) -> None:
    """Insert two days of random runs, so that the last one has a period before.

    None is near the beginning of a day's window, which may move on by a quarter-hour during a test.
    """
    now, rng = datetime.now(UTC), random.Random(11)
    for first, last in ((47, 25), (23, 0)):
        rows = random_rows(rng, count // 2, now - timedelta(hours=first), now - timedelta(hours=last))
        insert_rows(row | {"tenant_id": tenant.pk} for row in rows)


def insert_run(tenant: Tenant, **columns: Any) -> None:
    """Insert one run that ended just now."""
    insert_rows([make_row(datetime.now(UTC), tenant_id=tenant.pk, **columns)])
