from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from guardops.guard.ids import uuid7_ms
from guardops.guard.replies import EventResult, ResultStatus
from guardops.tenants.models import Tenant
from runs.ingest import record
from runs.ingest.known import read_known
from runs.ingest.record import TenantBusy, record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import MAX_BACKFILL, Receipt, Row, project
from runs.models import ExternalRun, IngestSpan, Run, RunSource
from runs.partitions import run_id_bounds, unix_ms
from tests.factories import make_run_id, make_tenant

from .wire import checked

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)


def row(tenant: Tenant, *, index: int = 0, receipt: Receipt | None = None, **fields: Any) -> Row:
    event = checked(**{"ended_at": NOW} | fields)
    return project(event, receipt or Receipt(NOW), index=index, tenant_id=tenant.pk, sanitized=False)


def store(tenant: Tenant, *, receipt: Receipt | None = None, **fields: Any) -> Recorded:
    return record_runs([row(tenant, receipt=receipt, **fields)])


def statuses(recorded: Recorded) -> list[tuple[int, ResultStatus]]:
    return [(result.index, result.status) for result in recorded.results]


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def test_every_column_holds_what_was_sent(tenant: Tenant) -> None:
    run_id, parent, before = (make_run_id(NOW) for _ in range(3))
    fields: dict[str, Any] = {
        "run_id": str(run_id),
        "root_task_id": "ticket-7",
        "parent_run_id": str(parent),
        "resumed_from": str(before),
        "attempt": 3,
        "job_type": "résumé",
        "agent": "a",
        "release": "1.2",
        "prompt_version": "p9",
        "outcome": "halted",
        "answer": "none",
        "halt_reason": "GraphRecursionError",
        "first_reason": "no_progress",
        "started_at": NOW - timedelta(seconds=90, milliseconds=5),
        "steps": 11,
        "turns": 12,
        "tool_calls": 13,
        "refusals": 14,
        "retries": 15,
        "blocked_fingerprints": 16,
        "blocked_by_provider": 4,
        "duplicates": 17,
        "tokens": {"input": 10**12, "output": 5, "cached": 7},
        "cost": "12345678.000009",
        "cost_basis": "provider",
        "step_unit": "turn",
        "peaks": {
            "repeats": 1,
            "stall": 2,
            "error_streak": 3,
            "domain_calls": 4,
            "listing_pages": 5,
            "refusals": 6,
        },
        "limits": {"max_turns": 40, "max_steps": 30},
        "policy": {"revision_start": 8, "revision_end": 9, "version": 10, "mode": "shadow"},
        "would_halt": {"reason": "per_source_cap", "step": 4},
        "guard": {"version": "0.1"},
        "attributes": {"a": "b"},
    }
    assert store(tenant, **fields).accepted == 1
    run = Run.objects.get(tenant_id=tenant.pk, run_id=run_id)
    assert (run.root_task_id, run.parent_run_id, run.resumed_from, run.attempt) == (
        "ticket-7",
        parent,
        before,
        3,
    )
    assert (run.job_type, run.agent, run.release) == ("résumé", "a", "1.2+p9")
    assert (run.outcome, run.answer, run.halt_reason, run.family) == ("halted", "none", "max_turns", "budget")
    assert (run.mode, run.would_halt, run.guard_version) == ("shadow", "source_cap", "0.1")
    assert (run.at, run.ended_at, run.received_at) == (NOW, NOW, NOW)
    assert run.started_at == NOW - timedelta(seconds=90, milliseconds=5)
    assert run.duration_ms == 90_005
    assert (run.steps, run.turns, run.tool_calls, run.refusals, run.retries) == (11, 12, 13, 14, 15)
    assert (run.blocked, run.blocked_by_provider, run.duplicates) == (16, 4, 17)
    assert (run.tokens_input, run.tokens_output, run.tokens_cached) == (10**12, 5, 7)
    assert (run.cost, run.cost_basis) == (Decimal("12345678.000009"), "provider")
    assert (run.step_unit, run.step_cap) == ("turn", 40)
    assert (run.peak_repeats, run.peak_stall, run.peak_error_streak) == (1, 2, 3)
    assert (run.peak_domain_calls, run.peak_listing_pages, run.peak_refusals) == (4, 5, 6)
    assert (run.policy_revision, run.policy_version) == (9, 10)
    assert (run.completes, run.eligible, run.looped, run.provider_failure) == (False, False, True, False)
    assert (run.clock_suspect, run.sanitized) == (False, False)
    assert run.detail["halt_reason"] == "GraphRecursionError"
    assert run.detail["first_reason"] == "no_progress"
    assert run.detail["attributes"] == {"a": "b"}
    assert run.detail["would_halt"] == {"reason": "per_source_cap", "step": 4}


