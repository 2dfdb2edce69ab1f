from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from guardops.tenants.models import Tenant, User
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import undo
from runs.checkpoints.timeouts import (
    UNCONSUMED,
    Swept,
    escalate_due,
    expire,
    expire_due,
    give_up_undeliverable,
    mark_unconsumed,
    sweep_checkpoints,
)
from runs.models import Checkpoint, Decision
from runs.tasks import sweep_checkpoints as task
from tests.factories import let_undo_time_pass, make_checkpoint

from .deciding import STOP, decided

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("on_timeout", ["stop", "force_answer"])
def test_expiry_applies_on_timeout_once(tenant: Tenant, now: datetime, on_timeout: str) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, on_timeout=on_timeout)
    assert expire_due(checkpoint.expires_at - timedelta(seconds=1)) == 0
    assert expire_due(checkpoint.expires_at) == 1
    assert expire_due(checkpoint.expires_at) == 0
    checkpoint.refresh_from_db()
    made = Decision.objects.get()
    assert (checkpoint.state, checkpoint.last_did, checkpoint.last_by) == ("expired", "expired", None)
    assert (made.action, made.by, made.by_system) == (on_timeout, None, True)


def test_claimed_checkpoint_expires_too(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    claim(checkpoint, actor=ann, now=checkpoint.expires_at - timedelta(minutes=1))
    assert expire_due(checkpoint.expires_at) == 1


def test_expiry_never_touches_what_a_person_decided(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = decided(checkpoint, ann, now)
    assert expire_due(checkpoint.expires_at) == 0
    assert expire(checkpoint, checkpoint.expires_at) is None
    assert list(Decision.objects.all()) == [made]
    assert Checkpoint.objects.get().state == "decided"


def test_checkpoint_whose_decision_was_undone_expires(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    undo(decided(checkpoint, ann, now), actor=ann, now=now)
    assert expire_due(checkpoint.expires_at) == 1
    assert Decision.objects.standing().get().by_system


def test_database_lets_nothing_but_a_person_resume(checkpoint: Checkpoint, now: datetime) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision.objects.create(
            tenant=checkpoint.tenant,
            checkpoint=checkpoint,
            action="resume",
            version=1,
            by_system=True,
            at=now,
            deliver_at=now,
            expires_at=now,
        )


def test_late_checkpoint_is_marked_once(checkpoint: Checkpoint, now: datetime) -> None:
    assert escalate_due(checkpoint.due_at - timedelta(seconds=1)) == 0
    assert escalate_due(checkpoint.due_at) == 1
    assert escalate_due(checkpoint.due_at + timedelta(hours=1)) == 0
    checkpoint.refresh_from_db()
    assert (checkpoint.escalated_at, checkpoint.version) == (checkpoint.due_at, 1)


def test_decided_checkpoint_is_not_late(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    decided(checkpoint, ann, now)
    assert escalate_due(checkpoint.due_at) == 0
    assert not Checkpoint.objects.over_sla(checkpoint.due_at).exists()


def test_decision_that_nobody_takes_up_is_told_of_once(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now, STOP)
    assert mark_unconsumed(made.deliver_at + UNCONSUMED - timedelta(seconds=1)) == 0
    assert mark_unconsumed(made.deliver_at + UNCONSUMED) == 1
    assert mark_unconsumed(made.deliver_at + UNCONSUMED) == 0


def test_decision_that_nobody_took_up_in_time_is_undeliverable(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    let_undo_time_pass(decided(checkpoint, ann, now))
    assert give_up_undeliverable(checkpoint.expires_at - timedelta(seconds=1)) == 0
    assert give_up_undeliverable(checkpoint.expires_at) == 1
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.last_did) == ("undeliverable", "undeliverable")
    assert expire_due(checkpoint.expires_at) == 0


def test_sweep_says_what_it_did(tenant: Tenant, ann: User, now: datetime) -> None:
    long_ago = now - timedelta(hours=3)
    make_checkpoint(tenant, opened_at=long_ago, expires_at=now)
    claim(make_checkpoint(tenant, opened_at=now), actor=ann, now=long_ago)
    make_checkpoint(tenant, opened_at=long_ago)
    assert sweep_checkpoints(now) == Swept(expired=1, leases=1, escalated=1)
    assert sweep_checkpoints(now) == Swept()


def test_task_and_command_do_the_same(
    tenant: Tenant, now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    make_checkpoint(tenant, opened_at=now - timedelta(hours=3), expires_at=now - timedelta(hours=1))
    call_command("checkpoints")
    assert capsys.readouterr().out.startswith("1 checkpoints expired")
    make_checkpoint(tenant, opened_at=now - timedelta(hours=3), expires_at=now - timedelta(hours=1))
    task()
    assert set(Checkpoint.objects.values_list("state", flat=True)) == {"expired"}
