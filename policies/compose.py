"""What a tenant's guards are told: the rows of policies, blocks, stops and secrets as one document.

The levels of a policy are laid over each other field by field: the organisation's defaults, the tenant's,
then the organisation's policy of the job type, the tenant's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q

from guardops.guard.bundle import MAX_STALE_S, SCHEMA, merge
from guardops.tenants.models import Tenant

from .choices import BlockAction
from .models import BlockedSource, PolicyVersion, SigningSecret, Stop


@dataclass(frozen=True, slots=True)
class Level:
    """A policy as one level has it: the document of its version in force, which is ``number``, and those that
    hold after it, each until it ends itself."""

    number: int
    documents: Sequence[tuple[datetime | None, Mapping[str, Any]]]
    """With their ends, which lie the later the further down; only the last one may have none."""

    @property
    def ends(self) -> list[datetime]:
        return [until for until, _ in self.documents if until is not None]

    def at(self, moment: datetime) -> Mapping[str, Any]:
        standing = (document for until, document in self.documents if until is None or until > moment)
        return next(standing, {})


@dataclass(slots=True)
class Rows:
    """What bundles of some tenants are made of, read in a constant number of statements."""

    policies: dict[tuple[int, int | None], dict[str, Level]]
    """By organisation and tenant (None: the organisation's own), by job type ('': defaults)."""
    blocked: list[BlockedSource]
    stops: dict[int, list[Stop]]
    secrets: dict[int, list[SigningSecret]]


def read_rows(tenants: Sequence[Tenant], now: datetime) -> Rows:
    """Read what the bundles of ``tenants`` are made of at ``now``."""
    organisations = {tenant.organisation_id for tenant in tenants}
    ids = [tenant.pk for tenant in tenants]
    secrets = SigningSecret.objects.filter(Q(not_after=None) | Q(not_after__gt=now), tenant__in=ids)
    stops = Stop.objects.filter(tenant__in=ids).standing(now)
    blocked = BlockedSource.objects.standing(now).filter(
        Q(tenant__in=ids) | Q(tenant=None, organisation__in=organisations) | Q(organisation=None)
    )
    return Rows(
        policies=read_policies(organisations, ids),
        blocked=list(blocked.order_by("kind", "name", "exact", "id")),
        stops=_by_tenant(stops.order_by("created_at", "id")),
        secrets=_by_tenant(secrets.order_by("created_at", "id")),
    )


def compose(tenant: Tenant, rows: Rows, now: datetime) -> dict[str, Any]:
    """Return the content of a tenant's bundle: all but its hash, revision, epoch and time of issue."""
    own = rows.policies.get((tenant.organisation_id, tenant.pk), {})
    above = rows.policies.get((tenant.organisation_id, None), {})
    names = sorted((own.keys() | above.keys()) - {""})
    return {
        "schema": SCHEMA,
        "tenant": tenant.slug,
        "max_stale_s": MAX_STALE_S,
        "defaults": _laid_over([above.get(""), own.get("")], now),
        "job_types": {
            name: {
                "version": (own.get(name) or above[name]).number,
                **_laid_over([above.get(name), own.get(name)], now),
            }
            for name in names
        },
        "blocked": _blocked(rows.blocked, tenant),
        "stops": [_stop(stop) for stop in rows.stops.get(tenant.pk, ())],
        "signing": [_secret(secret) for secret in rows.secrets.get(tenant.pk, ())],
    }


@dataclass(frozen=True, slots=True)
class Above:
    """A level that a policy lies over; ``source`` says in words which."""

    source: str
    document: Mapping[str, Any]


def above(organisation_id: int, tenant_id: int | None, job_type: str, now: datetime) -> dict[str, Any]:
    """Return the document that a policy of this level and job type is laid over."""
    document: dict[str, Any] = {}
    for level in levels_above(organisation_id, tenant_id, job_type, now):
        document = merge(document, level.document)
    return document


def levels_above(organisation_id: int, tenant_id: int | None, job_type: str, now: datetime) -> list[Above]:
    """Return the levels that a policy of this level and job type lies over, the strongest last."""
    read = read_policies({organisation_id}, [tenant_id] if tenant_id else [])
    return levels_in(read, organisation_id, tenant_id, job_type, now)


def levels_in(
    read: Mapping[tuple[int, int | None], Mapping[str, Level]],
    organisation_id: int,
    tenant_id: int | None,
    job_type: str,
    now: datetime,
) -> list[Above]:
    """The same of policies that are read already."""
    organisation = read.get((organisation_id, None), {})
    tenant = read.get((organisation_id, tenant_id), {}) if tenant_id else {}
    levels: list[tuple[str, Level | None]] = []
    if job_type or tenant_id:
        levels.append(("the organisation’s defaults", organisation.get("")))
    if job_type and tenant_id:
        levels.append(("the tenant’s defaults", tenant.get("")))
        levels.append(("the organisation’s policy of this job type", organisation.get(job_type)))
    return [Above(source, level.at(now)) for source, level in levels if level is not None]


def read_policies(
    organisations: Iterable[int], tenant_ids: Sequence[int]
) -> dict[tuple[int, int | None], dict[str, Level]]:
    """Return the policies in force of organisations and tenants, as `Rows` has them.

    In one statement, and one more where some of them end by themselves.
    """
    versions = list(
        PolicyVersion.objects.filter(number=F("policy__version"), policy__organisation__in=organisations)
        .filter(Q(policy__tenant=None) | Q(policy__tenant__in=tenant_ids))
        .select_related("policy")
    )
    before = _before([version for version in versions if version.until is not None])
    found: dict[tuple[int, int | None], dict[str, Level]] = defaultdict(dict)
    for version in versions:
        policy = version.policy
        documents = _in_turn([version, *before[policy.pk]])
        found[policy.organisation_id, policy.tenant_id][policy.job_type] = Level(version.number, documents)
    return found


def version_at(newest: PolicyVersion, moment: datetime) -> PolicyVersion | None:
    """Return which version of a policy holds at ``moment``: the last one that has not ended by then."""
    standing = Q(until=None) | Q(until__gt=moment)
    return newest.policy.versions.filter(standing, number__lte=newest.number).order_by("-number").first()


def _before(ending: Sequence[PolicyVersion]) -> dict[int, list[PolicyVersion]]:
    """Return by policy the versions before these, the newest first, back to the last one without an end."""
    before: dict[int, list[PolicyVersion]] = defaultdict(list)
    if ending:
        later = PolicyVersion.objects.filter(
            policy=OuterRef("policy"), until=None, number__gt=OuterRef("number")
        )
        older = PolicyVersion.objects.filter(~Exists(later), number__lt=F("policy__version"))
        policies = [version.policy_id for version in ending]
        for version in older.filter(policy__in=policies).order_by("policy", "-number"):
            before[version.policy_id].append(version)
    return before


def _in_turn(versions: Iterable[PolicyVersion]) -> list[tuple[datetime | None, Mapping[str, Any]]]:
    """Return the documents that hold one after the other, without those that end before their turn."""
    documents: list[tuple[datetime | None, Mapping[str, Any]]] = []
    for version in versions:
        last = documents[-1][0] if documents else None
        if last is None or version.until is None or version.until > last:
            documents.append((version.until, version.document))
    return documents


def _laid_over(levels: Sequence[Level | None], now: datetime) -> dict[str, Any]:
    """Return the merged document; what will change it by itself is in ``until`` and ``then``."""
    document = _at(levels, now)
    ends = sorted({end for level in levels if level for end in level.ends if end > now})
    if ends:
        document["until"] = ends[0].isoformat()
        document["then"] = _laid_over(levels, ends[0])
    return document


def _at(levels: Sequence[Level | None], moment: datetime) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for level in levels:
        if level is not None:
            document = merge(document, level.at(moment))
    return document


def _blocked(rows: Iterable[BlockedSource], tenant: Tenant) -> list[dict[str, Any]]:
    """Return the sources blocked for a tenant, each once: of several rows the one that allows the least."""
    strictest: dict[tuple[str, str, bool], BlockedSource] = {}
    for row in rows:
        mine = row.tenant_id in (None, tenant.pk) and row.organisation_id in (None, tenant.organisation_id)
        if not mine:
            continue
        key = (row.kind, row.name, row.exact)
        if key not in strictest or _strictness(row) > _strictness(strictest[key]):
            strictest[key] = row
    return [_source(row) for _, row in sorted(strictest.items())]


def _strictness(row: BlockedSource) -> tuple[bool, int, bool, float]:
    lasting = row.expires_at.timestamp() if row.expires_at else float("inf")
    return (row.action == BlockAction.BLOCK, -row.most, row.expires_at is None, lasting)


def _source(row: BlockedSource) -> dict[str, Any]:
    source: dict[str, Any] = {"kind": row.kind, "name": row.name, "action": row.action}
    if row.action == BlockAction.LIMIT:
        source["limit"] = row.most
    if row.exact:
        source["exact"] = True
    if row.reason:
        source["reason"] = row.reason
    if row.expires_at is not None:
        source["expires_at"] = row.expires_at.isoformat()
    return source


def _stop(stop: Stop) -> dict[str, Any]:
    order = {"id": str(stop.pk), "scope": stop.scope, "name": stop.name, "reason": stop.reason}
    return order | ({"expires_at": stop.expires_at.isoformat()} if stop.expires_at else {})


def _secret(secret: SigningSecret) -> dict[str, Any]:
    not_after = secret.not_after.isoformat() if secret.not_after else None
    return {"kid": secret.kid, "secret": secret.secret, "not_after": not_after}


def _by_tenant(rows: Iterable[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.tenant_id].append(row)
    return found