@pytest.mark.parametrize("cost", ["0", "0.000001", "0.999999", "1", "9999.0001", "10000", "99999999.999999"])
def test_money_is_stored_to_the_millionth(tenant: Tenant, cost: str) -> None:
    store(tenant, cost=cost)
    assert Run.objects.get(tenant_id=tenant.pk).cost == Decimal(cost)


@pytest.mark.parametrize(
    ("fields", "looped"),
    [
        ({}, False),
        ({"halt_reason": "no_progress"}, True),
        ({"halt_reason": "step_budget"}, False),
        ({"halt_reason": "unheard_of"}, False),
        ({"halt_reason": "no_progress", "provider_failure": True}, False),
        ({"halt_reason": "tool_retry_exhausted"}, True),
        ({"blocked_fingerprints": 1}, True),
        ({"blocked_fingerprints": 1, "blocked_by_provider": 1}, False),
        ({"blocked_fingerprints": 2, "blocked_by_provider": 1}, True),
    ],
)
def test_loop_rate_counts_blocks_and_reasons_but_no_provider(
    tenant: Tenant, fields: dict[str, Any], looped: bool
) -> None:
    store(tenant, **fields)
    assert Run.objects.get(tenant_id=tenant.pk).looped is looped


def test_unknown_reason_is_kept_and_grouped_as_other(tenant: Tenant) -> None:
    store(tenant, halt_reason="Out_Of_Luck")
    run = Run.objects.get(tenant_id=tenant.pk)
    assert (run.halt_reason, run.family) == ("Out_Of_Luck", "other")


def test_resend_is_a_duplicate_and_changes_nothing(tenant: Tenant) -> None:
    run_id = str(make_run_id(NOW))
    store(tenant, run_id=run_id)
    before = Run.objects.filter(tenant_id=tenant.pk).values().get()
    recorded = store(tenant, run_id=run_id, receipt=Receipt(NOW + timedelta(hours=1)))
    assert (recorded.accepted, recorded.duplicates) == (0, 1)
    assert statuses(recorded) == [(0, ResultStatus.DUPLICATE)]
    assert Run.objects.filter(tenant_id=tenant.pk).values().get() == before


def test_other_body_under_the_same_id_is_a_conflict_and_the_first_stays(tenant: Tenant) -> None:
    run_id = str(make_run_id(NOW))
    store(tenant, run_id=run_id, steps=1)
    recorded = store(tenant, run_id=run_id, steps=2)
    assert recorded.results == [
        EventResult(
            index=0,
            status=ResultStatus.CONFLICT,
            code="different_body",
            field="run_id",
            message="A run with this id and another body is stored already; it stays.",
        )
    ]
    assert Run.objects.get(tenant_id=tenant.pk).steps == 1


def test_same_id_twice_in_a_request_is_stored_once(tenant: Tenant) -> None:
    run_id = str(make_run_id(NOW))
    rows = [row(tenant, index=index, run_id=run_id, steps=steps) for index, steps in enumerate((1, 1, 2))]
    assert statuses(record_runs(rows)) == [(1, ResultStatus.DUPLICATE), (2, ResultStatus.CONFLICT)]


def test_same_id_in_two_tenants_is_two_runs(tenant: Tenant) -> None:
    other, run_id = make_tenant(), str(make_run_id(NOW))
    rows = [row(tenant, index=0, run_id=run_id, steps=1), row(other, index=1, run_id=run_id, steps=2)]
    assert record_runs(rows).accepted == 2
    assert [run.steps for run in Run.objects.order_by("tenant_id")] == [1, 2]
    assert list(IngestSpan.objects.order_by("tenant_id").values_list("tenant_id", "runs")) == [
        (tenant.pk, 1),
        (other.pk, 1),
    ]


def test_external_id_is_mapped_to_an_id_of_the_runs_time(tenant: Tenant) -> None:
    assert store(tenant, run_id=None, external_id="job-1").accepted == 1
    run = Run.objects.get(tenant_id=tenant.pk)
    assert uuid7_ms(run.run_id) == unix_ms(NOW)
    assert ExternalRun.objects.get(tenant_id=tenant.pk, external_id="external:job-1").run_id == run.run_id
    assert run.detail["external_id"] == "job-1"
    assert store(tenant, run_id=None, external_id="job-1").duplicates == 1
    assert statuses(store(tenant, run_id=None, external_id="job-1", steps=2)) == [(0, ResultStatus.CONFLICT)]


