"""Blocking sources and letting them go again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from guardops.tenants.actors import System
from guardops.tenants.models import Organisation, Tenant, User
from policies.choices import BlockAction, ChangeKind, Origin, SourceKind
from policies.errors import InvalidSource
from policies.models import BlockedSource, Change
from policies.names import canonical_source
from policies.querysets import BlockedSourceQuerySet

from .changes import begin_change, go_on
from .writing import publishing


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
        outcomes = [_block(reach, item, actor, now) for item in wanted]
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
        rows = _on_the_list(reach).filter(pk__in=ids).order_by("pk").select_for_update(of=("self",))
        found = list(rows)
        if not found:
            return [], None
        for source in found:
            _remove(source, actor, now)
        change = _change(f"Unblock {_named(found)} for {reach}", reach, actor, now)
    go_on(change, now)
    return found, change


def restore_source(source: BlockedSource, *, actor: User | System, now: datetime) -> Outcome:
    """Block a source again as it was before it was removed."""
    again = Wanted(
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
    outcomes, _ = block_sources(Reach(source.organisation, source.tenant), [again], actor=actor, now=now)
    return outcomes[0]


def _block(reach: Reach, wanted: Wanted, actor: User | System, now: datetime) -> Outcome:
    try:
        name = canonical_source(wanted.kind, wanted.name, exact=wanted.exact, organisation=reach.organisation)
    except InvalidSource as error:
        return Outcome(wanted, error=error)
    values = {
        "action": wanted.action,
        "most": wanted.most if wanted.action == BlockAction.LIMIT else 0,
        "reason": wanted.reason,
        "expires_at": wanted.expires_at,
    }
    key = {"kind": wanted.kind, "name": name, "exact": wanted.exact}
    standing = _on_the_list(reach).filter(**key).select_for_update(of=("self",)).first()
    if standing is not None:
        if all(getattr(standing, field) == value for field, value in values.items()):
            return Outcome(wanted, standing, already=True)
        _remove(standing, actor, now)
    source = BlockedSource.objects.create(
        organisation=reach.organisation,
        tenant=reach.tenant,
        **key,
        **values,
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
