from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from guardops.guard import decisions as wire
from guardops.guard.bundle import SigningKey
from guardops.guard.decisions import Consume, Grant
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant, User
from policies.models import SigningSecret
from policies.publish.writing import publishing
from runs.checkpoints.decide import undo
from runs.checkpoints.deliver import consume, hand_out, read_reply
from runs.checkpoints.errors import (
    AlreadyConsumed,
    CheckpointChanged,
    DecisionExpired,
    InvalidDecision,
    NotDelivered,
    UnknownCheckpoint,
    WrongArtifact,
)
from runs.checkpoints.timeouts import give_up_undeliverable
from runs.models import Checkpoint, Decision
from tests.factories import let_undo_time_pass, make_checkpoint, make_run_id, make_tenant

from .deciding import STOP, decided, resume

pytestmark = pytest.mark.django_db


def read(checkpoint: Checkpoint, now: datetime) -> wire.CheckpointReply:
    return read_reply(checkpoint.tenant_id, checkpoint.checkpoint_id, now)


def delivered(checkpoint: Checkpoint, by: User, now: datetime) -> Decision:
    made = let_undo_time_pass(decided(checkpoint, by, now))
    assert read(checkpoint, now).decision is not None
    return made


def take(
    checkpoint: Checkpoint,
    decision: Decision,
    now: datetime,
    attempt: UUID | None = None,
    digest: str | None = None,
) -> Grant:
    wanted = Consume(
        decision_id=decision.pk,
        attempt_id=attempt or make_run_id(now),
        artifact_digest=checkpoint.artifact_digest if digest is None else digest,
    )
    return consume(checkpoint.tenant_id, checkpoint.checkpoint_id, wanted, now)


def keys(tenant: Tenant) -> list[SigningKey]:
    rows = SigningSecret.objects.filter(tenant=tenant)
    return [SigningKey(kid=row.kid, secret=row.secret, not_after=row.not_after) for row in rows]


def test_undecided_checkpoint_has_no_decision(checkpoint: Checkpoint, now: datetime) -> None:
    reply = read(checkpoint, now)
    assert (reply.state, reply.decision) == ("open", None)
    assert reply.expires_at == checkpoint.expires_at


def test_decision_is_handed_out_when_it_can_no_longer_be_undone(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now)
    assert read(checkpoint, now).decision is None
    # Whatever the caller's clock says: the database's counts.
    assert read(checkpoint, now + timedelta(minutes=5)).decision is None
    let_undo_time_pass(made)
    reply = read(checkpoint, now)
    assert reply.state == "delivered"
    assert reply.decision is not None
    assert reply.decision.change == wire.DecisionChange(input="look at page 3")
    made.refresh_from_db()
    assert made.delivered_at == now


