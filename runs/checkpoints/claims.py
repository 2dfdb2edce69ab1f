"""Claiming a checkpoint: a lease of half an hour that says who looks at it. It keeps nobody from deciding.

Each verb is one compare-and-set on the row; a lease that has ended counts as none, swept or not.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from guardops.tenants.access import role_in
from guardops.tenants.choices import Role
from runs.choices import CheckpointState, LastStep
from runs.models import Checkpoint

from .errors import NotAReviewer
from .moving import changed, fresh, step
from .querysets import CheckpointQuerySet

if TYPE_CHECKING:
    from guardops.tenants.models import User

LEASE = timedelta(minutes=30)


def claim(checkpoint: Checkpoint, *, actor: User, now: datetime) -> Checkpoint:
    """Claim what nobody works on; one's own claim is renewed. Raises CheckpointChanged for another's."""
    if renew(checkpoint, actor=actor, now=now):
        return fresh(checkpoint.pk)
    free = Checkpoint.objects.filter(pk=checkpoint.pk, expires_at__gt=now).unclaimed(now)
    return _give(checkpoint, free, to=actor, by=actor, did=LastStep.CLAIMED, now=now)


def renew(checkpoint: Checkpoint, *, actor: User, now: datetime) -> bool:
    """Prolong one's claim while the page is open; say whether one still has it."""
    own = Checkpoint.objects.filter(pk=checkpoint.pk, state=CheckpointState.CLAIMED, claimed_by=actor)
    return own.update(lease_until=now + LEASE) == 1


def release(checkpoint: Checkpoint, *, actor: User, now: datetime) -> Checkpoint:
    """Give one's claim back; raises CheckpointChanged where one has none."""
    own = Checkpoint.objects.filter(pk=checkpoint.pk, state=CheckpointState.CLAIMED, claimed_by=actor)
    released = own.update(
        state=CheckpointState.OPEN,
        claimed_by=None,
        claimed_at=None,
        lease_until=None,
        **step(LastStep.RELEASED, actor, now),
    )
    if not released:
        raise changed(checkpoint.pk)
    return fresh(checkpoint.pk)


def hand_over(checkpoint: Checkpoint, *, to: User, actor: User, now: datetime) -> Checkpoint:
    """Give what is one's own, or nobody's, to another reviewer of the tenant.

    Raises NotAReviewer, and CheckpointChanged where somebody else works on it or it is decided.
    """
    role = role_in(to, checkpoint.tenant) if to.is_active else None
    if role is None or role.rank < Role.REVIEWER.rank:
        raise NotAReviewer(f"{to.get_username()} may not decide here.")
    waiting = Checkpoint.objects.filter(pk=checkpoint.pk, expires_at__gt=now).waiting()
    mine = waiting.filter(
        Q(state=CheckpointState.OPEN) | Q(lease_until__lte=now) | Q(claimed_by=actor),
    )
    return _give(checkpoint, mine, to=to, by=actor, did=LastStep.HANDED_OVER, now=now)


def _give(
    checkpoint: Checkpoint, rows: CheckpointQuerySet, *, to: User, by: User, did: LastStep, now: datetime
) -> Checkpoint:
    given = rows.update(
        state=CheckpointState.CLAIMED,
        claimed_by=to,
        claimed_at=now,
        lease_until=now + LEASE,
        **step(did, by, now),
    )
    if not given:
        raise changed(checkpoint.pk)
    return fresh(checkpoint.pk)
