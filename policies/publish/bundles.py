"""From rows to revisions: composes tenants' bundles, numbers what changed, and wakes who waits for it."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection

from guardops.guard.bundle import (
    MAX_BLOCKED,
    MAX_BYTES,
    MAX_GZIPPED_BYTES,
    MAX_JOB_TYPES,
    canonical,
    check_rules,
    content_hash,
)
from guardops.guard.policy import PolicyError
from guardops.tenants.errors import GuardOpsError
from guardops.tenants.models import Tenant
from policies.compose import compose, read_rows
from policies.errors import BundleTooLarge, InvalidPolicy
from policies.models import BundleRevision, Change, SigningSecret

from .epoch import current_epoch

CHANNEL = "guardops_bundle"
"""PostgreSQL notifications: ``<tenant id> <revision>``, sent as the transaction commits."""
_AROUND = 512
"""Bytes, at most, of what a bundle says of itself beside its content."""
_EMPTY: dict[str, Any] = {"defaults": {}, "job_types": {}, "blocked": []}
_KEPT = {InvalidPolicy: ("defaults", "job_types"), BundleTooLarge: tuple(_EMPTY)}
"""What stays as it was published last, by what is wrong with what it would become."""


@dataclass(slots=True)
class Published:
    """What became of some tenants' bundles: how many got a new revision, and what was wrong, by slug."""

    revisions: int = 0
    failures: dict[str, GuardOpsError] = field(default_factory=dict)


def publish_bundles(tenant_ids: Collection[int], change: Change | None, now: datetime) -> Published:
    """Give each tenant whose content has changed its next revision; the others keep theirs.

    Must run inside `publishing`. Where guards would not take a tenant's policies, since its levels contradict
    each other, or all of it, since it is too large, that is named in ``failures``: those parts stay as they
    were published last, and the rest goes out, stops above all.
    """
    published = Published()
    # Locked in ascending order, so that two edits never wait for each other in a circle.
    tenants = list(Tenant.objects.filter(pk__in=tenant_ids).order_by("pk").select_for_update(no_key=True))
    _give_secrets(tenants, now)
    epoch, rows = current_epoch(now), read_rows(tenants, now)
    latest = _latest([tenant.pk for tenant in tenants])
    made: list[BundleRevision] = []
    for tenant in tenants:
        content, error = _takeable(tenant, compose(tenant, rows, now), now)
        if error is not None:
            published.failures[tenant.slug] = error
        revision = _next(tenant, content, epoch, latest.get(tenant.pk), now)
        if revision is not None:
            revision.change = change
            made.append(revision)
    _write(made)
    published.revisions = len(made)
    return published


def publish_first(tenant_id: int, now: datetime) -> None:
    """Give a tenant its first bundle; does nothing where it has one. Must run inside `publishing`."""
    tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)
    if tenant.bundle_revision == 0:
        publish_bundles([tenant_id], None, now)


def _takeable(
    tenant: Tenant, content: dict[str, Any], now: datetime
) -> tuple[dict[str, Any], GuardOpsError | None]:
    """Return what guards take of a bundle's content, and why that isn't all of it."""
    wrong: GuardOpsError | None = None
    for _ in _KEPT:  # policies that are put back may leave it too large
        try:
            _check(content, now)
            break
        except (BundleTooLarge, InvalidPolicy) as error:
            wrong = error
            content = content | _standing(tenant, _KEPT[type(error)])
    return content, wrong


def _check(content: dict[str, Any], now: datetime) -> None:
    """Raise InvalidPolicy or BundleTooLarge where guards would not take a bundle's content."""
    try:
        check_rules(content["defaults"], content["job_types"], now)
    except PolicyError as error:
        # Levels that are right by themselves may contradict each other.
        raise InvalidPolicy(error.field, str(error)) from error
    if len(content["job_types"]) > MAX_JOB_TYPES:
        raise BundleTooLarge(f"A tenant has at most {MAX_JOB_TYPES} job types with a policy.")
    if len(content["blocked"]) > MAX_BLOCKED:
        raise BundleTooLarge(f"A tenant has at most {MAX_BLOCKED:,} blocked sources.")
    body = canonical(content)
    if len(body) + _AROUND > MAX_BYTES or len(_pack(body)) + _AROUND > MAX_GZIPPED_BYTES:
        raise BundleTooLarge("Guards take at most 1 MiB of policies, 256 KiB gzipped.")


def _standing(tenant: Tenant, parts: Collection[str]) -> dict[str, Any]:
    """Return parts of the bundle that guards have now; nothing where they have none yet."""
    newest = BundleRevision.objects.filter(tenant=tenant, revision=tenant.bundle_revision).first()
    held = msgspec.json.decode(gzip.decompress(newest.body)) if newest else _EMPTY
    return {name: held[name] for name in parts}


def _next(
    tenant: Tenant, content: dict[str, Any], epoch: str, latest: tuple[str, str] | None, now: datetime
) -> BundleRevision | None:
    digest = content_hash(content)
    if latest == (epoch, digest):
        return None
    number = tenant.bundle_revision + 1
    body = canonical(
        content | {"epoch": epoch, "revision": number, "content_hash": digest, "issued_at": now.isoformat()}
    )
    return BundleRevision(
        tenant=tenant, revision=number, epoch=epoch, content_hash=digest, body=_pack(body), created_at=now
    )


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=6, mtime=0)


def _latest(tenant_ids: list[int]) -> dict[int, tuple[str, str]]:
    newest = BundleRevision.objects.filter(tenant__in=tenant_ids).order_by("tenant_id", "-revision")
    found = newest.distinct("tenant_id").values_list("tenant_id", "epoch", "content_hash")
    return {tenant_id: (epoch, digest) for tenant_id, epoch, digest in found}


def _write(made: list[BundleRevision]) -> None:
    BundleRevision.objects.bulk_create(made)
    pairs = [(revision.tenant_id, revision.revision) for revision in made]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tenants_tenant AS tenant SET bundle_revision = made.revision"
            " FROM unnest(%s::int[], %s::bigint[]) AS made (id, revision) WHERE tenant.id = made.id",
            [[tenant_id for tenant_id, _ in pairs], [revision for _, revision in pairs]],
        )
        cursor.execute(
            "SELECT pg_notify(%s, made.id || ' ' || made.revision)"
            " FROM unnest(%s::int[], %s::bigint[]) AS made (id, revision)",
            [CHANNEL, [tenant_id for tenant_id, _ in pairs], [revision for _, revision in pairs]],
        )


def _give_secrets(tenants: list[Tenant], now: datetime) -> None:
    """Make the first signing secret of tenants that have none."""
    ids = [tenant.pk for tenant in tenants]
    have = set(SigningSecret.objects.filter(tenant__in=ids).values_list("tenant_id", flat=True))
    SigningSecret.objects.bulk_create(
        SigningSecret(tenant=tenant, kid=new_kid(), secret=secrets.token_hex(32), created_at=now)
        for tenant in tenants
        if tenant.pk not in have
    )


def new_kid() -> str:
    return f"k{secrets.token_hex(4)}"