def test_stop_is_handed_out_at_once(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    decided(checkpoint, ann, now, STOP)
    reply = read(checkpoint, now)
    assert reply.decision is not None
    assert reply.decision.action == "stop"


def test_first_receipt_counts(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = delivered(checkpoint, ann, now)
    again = read(checkpoint, now + timedelta(minutes=1))
    made.refresh_from_db()
    assert (made.delivered_at, again.state) == (now, "delivered")


def test_handed_out_decision_can_not_be_undone(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = delivered(checkpoint, ann, now)
    with pytest.raises(InvalidDecision):
        undo(made, actor=ann, now=now)


def test_decision_proves_itself_to_the_tenants_guards(
    checkpoint: Checkpoint, tenant: Tenant, ann: User, now: datetime
) -> None:
    delivered(checkpoint, ann, now)
    said = read(checkpoint, now).decision
    assert said is not None
    about = {
        "checkpoint_id": checkpoint.checkpoint_id,
        "tenant": "acme",
        "artifact_digest": checkpoint.artifact_digest,
        "now": now,
    }
    wire.prove(said, keys=keys(tenant), **about)  # type: ignore[arg-type]
    other = make_tenant()
    read(make_checkpoint(other, opened_at=now), now)
    decided_elsewhere = delivered(make_checkpoint(other, opened_at=now), ann, now)
    assert decided_elsewhere.tenant == other
    with pytest.raises(wire.Refused):
        wire.prove(said, keys=keys(other), **about)  # type: ignore[arg-type]


def test_newest_living_secret_signs(checkpoint: Checkpoint, tenant: Tenant, ann: User, now: datetime) -> None:
    with publishing(SYSTEM):
        for kid, created, ends in (
            ("old", now - timedelta(days=2), None),
            ("new", now - timedelta(days=1), None),
            ("dead", now - timedelta(hours=1), now),
        ):
            SigningSecret.objects.create(
                tenant=tenant, kid=kid, secret=kid * 10, created_at=created, not_after=ends
            )
    delivered(checkpoint, ann, now)
    said = read(checkpoint, now).decision
    assert said is not None
    assert said.kid == "new"


def test_guard_that_uses_its_own_ids_is_told_no_other(tenant: Tenant, ann: User, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, run_id=None, external_id="job-7")
    delivered(checkpoint, ann, now)
    said = read(checkpoint, now).decision
    assert said is not None
    assert said.run_id is None


def test_checkpoint_of_another_tenant_is_unknown(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    other = make_tenant()
    with pytest.raises(UnknownCheckpoint):
        read_reply(other.pk, checkpoint.checkpoint_id, now)
    made = delivered(checkpoint, ann, now)
    wanted = Consume(
        decision_id=made.pk, attempt_id=make_run_id(now), artifact_digest=checkpoint.artifact_digest
    )
    with pytest.raises(UnknownCheckpoint):
        consume(other.pk, checkpoint.checkpoint_id, wanted, now)


def test_grant_is_for_attempt_two(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made, attempt = delivered(checkpoint, ann, now), make_run_id(now)
    grant = take(checkpoint, made, now, attempt)
    assert (grant.attempt, grant.attempt_id, grant.consumed_at) == (2, attempt, now)
    checkpoint.refresh_from_db()
    made.refresh_from_db()
    assert (checkpoint.state, made.attempt_id, made.attempt) == ("consumed", attempt, 2)


def test_same_attempt_gets_its_grant_again_and_another_is_told_who_has_it(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made, attempt = delivered(checkpoint, ann, now), make_run_id(now)
    first = take(checkpoint, made, now, attempt)
    later = now + timedelta(days=3)  # its expiry is over, and the reply may have been lost
    assert take(checkpoint, made, later, attempt) == first
    with pytest.raises(AlreadyConsumed) as told:
        take(checkpoint, made, now)
    assert (told.value.attempt_id, told.value.at) == (attempt, now)


def test_consumed_decision_can_still_be_read(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    take(checkpoint, delivered(checkpoint, ann, now), now)
    reply = read(checkpoint, now + timedelta(days=3))
    assert reply.state == "consumed"
    assert reply.decision is not None


def test_another_artifact_gets_no_grant(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = delivered(checkpoint, ann, now)
    with pytest.raises(WrongArtifact):
        take(checkpoint, made, now, digest="sha256:other")


def test_decision_that_was_not_handed_out_gives_no_grant(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now)
    with pytest.raises(NotDelivered):
        take(checkpoint, made, now)


def test_undone_decision_gives_no_grant(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = decided(checkpoint, ann, now)
    undo(made, actor=ann, now=now)
    with pytest.raises(UnknownCheckpoint):
        take(checkpoint, made, now)


def test_expired_decision_gives_no_grant_and_is_not_read(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = delivered(checkpoint, ann, now)
    late = checkpoint.expires_at
    with pytest.raises(DecisionExpired):
        take(checkpoint, made, late)
    reply = read(checkpoint, late)
    assert (reply.state, reply.decision) == ("undeliverable", None)
    assert give_up_undeliverable(late) == 1
    with pytest.raises(DecisionExpired):
        take(checkpoint, made, now)
    assert read(checkpoint, late) == reply


def test_checkpoint_that_nobody_decided_expires_as_it_is_read(
    tenant: Tenant, now: datetime, ann: User
) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, on_timeout="force_answer")
    late = checkpoint.expires_at
    reply = read(checkpoint, late)
    assert reply.state == "expired"
    assert reply.decision is not None
    assert reply.decision.action == "force_answer"
    made = Decision.objects.get()
    assert (made.by, made.by_system, made.delivered_at) == (None, True, late)
    assert take(checkpoint, made, late).attempt == 2
    assert read(checkpoint, late).state == "expired"
    with pytest.raises(CheckpointChanged):
        decided(checkpoint, ann, now)


def test_webhook_gets_the_same_signed_decision_and_marks_it_delivered(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now)
    assert hand_out(made.pk, now) is None
    let_undo_time_pass(made)
    said = hand_out(made.pk, now)
    assert said == read(checkpoint, now).decision
    assert Checkpoint.objects.get().state == "delivered"


def test_webhook_gets_no_undone_decision(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = decided(checkpoint, ann, now, resume())
    undo(made, actor=ann, now=now)
    let_undo_time_pass(made)
    assert hand_out(made.pk, now) is None
