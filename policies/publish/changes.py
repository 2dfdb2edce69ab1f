"""Changes: how an edit reaches the bundles of the tenants it concerns.

An edit of one tenant reaches its bundle in the edit's own transaction. One of an organisation, or of
everybody, goes through the tenants in ascending batches, each in its own transaction, until none is left: the
request does what fits in a second, a task goes on with the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from guardops.tenants.actors import SYSTEM, System
from guardops.tenants.models import Organisation, Tenant, User
from guardops.tenants.querysets import TenantQuerySet
from policies.choices import ChangeKind
from policies.errors import NOT_PUBLISHED, BundleTooLarge
from policies.models import Change

from .bundles import Published, publish_bundles
from .writing import publishing

_FAULT_OF: dict[ChangeKind, tuple[type[Exception], ...]] = {
    ChangeKind.POLICY: NOT_PUBLISHED,
    ChangeKind.BLOCKLIST: (BundleTooLarge,),
}
"""What an edit of each kind can itself be the reason of."""
BATCH = 100
IN_REQUEST_S = 1.0


def begin_change(
    kind: ChangeKind,
    summary: str,
    *,
    organisation: Organisation | None,
    tenant: Tenant | None,
    actor: User | System,
    now: datetime,
) -> Change:
    """Write down an edit that was just made, and publish it where it is one tenant's.

    Must run inside `publishing`, after the edit. Raises BundleTooLarge or InvalidPolicy where that tenant's
    guards would not take what was edited. What was wrong before the edit doesn't hold it up: it is noted in
    the change's ``failure``.
    """
    change = Change.objects.create(
        kind=kind,
        summary=summary,
        organisation=organisation,
        tenant=tenant,
        actor=actor if isinstance(actor, User) else None,
        created_at=now,
        total=1 if tenant else _concerned(organisation).count(),
    )
    if tenant is not None:
        published = publish_bundles([tenant.pk], change, now)
        for error in published.failures.values():
            if isinstance(error, _FAULT_OF.get(kind, ())):
                raise error
        change.done, change.published, change.finished_at = 1, published.revisions, now
        change.failure = _failure(published)
        change.save(update_fields=["done", "published", "finished_at", "failure"])
    return change


def go_on(change: Change, now: datetime, clock: Callable[[], float] = time.monotonic) -> None:
    """Publish batches of a change for about a second; call it after the edit's transaction."""
    until = clock() + IN_REQUEST_S
    while change.finished_at is None and clock() < until:
        if not publish_batch(change.pk, now):
            break
        change.refresh_from_db()


def publish_open_changes(now: datetime) -> int:
    """Go through all changes that are under way, the oldest first; return how many batches that took."""
    batches = 0
    for change_id in (
        Change.objects.filter(finished_at=None).order_by("created_at").values_list("pk", flat=True)
    ):
        while publish_batch(change_id, now):
            batches += 1
    return batches


def publish_batch(change_id: UUID, now: datetime) -> bool:
    """Publish the next batch of a change; False where none is left or somebody else is at it."""
    with publishing(SYSTEM):
        # Locked and not waited for: of two that go on with a change, one does.
        change = (
            Change.objects.filter(pk=change_id, finished_at=None)
            .select_for_update(skip_locked=True, of=("self",))
            .first()
        )
        if change is None:
            return False
        concerned = _concerned(change.organisation).filter(pk__gt=change.reached).order_by("pk")
        ids = list(concerned.values_list("pk", flat=True)[:BATCH])
        if ids:
            _publish(change, ids, now)
        if len(ids) < BATCH:
            change.total, change.finished_at = change.done, now
        change.save()
        return True


def _publish(change: Change, ids: list[int], now: datetime) -> None:
    published = publish_bundles(ids, change, now)
    change.done += len(ids)
    change.total = max(change.total, change.done)
    change.published += published.revisions
    change.reached = ids[-1]
    change.failure = change.failure or _failure(published)


def _failure(published: Published) -> str:
    return next((f"{slug}: {error.message}" for slug, error in published.failures.items()), "")


def _concerned(organisation: Organisation | None) -> TenantQuerySet:
    return organisation.tenants.all() if organisation else Tenant.objects.all()
