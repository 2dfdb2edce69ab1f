"""From when on runs are kept, and the record of it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from django.db.models import Max, Q

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.models import Tenant
from runs.models import RunHorizon
from runs.querysets import ALL_TENANTS

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""Before the time of any run."""


def kept_from(now: datetime, days: int) -> datetime:
    """Return the UTC midnight from which on runs are kept: whole days, so that roll-ups end with them."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)


def move_horizon(tenant: Tenant | None, to: datetime) -> None:
    """Record that runs before ``to`` are about to go: of one tenant, or of all of them. Never moves back."""
    with acting(SYSTEM):
        horizon, made = RunHorizon.objects.select_for_update().get_or_create(
            tenant=tenant, defaults={"kept_from": to}
        )
        if not made and horizon.kept_from < to:
            horizon.kept_from = to
            horizon.save(update_fields=["kept_from"])


def gone_before(tenant_ids: Collection[int]) -> datetime | None:
    """Return from when on every run of these tenants is still there; None where none has been deleted."""
    rows = RunHorizon.objects.all()
    if ALL_TENANTS not in tenant_ids:
        rows = rows.filter(Q(tenant=None) | Q(tenant__in=tenant_ids))
    found: datetime | None = rows.aggregate(Max("kept_from"))["kept_from__max"]
    return found
