from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guardops.tenants.models import Tenant
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import MAX_BACK, MAX_BACKFILL
from runs.models import RefusedWork
from tests.factories import make_run_id, make_tenant

from .wire import make_refused, make_rows

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def store(tenant: Tenant, *events: dict[str, Any], max_back: timedelta = MAX_BACK) -> Recorded:
    return record_runs(make_rows(*events, tenant_id=tenant.pk, received_at=NOW, max_back=max_back))


def test_refused_work_is_kept_whole(tenant: Tenant) -> None:
    refusal_id, parent = make_run_id(NOW), make_run_id(NOW)
    envelope = {
        "root_task_id": "ticket-7",
        "parent_run_id": str(parent),
        "hops_remaining": 0,
        "descendants_budget": 4,
        "deadline": "2030-01-01T00:00:00Z",
        "chain": [{"agent": "a", "package_hash": "h"}, {"agent": "b"}],
        "policy_revision": 7,
        "kid": "k1",
        "signature": "5" * 64,
    }
    event = make_refused(
        refusal_id=str(refusal_id),
        reason="abab_handoff",
        at=NOW - timedelta(seconds=2),
        envelope=envelope,
        detail={"hops": 4},
        guard={"version": "0.1"},
    )
    assert store(tenant, event).accepted == 1
    work = RefusedWork.objects.get()
    assert (work.tenant_id, work.refusal_id, work.reason) == (tenant.pk, refusal_id, "lineage_ping_pong")
    assert (work.job_type, work.agent) == ("research", "planner")
    assert (work.root_task_id, work.parent_run_id) == ("ticket-7", parent)
    assert work.envelope == envelope
    assert work.detail == {
        "detail": {"hops": 4},
        "guard": {"version": "0.1"},
        "reason": "abab_handoff",
    }
    assert (work.at, work.received_at) == (NOW - timedelta(seconds=2), NOW)
    assert (work.clock_suspect, work.sanitized) == (False, False)


def test_reason_alone_is_enough(tenant: Tenant) -> None:
    assert store(tenant, {"type": "work.refused", "reason": "hop_budget"}).accepted == 1
    work = RefusedWork.objects.get()
    assert (work.at, work.root_task_id, work.envelope) == (NOW, "", None)


def test_resend_is_a_duplicate(tenant: Tenant) -> None:
    event = make_refused(at=NOW)
    store(tenant, event)
    recorded = store(tenant, event, event)
    assert (recorded.accepted, recorded.duplicates) == (0, 2)
    assert RefusedWork.objects.count() == 1


def test_resend_without_an_id_is_known_by_all_that_it_says(tenant: Tenant) -> None:
    events = [make_refused(refusal_id=None, at=NOW, agent=agent) for agent in "ab"]
    store(tenant, *events)
    assert store(tenant, *events).duplicates == 2
    assert RefusedWork.objects.count() == 2


def test_other_body_under_the_same_id_is_a_conflict_and_the_first_stays(tenant: Tenant) -> None:
    event = make_refused(at=NOW)
    store(tenant, event)
    recorded = store(tenant, event | {"reason": "deadline"})
    assert [(result.code, result.field) for result in recorded.results] == [("different_body", "refusal_id")]
    assert RefusedWork.objects.get().reason == "hop_budget"


def test_same_id_in_two_tenants_is_two_refusals(tenant: Tenant) -> None:
    event = make_refused(at=NOW)
    assert [store(owner, event).accepted for owner in (tenant, make_tenant())] == [1, 1]


@pytest.mark.parametrize(
    ("off", "max_back", "suspect"),
    [
        (timedelta(minutes=6), MAX_BACK, True),
        (timedelta(days=-34), MAX_BACK, False),
        (timedelta(days=-36), MAX_BACK, True),
        (timedelta(days=-399), MAX_BACKFILL, False),
        (timedelta(days=-401), MAX_BACKFILL, True),
    ],
)
def test_refusal_of_a_suspect_clock_is_placed_at_its_receipt(
    tenant: Tenant, off: timedelta, max_back: timedelta, suspect: bool
) -> None:
    store(tenant, make_refused(at=NOW + off), max_back=max_back)
    work = RefusedWork.objects.get()
    assert (work.clock_suspect, work.at) == (suspect, NOW if suspect else NOW + off)


def test_refused_work_of_a_task_is_found(tenant: Tenant) -> None:
    store(tenant, make_refused(at=NOW), make_refused(at=NOW, envelope=None))
    found = RefusedWork.objects.for_tenants([tenant.pk]).of_task("ticket-7").between(NOW, NOW + timedelta(1))
    assert found.count() == 1


def test_value_that_a_column_refuses_is_named_and_the_others_stored(tenant: Tenant) -> None:
    rows = make_rows(*(make_refused(at=NOW) for _ in range(3)), tenant_id=tenant.pk, received_at=NOW)
    rows[1].columns = rows[1].columns.replace(b'"reason":"hop_budget"', b'"reason":""')
    recorded = record_runs(rows)
    assert (recorded.accepted, recorded.refused) == (2, 1)
    assert [(result.index, result.code) for result in recorded.results] == [(1, "refused")]
