from __future__ import annotations

from datetime import timedelta

import pytest

from policies.choices import StopScope
from policies.errors import InvalidStop
from policies.publish.stops import issue_stop, lift_stop
from tests.policies.conftest import NOW, House, bundle_of, revisions_of


def issue(house: House, scope: StopScope = StopScope.JOB_TYPE, name: str = "research", **options: object):  # type: ignore[no-untyped-def]
    fields = {"reason": "it burns money", "actor": house.admin, "now": NOW} | options
    return issue_stop(house.tenant, scope, name, **fields)  # type: ignore[arg-type]


def test_order_is_what_guards_are_told(house: House) -> None:
    issued = issue(house)
    (order,) = bundle_of(house.tenant).stops
    assert (order.id, order.scope, order.name) == (str(issued.stop.pk), "job_type", "research")
    assert order.ends(job_type="research", root_task_id="t", run_id="r")
    assert not order.ends(job_type="support", root_task_id="research", run_id="research")


def test_order_for_the_tenant_ends_everything(house: House) -> None:
    issue(house, StopScope.TENANT, "ignored")
    assert bundle_of(house.tenant).stops[0].ends(job_type="x", root_task_id="y", run_id="z")


def test_same_order_again_stays_one(house: House) -> None:
    first, second = issue(house), issue(house)
    assert first.stop == second.stop
    assert second.change is None
    assert revisions_of(house.tenant) == [1]


def test_lifted_order_is_told_to_nobody(house: House) -> None:
    issued = issue(house)
    assert lift_stop(issued.stop, actor=house.admin, now=NOW) is not None
    assert bundle_of(house.tenant).stops == ()
    assert lift_stop(issued.stop, actor=house.admin, now=NOW) is None


def test_expired_order_makes_room_for_the_next(house: House) -> None:
    first = issue(house, expires_at=NOW + timedelta(minutes=5))
    assert not bundle_of(house.tenant).stops[0].holds(NOW + timedelta(minutes=5))
    second = issue(house, now=NOW + timedelta(minutes=6))
    assert second.stop != first.stop


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": " "}, "no_name"),
        ({"reason": ""}, "no_reason"),
        ({"expires_at": NOW}, "over"),
    ],
)
def test_order_that_makes_no_sense_is_refused(house: House, options: dict[str, object], code: str) -> None:
    with pytest.raises(InvalidStop) as caught:
        issue(house, **options)
    assert caught.value.code == code
