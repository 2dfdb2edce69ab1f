from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant
from policies.publish.policies import Place, save_policy
from runs.checkpoints.packet import read_packet
from runs.ingest.checkpoints import LONGEST, Opened
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.models import Checkpoint, LiveRun, Run
from tests.factories import make_run_id, make_tenant

from .wire import make_event, make_opened, make_rows, make_started

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def store(tenant: Tenant, now: datetime, *events: dict[str, Any]) -> Recorded:
    return record_runs(make_rows(*events, tenant_id=tenant.pk, received_at=now))


def test_checkpoint_is_kept_whole(tenant: Tenant, now: datetime) -> None:
    event = make_opened(
        opened_at=now,
        attempt=2,
        root_task_id="ticket-7",
        release="r1",
        prompt_version="p2",
        reason="tool_call_limit",
        question="Which price?",
        on_timeout="force_answer",
        unresolved=["a", "b"],
        pending=[{"tool": "book", "args_hash": "h1", "uncertain": True, "side_effect": "write"}],
        refused={"tool": "mail", "args_hash": "h2", "args": "{}"},
        spent={"steps": 12, "cost": "0.25"},
        remaining={"steps": 3},
        sub_agents=2,
    )
    assert store(tenant, now, event).accepted == 1
    found = Checkpoint.objects.get()
    assert (found.state, found.version, found.last_did, found.last_by) == ("open", 1, "opened", None)
    assert (found.reason, found.family, read_packet(found).reason) == (
        "step_budget",
        "budget",
        "tool_call_limit",
    )
    assert (found.root_task_id, found.release, found.attempt) == ("ticket-7", "r1+p2", 2)
    assert (found.steps, found.cost, found.sub_agents) == (12, Decimal("0.25"), 2)
    assert (found.uncertain, found.approves, found.on_timeout) == (True, True, "force_answer")
    assert (found.opened_at, found.expires_at) == (now, now + timedelta(hours=4))
    packet = read_packet(found)
    assert packet.unresolved == ["a", "b"]
    assert [call.tool for call in packet.uncertain] == ["book"]
    assert (packet.artifact.text, packet.remaining.steps) == ("page 14 of 999", 3)


def test_resend_changes_nothing_and_another_body_is_a_conflict(tenant: Tenant, now: datetime) -> None:
    event = make_opened(opened_at=now)
    store(tenant, now, event)
    again = store(tenant, now + timedelta(minutes=1), event, event | {"question": "Another?"}, event)
    assert (again.accepted, again.duplicates) == (0, 2)
    assert [result.status for result in again.results] == ["duplicate", "conflict", "duplicate"]
    found = Checkpoint.objects.get()
    assert (found.question, found.received_at) == ("", now)


def test_resend_after_a_transition_keeps_it(tenant: Tenant, now: datetime) -> None:
    event = make_opened(opened_at=now)
    store(tenant, now, event)
    Checkpoint.objects.update(state="decided", version=2)
    assert store(tenant, now, event).duplicates == 1
    found = Checkpoint.objects.get()
    assert (found.state, found.version) == ("decided", 2)


def test_same_id_in_two_tenants_is_two_checkpoints(tenant: Tenant, now: datetime) -> None:
    event = make_opened(opened_at=now)
    assert store(tenant, now, event).accepted == 1
    assert store(make_tenant(), now, event | {"question": "Mine?"}).accepted == 1


def test_checkpoint_without_its_run_is_taken(tenant: Tenant, now: datetime) -> None:
    assert store(tenant, now, make_opened(opened_at=now)).accepted == 1
    assert not Run.objects.exists()


@pytest.mark.parametrize("order", ["before", "after", "together"])
def test_run_with_a_foreign_id_is_found_whichever_comes_first(
    tenant: Tenant, now: datetime, order: str
) -> None:
    ids = {"run_id": None, "external_id": "job-7"}
    started = now - timedelta(minutes=2)
    ended = make_event(started_at=started, ended_at=now, outcome="escalated", **ids)
    opened = make_opened(opened_at=now, **ids)
    for batch in {"before": [[opened], [ended]], "after": [[ended], [opened]], "together": [[opened, ended]]}[
        order
    ]:
        assert store(tenant, now, *batch).accepted == len(batch)
    assert Checkpoint.objects.get().run_id == Run.objects.get().run_id
    assert Checkpoint.objects.get().root_task_id == "job-7"


