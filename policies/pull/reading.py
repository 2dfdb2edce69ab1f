"""What the gate asks the database about bundles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from guardops.guard.bundle import etag
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import ApiKey, Tenant
from policies.models import BundleRevision
from policies.publish.bundles import publish_first
from policies.publish.writing import publishing


@dataclass(frozen=True, slots=True)
class Held:
    """A tenant's newest bundle, as it is sent: ``packed`` is its JSON, gzipped."""

    tenant_id: int
    slug: str
    epoch: str
    revision: int
    content_hash: str
    etag: str
    packed: bytes


def read_newest(tenant_ids: Collection[int], now: datetime) -> Mapping[int, Held]:
    """Return the newest bundles of tenants that exist; one that has none yet gets its first."""
    found = _read(tenant_ids)
    if missing := sorted(set(tenant_ids) - found.keys()):
        existing = Tenant.objects.filter(pk__in=missing).order_by("pk").values_list("pk", flat=True)
        for tenant_id in existing:
            with publishing(SYSTEM):
                publish_first(tenant_id, now)
        found |= _read(missing)
    return found


def read_stale(revisions: Mapping[int, int]) -> list[int]:
    """Return those of the tenants whose newest revision is not the one that is held."""
    newest = dict(Tenant.objects.filter(pk__in=revisions).values_list("pk", "bundle_revision"))
    return [tenant_id for tenant_id, held in revisions.items() if newest.get(tenant_id) != held]


def read_dead_keys(key_ids: Collection[int], now: datetime) -> set[int]:
    """Return those of the keys that are revoked, expired or gone."""
    live = ApiKey.objects.filter(pk__in=key_ids).live(now).values_list("pk", flat=True)
    return set(key_ids) - set(live)


def _read(tenant_ids: Collection[int]) -> dict[int, Held]:
    rows = BundleRevision.objects.filter(
        tenant__in=tenant_ids, revision=F("tenant__bundle_revision")
    ).values_list("tenant_id", "tenant__slug", "epoch", "revision", "content_hash", "body")
    return {
        tenant_id: Held(tenant_id, slug, epoch, revision, digest, etag(epoch, revision, digest), bytes(body))
        for tenant_id, slug, epoch, revision, digest, body in rows
    }