def test_external_id_of_another_tenant_is_not_found(tenant: Tenant) -> None:
    store(tenant, run_id=None, external_id="job-1")
    assert store(make_tenant(), run_id=None, external_id="job-1", steps=9).accepted == 1


@pytest.mark.parametrize(
    "times",
    [
        {"ended_at": NOW + timedelta(days=400)},
        {"ended_at": NOW - timedelta(days=3_000)},
        {"run_id": "c0ffee00-0000-4000-8000-000000000000"},
    ],
)
def test_run_id_of_another_time_is_mapped_and_found_again(tenant: Tenant, times: dict[str, Any]) -> None:
    fields = {"run_id": str(make_run_id(times.get("ended_at", NOW)))} | times
    assert store(tenant, **fields).accepted == 1
    run = Run.objects.get(tenant_id=tenant.pk)
    low, high = run_id_bounds(run.at, run.at + timedelta(microseconds=1))
    assert low <= run.run_id < high
    assert run.detail["run_id"] == fields["run_id"]
    assert store(tenant, **fields).duplicates == 1


def test_random_ids_read_none_of_the_other_mapped_ones(tenant: Tenant) -> None:
    def random_id(first: str) -> str:
        return f"{first}39ad9e7-5a1c-4b3e-8f3f-1f6c1d7f0a11"

    store(tenant, run_id=random_id("7"))
    rows = [row(tenant, run_id=random_id(first)) for first in "0f"]
    with connection.cursor() as cursor:
        assert read_known(cursor, tenant.pk, rows, []).mapped == {}


def test_clock_that_becomes_good_finds_its_run_again(tenant: Tenant) -> None:
    ended_at = NOW + timedelta(minutes=9)
    fields: dict[str, Any] = {"run_id": str(make_run_id(ended_at)), "ended_at": ended_at}
    assert store(tenant, **fields).accepted == 1
    assert Run.objects.get(tenant_id=tenant.pk).clock_suspect
    assert store(tenant, receipt=Receipt(NOW + timedelta(minutes=8)), **fields).duplicates == 1


def test_clock_that_becomes_suspect_finds_its_run_again(tenant: Tenant) -> None:
    ended_at = NOW - timedelta(days=34)
    fields: dict[str, Any] = {"run_id": str(make_run_id(ended_at)), "ended_at": ended_at}
    assert store(tenant, **fields).accepted == 1
    assert store(tenant, receipt=Receipt(NOW + timedelta(days=2)), **fields).duplicates == 1


def test_backfill_makes_the_partitions_it_needs(tenant: Tenant) -> None:
    ended_at = NOW - timedelta(days=300)
    assert store(tenant, ended_at=ended_at, receipt=Receipt(NOW, MAX_BACKFILL)).accepted == 1
    run = Run.objects.get(tenant_id=tenant.pk)
    assert (run.at, run.clock_suspect) == (ended_at, False)


def test_span_names_what_a_transaction_wrote(tenant: Tenant) -> None:
    ids = sorted(make_run_id(NOW - timedelta(minutes=n)) for n in range(3))
    record_runs([row(tenant, index=n, run_id=str(run_id)) for n, run_id in enumerate(reversed(ids))])
    span = IngestSpan.objects.get(tenant_id=tenant.pk)
    assert (span.min_run_id, span.max_run_id, span.runs) == (ids[0], ids[2], 3)
    assert set(Run.objects.values_list("ingest_mark", flat=True)) == {span.mark}


def test_sources_of_a_stopped_run_are_listed_once(tenant: Tenant) -> None:
    sources = [
        {"kind": "domain", "name": "a.example"},
        {"kind": "tool", "name": "t"},
        {"kind": "tool", "name": "t"},
    ]
    store(tenant, sources=sources, halt_reason="source_cap")
    listed = RunSource.objects.filter(tenant_id=tenant.pk).values_list("kind", "name")
    assert sorted(listed) == [("domain", "a.example"), ("tool", "t")]


def completions(tenant: Tenant) -> list[tuple[str, bool]]:
    runs = Run.objects.filter(tenant_id=tenant.pk).order_by("attempt", "run_id")
    return [(run.agent, run.completes) for run in runs]