def test_live_run_with_a_foreign_id_is_that_of_its_checkpoint(tenant: Tenant, now: datetime) -> None:
    ids = {"run_id": None, "external_id": "job-8"}
    store(tenant, now, make_opened(opened_at=now, **ids), make_started(started_at=now, **ids))
    assert Checkpoint.objects.get().run_id == LiveRun.objects.get().run_id


def test_two_checkpoints_of_one_foreign_run_name_one_run(tenant: Tenant, now: datetime) -> None:
    ids = {"run_id": None, "external_id": "job-9"}
    store(tenant, now, make_opened(opened_at=now, **ids), make_opened(opened_at=now, attempt=2, **ids))
    assert Checkpoint.objects.values_list("run_id", flat=True).distinct().count() == 1


def test_root_run_is_its_own_task_and_a_child_names_its_root(tenant: Tenant, now: datetime) -> None:
    own, parent = make_run_id(now), make_run_id(now)
    store(
        tenant,
        now,
        make_opened(opened_at=now, run_id=str(own), root_task_id=str(own)),
        make_opened(opened_at=now, parent_run_id=str(parent)),
    )
    tasks = Checkpoint.objects.order_by("id").values_list("root_task_id", flat=True)
    assert sorted(tasks) == ["", str(parent)]


def test_suspect_clock_is_placed_at_its_receipt_and_waits_as_long_as_it_said(
    tenant: Tenant, now: datetime
) -> None:
    store(tenant, now, make_opened(opened_at=now + timedelta(days=3)))
    found = Checkpoint.objects.get()
    assert (found.opened_at, found.expires_at, found.clock_suspect) == (now, now + timedelta(hours=4), True)


def test_wait_of_a_hundred_years_is_cut(tenant: Tenant, now: datetime) -> None:
    store(tenant, now, make_opened(opened_at=now, expires_at=now + timedelta(days=36_500)))
    assert Checkpoint.objects.get().expires_at == now + LONGEST


def test_sla_is_that_of_the_job_types_policy(tenant: Tenant, now: datetime) -> None:
    place = Place(tenant.organisation, tenant, "research")
    save_policy(place, {"review": {"sla_s": 300}}, seen=0, actor=SYSTEM, now=now)
    store(tenant, now, make_opened(opened_at=now), make_opened(opened_at=now, job_type="other"))
    due = dict(Checkpoint.objects.values_list("job_type", "due_at"))
    assert due == {"research": now + timedelta(minutes=5), "other": now + timedelta(minutes=30)}


def test_one_that_a_column_refuses_keeps_no_other_out(tenant: Tenant, now: datetime) -> None:
    good, bad = make_rows(
        make_opened(opened_at=now), make_opened(opened_at=now), tenant_id=tenant.pk, received_at=now
    )
    assert isinstance(bad, Opened)
    bad.columns.attempt = 0
    recorded = record_runs([good, bad])
    assert (recorded.accepted, recorded.refused) == (1, 1)


def test_gates_are_told_which_checkpoint_is_new(tenant: Tenant, now: datetime) -> None:
    """Nothing listens inside a test's transaction; that the payload is sent is seen in the statement."""
    event = make_opened(opened_at=now)
    with CaptureNotify() as sent:
        store(tenant, now, event)
    assert sent.payloads == [f"{tenant.pk} {event['checkpoint_id']}"]


class CaptureNotify:
    """Reads what ``pg_notify`` is called with."""

    def __enter__(self) -> CaptureNotify:
        self.payloads: list[str] = []
        self._wrapper = connection.execute_wrapper(self._look)
        self._wrapper.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._wrapper.__exit__(*error)

    def _look(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "pg_notify" in sql:
            channel, tenants, names = params
            assert channel == "guardops_checkpoint"
            self.payloads += [f"{tenant} {name}" for tenant, name in zip(tenants, names, strict=True)]
        return execute(sql, params, many, context)
