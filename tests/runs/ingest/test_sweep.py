from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guardops.tenants.models import Tenant
from runs.ingest import sweep
from runs.ingest.record import record_runs
from runs.ingest.sweep import LIVE_DAYS, sweep_live
from runs.models import ExternalRun, LiveRun, Run
from tests.factories import make_run_id, make_tenant

from .wire import make_event, make_heartbeat, make_rows, make_started

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
LONG_AGO = NOW - timedelta(days=LIVE_DAYS)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def start(tenant: Tenant, agent: str, *, at: datetime, **fields: Any) -> None:
    event = make_started(**{"started_at": at, "agent": agent} | fields)
    record_runs(make_rows(event, tenant_id=tenant.pk, received_at=at))


def agents() -> list[str]:
    return sorted(LiveRun.objects.values_list("agent", flat=True))


def test_run_that_was_silent_for_a_week_goes(tenant: Tenant) -> None:
    start(tenant, "silent", at=LONG_AGO)
    start(tenant, "quiet", at=LONG_AGO + timedelta(seconds=1))
    start(make_tenant(), "silent too", at=LONG_AGO)
    assert sweep_live(NOW) == 2
    assert agents() == ["quiet"]
    assert sweep_live(NOW) == 0


def test_run_that_gives_signs_of_life_stays_however_old(tenant: Tenant) -> None:
    run_id = str(make_run_id(LONG_AGO))
    start(tenant, "old", at=LONG_AGO, run_id=run_id)
    record_runs(make_rows(make_heartbeat(run_id=run_id, at=NOW), tenant_id=tenant.pk, received_at=NOW))
    assert sweep_live(NOW) == 0


def test_tenant_keeps_the_runs_that_gave_the_last_signs(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "MAX_LIVE", 3)
    monkeypatch.setattr(sweep, "PAGE", 2)
    for number in range(8):
        start(tenant, f"run {number}", at=NOW - timedelta(hours=8 - number))
    start(make_tenant(), "another's", at=NOW - timedelta(days=1))
    assert sweep_live(NOW) == 5
    assert agents() == ["another's", "run 5", "run 6", "run 7"]


def test_id_that_stood_for_a_silent_run_goes_with_it(tenant: Tenant) -> None:
    start(tenant, "silent", at=LONG_AGO, run_id=None, external_id="job-1")
    ended = make_event(ended_at=LONG_AGO, run_id=None, external_id="job-2")
    record_runs(make_rows(ended, tenant_id=tenant.pk, received_at=LONG_AGO))
    sweep_live(NOW)
    assert ExternalRun.objects.get().external_id == "external:job-2"


def test_run_that_was_swept_lives_again_and_ends(tenant: Tenant) -> None:
    external: dict[str, Any] = {"run_id": None, "external_id": "job-1"}
    start(tenant, "silent", at=LONG_AGO, **external)
    sweep_live(NOW)
    record_runs(make_rows(make_heartbeat(at=NOW, **external), tenant_id=tenant.pk, received_at=NOW))
    assert LiveRun.objects.count() == 1
    record_runs(make_rows(make_event(ended_at=NOW, **external), tenant_id=tenant.pk, received_at=NOW))
    assert (LiveRun.objects.count(), Run.objects.count()) == (0, 1)
