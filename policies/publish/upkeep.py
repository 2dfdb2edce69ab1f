"""What changes without an editor: what ends by itself, secrets in rotation, a database that was restored."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import F, Q

from guardops.tenants.actors import SYSTEM, System
from guardops.tenants.models import Tenant, User
from policies.choices import ChangeKind
from policies.compose import version_at
from policies.errors import NOT_PUBLISHED, PolicyChanged
from policies.models import BlockedSource, Change, Epoch, PolicyVersion, SigningSecret, Stop

from .bundles import new_kid
from .changes import begin_change, publish_open_changes
from .epoch import begin_epoch, is_ours
from .policies import Place, roll_back, save_policy
from .sources import Reach, remove_sources
from .stops import lift_stop
from .writing import publishing

log = logging.getLogger(__name__)

OVERLAP = timedelta(days=7)
"""How long a replaced secret still proves what was signed with it."""


def end_what_is_over(now: datetime) -> int:
    """Take expired policies, blocks and orders out of the bundles; return how many there were.

    Guards let them go at their time by themselves; this is for their successors, and for the pages.
    """
    ended = 0
    over = PolicyVersion.objects.filter(number=F("policy__version"), until__lte=now)
    for version in over.select_related("policy__organisation", "policy__tenant"):
        ended += _end_version(version, now)
    blocks = BlockedSource.objects.filter(removed_at=None, expires_at__lte=now)
    in_order = blocks.select_related("organisation", "tenant").order_by("organisation", "tenant", "pk")
    for reach, group in groupby(in_order, key=lambda block: Reach(block.organisation, block.tenant)):
        ended += _end_blocks(reach, [block.pk for block in group], now)
    for stop in Stop.objects.filter(lifted_at=None, expires_at__lte=now).select_related("tenant"):
        ended += lift_stop(stop, actor=SYSTEM, now=now) is not None
    publish_open_changes(now)
    return ended


def _end_version(version: PolicyVersion, now: datetime) -> bool:
    policy = version.policy
    place = Place(policy.organisation, policy.tenant, policy.job_type)
    note = f"Version {version.number} has ended."
    try:
        if (again := version_at(version, now)) is not None:
            until = again.until
            roll_back(place, again.number, seen=version.number, actor=SYSTEM, now=now, note=note, until=until)
        else:
            save_policy(place, {}, seen=version.number, actor=SYSTEM, now=now, note=note)
    except PolicyChanged:
        return False  # somebody published another one in between
    except NOT_PUBLISHED as error:
        return bool(_left(error, place))
    return True


def _end_blocks(reach: Reach, ids: Collection[int], now: datetime) -> int:
    try:
        removed, _ = remove_sources(reach, ids, actor=SYSTEM, now=now)
    except NOT_PUBLISHED as error:
        return _left(error, reach)
    return len(removed)


def _left(error: Exception, where: object) -> int:
    """Leave what is over to the next time: a tenant whose rules contradict each other holds up no other."""
    log.warning("nothing ended in %s: %s", where, error)
    return 0


def rotate_secret(
    tenant: Tenant, *, actor: User | System, now: datetime, overlap: timedelta = OVERLAP
) -> Change:
    """Give a tenant a new signing secret; the one before it holds for ``overlap``, any older one ends now.

    So two are live at most. Without ``overlap`` what the old one has signed proves nothing from now on.
    """
    with publishing(actor):
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        living = SigningSecret.objects.filter(tenant=tenant).filter(Q(not_after=None) | Q(not_after__gt=now))
        living.exclude(not_after=None).update(not_after=now)
        living.filter(not_after=None).update(not_after=now + overlap)
        SigningSecret.objects.create(
            tenant=tenant, kid=new_kid(), secret=secrets.token_hex(32), created_at=now
        )
        return begin_change(
            ChangeKind.SIGNING,
            "New signing secret",
            organisation=tenant.organisation,
            tenant=tenant,
            actor=actor,
            now=now,
        )


def adopt_database(now: datetime, *, restored: bool = False) -> Change | None:
    """Begin a new epoch where this cluster did not make the one that stands, or where ``restored`` says so.

    Guards hold revisions that a restored database has never made; with the new epoch they take its own.
    """
    if not Epoch.objects.exists() or (is_ours() and not restored):
        return None
    with publishing(SYSTEM):
        begin_epoch(now)
        change = begin_change(
            ChangeKind.UPKEEP,
            "The database was restored",
            organisation=None,
            tenant=None,
            actor=SYSTEM,
            now=now,
        )
    publish_open_changes(now)
    change.refresh_from_db()
    return change
