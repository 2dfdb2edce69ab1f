from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.claims import LEASE, claim, hand_over, release, renew
from runs.checkpoints.errors import CheckpointChanged, NotAReviewer
from runs.checkpoints.timeouts import end_leases
from runs.models import Checkpoint
from tests.factories import make_member, make_tenant

from .deciding import decided

pytestmark = pytest.mark.django_db


def test_claim_leases_for_half_an_hour(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    claimed = claim(checkpoint, actor=ann, now=now)
    assert (claimed.state, claimed.claimed_by, claimed.claimed_at) == ("claimed", ann, now)
    assert claimed.lease_until == now + timedelta(minutes=30)
    assert claimed.version == checkpoint.version + 1


def test_second_claim_is_told_who_was_first(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claim(checkpoint, actor=ann, now=now)
    with pytest.raises(CheckpointChanged) as told:
        claim(checkpoint, actor=bob, now=now + timedelta(minutes=1))
    assert (told.value.change.by, told.value.change.at, told.value.change.did) == ("ann", now, "claimed it")
    assert told.value.current.claimed_by == ann


def test_own_claim_again_renews_it_and_changes_no_version(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    first = claim(checkpoint, actor=ann, now=now)
    again = claim(checkpoint, actor=ann, now=now + timedelta(minutes=20))
    assert (again.lease_until, again.version) == (now + timedelta(minutes=50), first.version)


def test_lease_that_ended_is_free_before_any_sweep(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claim(checkpoint, actor=ann, now=now)
    later = now + LEASE
    assert list(Checkpoint.objects.unclaimed(later)) == [checkpoint]
    assert not Checkpoint.objects.claimed(later).exists()
    assert claim(checkpoint, actor=bob, now=later).claimed_by == bob
    assert not renew(checkpoint, actor=ann, now=later)


def test_lease_that_ended_is_opened_by_the_sweep_and_keeps_its_version(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    claimed = claim(checkpoint, actor=ann, now=now)
    assert end_leases(now + LEASE - timedelta(seconds=1)) == 0
    assert end_leases(now + LEASE) == 1
    assert end_leases(now + LEASE) == 0
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.claimed_by, checkpoint.version) == ("open", None, claimed.version)
    decided(checkpoint, ann, now + LEASE, version=claimed.version)


def test_renewed_lease_outlives_the_first(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    claim(checkpoint, actor=ann, now=now)
    assert renew(checkpoint, actor=ann, now=now + timedelta(minutes=25))
    assert end_leases(now + LEASE) == 0


def test_released_checkpoint_is_open_to_others(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claim(checkpoint, actor=ann, now=now)
    assert release(checkpoint, actor=ann, now=now).state == "open"
    assert claim(checkpoint, actor=bob, now=now).claimed_by == bob
    with pytest.raises(CheckpointChanged):
        release(checkpoint, actor=ann, now=now)


def test_claim_is_handed_over_with_a_lease_of_its_own(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claim(checkpoint, actor=ann, now=now)
    handed = hand_over(checkpoint, to=bob, actor=ann, now=now + timedelta(minutes=10))
    assert (handed.claimed_by, handed.lease_until) == (bob, now + timedelta(minutes=40))
    assert (handed.last_did, handed.last_by) == ("handed_over", ann)
    with pytest.raises(CheckpointChanged):
        hand_over(checkpoint, to=ann, actor=ann, now=now + timedelta(minutes=11))


@pytest.mark.parametrize("whom", ["viewer", "stranger", "inactive"])
def test_nobody_is_handed_what_they_may_not_decide(
    checkpoint: Checkpoint, tenant: Tenant, ann: User, now: datetime, whom: str
) -> None:
    to = {
        "viewer": lambda: make_member(tenant, Role.VIEWER),
        "stranger": lambda: make_member(make_tenant(), Role.ADMIN),
        "inactive": lambda: make_member(tenant, Role.REVIEWER),
    }[whom]()
    to.is_active = whom != "inactive"
    with pytest.raises(NotAReviewer):
        hand_over(checkpoint, to=to, actor=ann, now=now)


def test_decided_checkpoint_can_not_be_claimed(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    decided(checkpoint, ann, now)
    with pytest.raises(CheckpointChanged) as told:
        claim(checkpoint, actor=bob, now=now)
    assert told.value.change.did == "decided it (resume)"
