"""Blocking sources and letting them go again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from guardops.tenants.actors import System
from guardops.tenants.models import Organisation, Tenant, User
from policies.choices import BlockAction, ChangeKind, Origin, SourceKind
from policies.errors import InvalidSource
from policies.models import BlockedSource, Change
from policies.names import allowed_domains, canonical_source
from policies.querysets import BlockedSourceQuerySet

from .changes import begin_change, go_on
from .writing import publishing

MAX_SUMMARY = 300
# pg_advisory_xact_lock(LOCK_SPACE, tenant, minus the organisation, or 0): one edit of a list at a time, so
# that of two people who block the same source the second is told that it is blocked.
LOCK_SPACE = 0x626C6B73


@dataclass(frozen=True, slots=True)
class Reach:
    """For whom a source is blocked: a tenant, an organisation (no tenant), or everybody (neither)."""

    organisation: Organisation | None = None
    tenant: Tenant | None = None

    def __str__(self) -> str:
        return str(self.tenant.name if self.tenant else self.organisation or "everybody")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A source to block; ``most`` is how many calls a run may make where the action is limit."""

    name: str
    kind: SourceKind = SourceKind.DOMAIN
    exact: bool = False
    action: BlockAction = BlockAction.BLOCK
    most: int = 0
    reason: str = ""
    note: str = ""
    origin: Origin = Origin.MANUAL
    evidence: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one wanted source: ``blocked``, ``already`` blocked so, or refused with an error."""

    wanted: Wanted
    source: BlockedSource | None = None
    already: bool = False
    error: InvalidSource | None = None


def block_sources(
    reach: Reach, wanted: Sequence[Wanted], *, actor: User | System, now: datetime
) -> tuple[list[Outcome], Change | None]:
    """Block sources, each for itself: one that can't be blocked keeps none of the others from it.

    A source that is blocked in another way is replaced. Returns an outcome a source, in the given order, and
    the change that carries them to the guards, None where nothing changed. Raises BundleTooLarge.
    """
    with publishing(actor):
        _hold(reach)
        allowed = allowed_domains(reach.organisation)
        outcomes = [_block(reach, item, allowed, actor, now) for item in wanted]
        blocked = [item.source for item in outcomes if item.source and not item.already]
        if not blocked:
            return outcomes, None
        change = _change(f"Block {_named(blocked)} for {reach}", reach, actor, now)
    go_on(change, now)
    return outcomes, change


def remove_sources(
    reach: Reach, ids: Collection[int], *, actor: User | System, now: datetime
) -> tuple[list[BlockedSource], Change | None]:
    """Take sources off the list; returns those that were on it, and the change."""
    with publishing(actor):
        _hold(reach)  # who blocks locks rows in the order in which they are named
        rows = _on_the_list(reach).filter(pk__in=ids).order_by("pk").select_for_update(of=("self",))
        found = list(rows)
        if not found:
            return [], None
        for source in found:
            _remove(source, actor, now)
        change = _change(f"Unblock {_named(found)} for {reach}", reach, actor, now)
    go_on(change, now)
    return found, change


def restore_source(
    source: BlockedSource, *, actor: User | System, now: datetime
) -> tuple[Outcome, Change | None]:
    """Block a source again as it was before it was removed, without an expiry that is over."""
    reach = Reach(source.organisation, source.tenant)
    [outcome], change = block_sources(reach, [_as_it_was(source, now)], actor=actor, now=now)
    return outcome, change


def revert_sources(change: Change, *, actor: User | System, now: datetime) -> Change | None:
    """Take back an edit of the blocklist: what it added goes, what it removed or replaced comes back.

    What others have done with the same sources since then stays as they left it. Returns the change that
    carries this to the guards, None where nothing of the edit is left. Raises BundleTooLarge.
    """
    reach = Reach(change.organisation, change.tenant)
    with publishing(actor):
        _hold(reach)
        added, removed = sources_of(change)
        standing = list(added.filter(removed_at=None).order_by("pk").select_for_update(of=("self",)))
        for source in standing:
            _remove(source, actor, now)
        taken = {(source.kind, source.name, source.exact) for source in _on_the_list(reach)}
        again = [row for row in removed.order_by("pk") if (row.kind, row.name, row.exact) not in taken]
        allowed = allowed_domains(reach.organisation)
        back = [_block(reach, _as_it_was(row, now), allowed, actor, now).source for row in again]
        if not standing and not any(back):
            return None
        reverted = _change(f"Revert: {change.summary}"[:MAX_SUMMARY], reach, actor, now)
    go_on(reverted, now)
    return reverted


def sources_of(change: Change) -> tuple[BlockedSourceQuerySet, BlockedSourceQuerySet]:
    """Return the sources that an edit of the blocklist added, and those that it took off the list."""
    concerned = BlockedSource.objects.filter(organisation=change.organisation, tenant=change.tenant)
    at = change.created_at  # an edit, and all rows that it writes, have one moment
    return (
        concerned.filter(created_at=at, created_by=change.actor),
        concerned.filter(removed_at=at, removed_by=change.actor),
    )


def says_the_same(standing: BlockedSource, wanted: Wanted) -> bool:
    """Say whether a block that stands already tells guards what is wanted."""
    return all(getattr(standing, field) == value for field, value in _told(wanted).items())


def _as_it_was(source: BlockedSource, now: datetime) -> Wanted:
    return Wanted(
        name=source.name,
        kind=SourceKind(source.kind),
        exact=source.exact,
        action=BlockAction(source.action),
        most=source.most,
        reason=source.reason,
        note=source.note,
        origin=Origin(source.origin),
        evidence=source.evidence,
        expires_at=source.expires_at if source.expires_at and source.expires_at > now else None,
    )


def _told(wanted: Wanted) -> dict[str, Any]:
    return {
        "action": wanted.action,
        "most": wanted.most if wanted.action == BlockAction.LIMIT else 0,
        "reason": wanted.reason,
        "expires_at": wanted.expires_at,
    }


def _hold(reach: Reach) -> None:
    key = reach.tenant.pk if reach.tenant else -reach.organisation.pk if reach.organisation else 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, key])


def _block(
    reach: Reach, wanted: Wanted, allowed: Collection[str], actor: User | System, now: datetime
) -> Outcome:
    try:
        name = canonical_source(wanted.kind, wanted.name, exact=wanted.exact, allowed=allowed)
    except InvalidSource as error:
        return Outcome(wanted, error=error)
    key = {"kind": wanted.kind, "name": name, "exact": wanted.exact}
    standing = _on_the_list(reach).filter(**key).select_for_update(of=("self",)).first()
    if standing is not None:
        if says_the_same(standing, wanted):
            return Outcome(wanted, standing, already=True)
        _remove(standing, actor, now)
    source = BlockedSource.objects.create(
        organisation=reach.organisation,
        tenant=reach.tenant,
        **key,
        **_told(wanted),
        origin=wanted.origin,
        evidence=wanted.evidence,
        note=wanted.note,
        created_by=_person(actor),
        created_at=now,
    )
    return Outcome(wanted, source)


def _remove(source: BlockedSource, actor: User | System, now: datetime) -> None:
    source.removed_at, source.removed_by = now, _person(actor)
    source.save(update_fields=["removed_at", "removed_by"])


def _on_the_list(reach: Reach) -> BlockedSourceQuerySet:
    """Rows that the unique key counts: expired ones hold their place until they are removed."""
    return BlockedSource.objects.filter(organisation=reach.organisation, tenant=reach.tenant, removed_at=None)


def _change(summary: str, reach: Reach, actor: User | System, now: datetime) -> Change:
    return begin_change(
        ChangeKind.BLOCKLIST,
        summary,
        organisation=reach.organisation,
        tenant=reach.tenant,
        actor=actor,
        now=now,
    )


def _named(sources: Sequence[BlockedSource]) -> str:
    return sources[0].name if len(sources) == 1 else f"{len(sources):,} sources"


def _person(actor: User | System) -> User | None:
    return actor if isinstance(actor, User) else None
