from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from guardops.guard.checkpoints import PendingCall
from guardops.guard.events import Outcome
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from policies.publish.policies import Place, save_policy
from runs.checkpoints.ceiling import ceiling_of
from runs.choices import StopVerdict
from runs.models import Checkpoint, Decision, StopReview
from runs.replay.demo_reviews import allow_more, review_checkpoints, review_stops
from runs.replay.demo_tenants import TENANTS
from tests.factories import (
    make_checkpoint,
    make_member,
    make_organisation,
    make_run_event,
    make_tenant,
    store_runs,
)

pytestmark = pytest.mark.django_db

WRITE = PendingCall(tool="refund_order", args_hash="h1", side_effect="side_effect", uncertain=True)
CALL = PendingCall(tool="pay_compensation", args_hash="h2", side_effect="side_effect")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant("acme-service")
    make_member(tenant, Role.REVIEWER, username="demo-reviewer")
    return tenant


def let_time_pass(seconds: float) -> None:
    assert seconds > 10
    Decision.objects.update(deliver_at=Now() - timedelta(seconds=1))


def escalate(tenant: Tenant, now: datetime, *, again: bool, **fields: object) -> Checkpoint:
    """Store an escalated run of two hours ago with its checkpoint, and with ``again`` its second attempt."""
    ended = now - timedelta(hours=2)
    first = make_run_event(ended_at=ended, outcome=Outcome.ESCALATED, halt_reason="uncertain_write")
    store_runs(tenant, first, received_at=now)
    if again:
        store_runs(
            tenant,
            make_run_event(
                ended_at=ended + timedelta(hours=1),
                attempt=2,
                resumed_from=first.run_id,
                root_task_id=str(first.run_id),
            ),
            received_at=now,
        )
    return make_checkpoint(
        tenant,
        received_at=now,
        run_id=first.run_id,
        opened_at=ended,
        expires_at=now + timedelta(days=10),
        **fields,
    )


def test_task_with_a_second_attempt_was_decided_and_carried_out(tenant: Tenant, now: datetime) -> None:
    resumed = escalate(tenant, now, again=True, reason="uncertain_write", pending=[WRITE])
    approved = escalate(tenant, now, again=True, reason="approval_required", refused=CALL)
    said: list[str] = []
    review_checkpoints(TENANTS, now, said.append, let_time_pass)
    assert set(Checkpoint.objects.values_list("state", flat=True)) == {"consumed"}
    decisions = {made.checkpoint_id: made for made in Decision.objects.all()}
    assert decisions[resumed.pk].action == "resume"
    assert decisions[resumed.pk].reconciled == [{"tool": "refund_order", "args_hash": "h1", "happened": True}]
    assert (decisions[approved.pk].action, decisions[approved.pk].tool) == ("approve", "pay_compensation")
    for made in decisions.values():
        assert made.at < made.delivered_at < made.consumed_at < now
    assert "2 of the runs" in said[-1]


def test_one_that_nobody_decided_is_claimed_with_a_note(tenant: Tenant, now: datetime) -> None:
    waiting = escalate(tenant, now, again=False)
    review_checkpoints(TENANTS, now, lambda line: None, let_time_pass)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.notes.count()) == ("claimed", 1)
    assert not Decision.objects.exists()


def test_some_stops_are_reviewed_and_a_few_found_false(tenant: Tenant, now: datetime) -> None:
    halted = {"outcome": Outcome.HALTED, "halt_reason": "no_progress"}
    stops = [make_run_event(ended_at=now - timedelta(minutes=minute), **halted) for minute in range(60)]
    store_runs(tenant, *stops, received_at=now)
    assert review_stops(TENANTS, now) == 40
    false = StopReview.objects.filter(verdict=StopVerdict.FALSE_STOP).count()
    assert 0 < false < 15
    assert StopReview.objects.count() == 40


def test_reviewers_may_add_to_budgets_where_no_policy_says_otherwise(tenant: Tenant, now: datetime) -> None:
    own = make_tenant("globex-data", organisation=make_organisation("globex"))
    place = Place(own.organisation, None, "")
    save_policy(place, {"mode": "shadow"}, seen=0, actor=SYSTEM, now=now)
    theirs = make_tenant("acme-research", organisation=make_organisation("acme"))
    allow_more(TENANTS, now)
    assert ceiling_of(make_checkpoint(theirs, opened_at=now), now).steps == 20
    assert ceiling_of(make_checkpoint(own, opened_at=now), now).steps == 0
