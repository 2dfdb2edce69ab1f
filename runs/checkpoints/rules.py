"""What a tenant's policy says of reviews: the SLA, and what a resume may add at most."""

from __future__ import annotations

import functools
import gzip
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db.models import F

from guardops.guard.bundle import Review, in_force, merge, read_rules
from guardops.guard.fields import PolicyError
from policies.models import BundleRevision

_DEFAULT = Review()


class _Documents(NamedTuple):
    defaults: dict[str, Any]
    job_types: dict[str, dict[str, Any]]


def review_rules(tenant_id: int, job_type: str, now: datetime) -> Review:
    """Return how the job type's checkpoints are handled by the tenant's newest bundle; one query or two."""
    newest = BundleRevision.objects.filter(tenant=tenant_id, revision=F("tenant__bundle_revision"))
    row = newest.values_list("epoch", "revision").first()
    if row is None:
        return _DEFAULT
    documents = _documents(tenant_id, *row)
    document = merge(in_force(documents.defaults, now), in_force(documents.job_types.get(job_type, {}), now))
    try:
        return read_rules(document).review
    except PolicyError:  # of a bundle that was published by other rules than ours
        return _DEFAULT


@functools.lru_cache(maxsize=256)
def _documents(tenant_id: int, epoch: str, revision: int) -> _Documents:
    """Return a revision's policy documents: a revision never changes, so they are read once."""
    body = BundleRevision.objects.values_list("body", flat=True).get(
        tenant=tenant_id, epoch=epoch, revision=revision
    )
    bundle = msgspec.json.decode(gzip.decompress(body))
    return _Documents(bundle.get("defaults", {}), bundle.get("job_types", {}))