def attempt(number: int, first: UUID | str, **fields: Any) -> dict[str, Any]:
    """Return an attempt of the task that the run ``first`` began."""
    task = {"run_id": str(first)} if number == 1 else {"root_task_id": str(first)}
    return {"attempt": number, "agent": f"attempt {number}"} | task | fields


def test_task_completes_once_over_its_attempts(tenant: Tenant) -> None:
    first = make_run_id(NOW)
    for number in (1, 2, 3):
        store(tenant, **attempt(number, first))
    assert completions(tenant) == [("attempt 1", True), ("attempt 2", False), ("attempt 3", False)]


def test_task_completes_with_the_attempt_that_completes(tenant: Tenant) -> None:
    first = make_run_id(NOW)
    store(tenant, **attempt(1, first, outcome="escalated"))
    store(tenant, **attempt(2, first))
    store(tenant, **attempt(3, first))
    assert completions(tenant) == [("attempt 1", False), ("attempt 2", True), ("attempt 3", False)]


def test_task_completes_once_where_the_first_attempt_comes_last(tenant: Tenant) -> None:
    first = make_run_id(NOW)
    for number in (2, 1):
        store(tenant, **attempt(number, first))
    assert completions(tenant) == [("attempt 1", False), ("attempt 2", True)]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_task_completes_once_within_a_request(tenant: Tenant, order: tuple[int, int]) -> None:
    first = make_run_id(NOW)
    record_runs([row(tenant, index=index, **attempt(number, first)) for index, number in enumerate(order)])
    assert sorted(completes for _, completes in completions(tenant)) == [False, True]


def test_named_task_completes_once_in_each_tenant(tenant: Tenant) -> None:
    other = make_tenant()
    for owner in (tenant, tenant, other):
        store(owner, root_task_id="ticket-7")
    assert sorted(completes for _, completes in completions(tenant)) == [False, True]
    assert [completes for _, completes in completions(other)] == [True]


def test_task_of_an_external_id_completes_once(tenant: Tenant) -> None:
    store(tenant, run_id=None, external_id="job-1")
    store(tenant, run_id=None, external_id="job-2", root_task_id="job-1")
    assert sorted(completes for _, completes in completions(tenant)) == [False, True]


def test_value_that_a_column_refuses_is_named_and_the_others_stored(tenant: Tenant) -> None:
    rows = [row(tenant, index=index) for index in range(7)]
    bad = rows[3]
    bad.body = bad.body.replace(b"\0\0\0\x09completed", b"\0\0\0\x09cOmpleted", 1)
    recorded = record_runs(rows)
    assert (recorded.accepted, recorded.refused) == (6, 1)
    assert [(result.index, result.code) for result in recorded.results] == [(3, "refused")]
    assert Run.objects.filter(tenant_id=tenant.pk).count() == 6
    assert IngestSpan.objects.get(tenant_id=tenant.pk).runs == 6


@pytest.mark.django_db(transaction=True)
def test_lock_held_by_others_gives_up_and_stores_nothing(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LOCK_TIMEOUT", "50ms")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [record.LOCK_SPACE, tenant.pk])
            held.set()
            done.wait(10)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        with pytest.raises(TenantBusy):
            store(tenant)
    finally:
        done.set()
        holder.join()
    assert not Run.objects.filter(tenant_id=tenant.pk).exists()
    assert store(tenant).accepted == 1


@pytest.mark.django_db(transaction=True)
def test_five_resends_at_once_store_each_run_once(tenant: Tenant) -> None:
    rows = [row(tenant, index=index) for index in range(50)]
    rows += [row(tenant, index=50 + index, run_id=None, external_id=f"job-{index}") for index in range(50)]
    found: list[Recorded] = []

    def send() -> None:
        try:
            found.append(record_runs(rows))
        finally:
            connection.close()

    senders = [threading.Thread(target=send) for _ in range(5)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted((recorded.accepted, recorded.duplicates) for recorded in found) == [(0, 100)] * 4 + [
        (100, 0)
    ]
    assert Run.objects.filter(tenant_id=tenant.pk).count() == 100


@pytest.mark.django_db(transaction=True)
def test_deadlock_is_tried_again(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deadlock(Exception):
        sqlstate = "40P01"

    attempts: list[int] = []

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            raise OperationalError("deadlock detected") from Deadlock()
        return real(*args, **kwargs)

    real = record.write_beside
    monkeypatch.setattr(record, "write_beside", fail_once)
    assert store(tenant).accepted == 1
    assert Run.objects.filter(tenant_id=tenant.pk).count() == 1
