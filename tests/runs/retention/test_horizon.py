"""Where runs are gone that the roll-ups still count, the list says so and counts its own rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.models import Tenant
from runs.retention.apply import apply_retention
from runs.retention.horizon import gone_before, kept_from, move_horizon
from tests.factories import make_member, make_run_event, make_tenant, store_runs
from tests.runs.rows import fold

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC)
NOTE = "some are missing here"


def test_the_latest_of_the_installations_and_the_tenants_own_counts() -> None:
    tenant, other = make_tenant("acme"), make_tenant("globex")
    assert gone_before([tenant.pk]) is None

    move_horizon(None, kept_from(NOW, 35))
    move_horizon(tenant, kept_from(NOW, 9))
    move_horizon(tenant, kept_from(NOW, 12))  # kept for longer from now on: what is gone stays gone

    assert gone_before([tenant.pk]) == kept_from(NOW, 9)
    assert gone_before([other.pk]) == kept_from(NOW, 35)
    assert gone_before([other.pk, tenant.pk]) == gone_before([0]) == kept_from(NOW, 9)


def test_a_list_that_reaches_back_behind_what_is_kept_counts_its_rows_and_says_so(client: Client) -> None:
    tenant = make_tenant("acme")
    _store(tenant, age=9, count=60)
    _store(tenant, age=2, count=55)
    while fold(NOW).pending:
        pass
    with acting(SYSTEM):
        tenant.organisation.retention_days = 5
        tenant.organisation.save()
    client.force_login(make_member(tenant))
    assert "115 runs" in _list(client, "14d")

    apply_retention(NOW)

    page = _list(client, "14d")
    assert "55 runs" in page
    assert NOTE in page
    assert NOTE not in _list(client, "24h")


def _store(tenant: Tenant, *, age: int, count: int) -> None:
    at = NOW - timedelta(days=age)
    store_runs(tenant, *(make_run_event(ended_at=at) for _ in range(count)), received_at=NOW)


def _list(client: Client, window: str) -> str:
    return client.get(f"/runs/?range={window}").content.decode()
