"""What a stopped task's sub-agents in other places hear."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from guardops.tenants.models import Tenant, User
from policies.models import Stop
from runs.checkpoints.timeouts import expire, expire_due
from tests.factories import make_checkpoint, make_run_id, make_tenant

from .deciding import STOP, decided, resume

pytestmark = pytest.mark.django_db
RUN_ID = make_run_id(datetime.fromisoformat("2026-03-14T15:00:00Z"))


def orders() -> list[tuple[str, str, str]]:
    return [(stop.scope, stop.name, stop.reason) for stop in Stop.objects.all()]


@pytest.mark.parametrize(
    ("named", "task"),
    [({"root_task_id": "ticket-7"}, "ticket-7"), ({"run_id": RUN_ID}, str(RUN_ID))],
    ids=["named", "own"],
)
def test_stop_orders_sub_agents_everywhere_to_stop(
    tenant: Tenant, ann: User, now: datetime, named: dict[str, Any], task: str
) -> None:
    decided(make_checkpoint(tenant, opened_at=now, sub_agents=2, **named), ann, now, STOP)
    assert orders() == [("task", task, "Its task was stopped in review.")]
    stop = Stop.objects.get()
    assert (stop.created_by, stop.expires_at) == (ann, now + timedelta(days=1))


def test_expiry_that_stops_orders_it_too(tenant: Tenant, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, sub_agents=1, root_task_id="ticket-7")
    expire(checkpoint, checkpoint.expires_at)
    assert orders() == [("task", "ticket-7", "Nobody decided on its task in time.")]


def test_nothing_is_ordered_where_nobody_is_at_work_or_the_task_goes_on(
    tenant: Tenant, ann: User, now: datetime
) -> None:
    decided(make_checkpoint(tenant, opened_at=now, sub_agents=0), ann, now, STOP)
    decided(make_checkpoint(tenant, opened_at=now, sub_agents=2), ann, now, resume())
    assert orders() == []


def test_task_is_named_to_the_letter(tenant: Tenant, ann: User, now: datetime) -> None:
    decided(make_checkpoint(tenant, opened_at=now, sub_agents=1, root_task_id=" t "), ann, now, STOP)
    assert [name for _, name, _ in orders()] == [" t "]


def test_task_that_no_order_can_name_is_decided_and_holds_up_no_expiry(
    tenant: Tenant, ann: User, now: datetime
) -> None:
    blank: dict[str, Any] = {"opened_at": now, "sub_agents": 1, "root_task_id": "\u3000 "}
    decided(make_checkpoint(tenant, **blank), ann, now, STOP)
    soon = {"expires_at": now + timedelta(hours=1)}
    make_checkpoint(tenant, **blank, **soon)
    make_checkpoint(make_tenant("other"), opened_at=now, **soon)
    assert expire_due(now + timedelta(hours=2)) == 2
    assert orders() == []
