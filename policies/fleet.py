"""Which guards hold the newest bundle: what stands beside every edit, and the list of guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from guardops.tenants.querysets import TenantQuerySet

from .choices import GuardState
from .models import GuardInstance

TROUBLED = (GuardState.BEHIND, GuardState.STALE, GuardState.REJECTING, GuardState.SILENT)


@dataclass(frozen=True, slots=True)
class Applied:
    """How many guards of some tenants hold their newest bundle; those that are gone count nowhere."""

    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(count for state, count in self.counts.items() if state != GuardState.GONE)

    @property
    def current(self) -> int:
        return self.counts.get(GuardState.CURRENT, 0)

    @property
    def others(self) -> list[tuple[GuardState, int]]:
        """The states of those that don't hold it, with how many are in each."""
        return [(state, self.counts[state]) for state in TROUBLED if self.counts.get(state)]

    @property
    def is_settled(self) -> bool:
        """Whether nobody is under way to it any more."""
        return not self.counts.get(GuardState.BEHIND)


def read_applied(tenants: TenantQuerySet, now: datetime) -> Applied:
    """Count the guards of these tenants by their state, in one query."""
    counted = (
        GuardInstance.objects.for_tenants(tenants)
        .with_state(now)
        .values_list("state")
        .annotate(guards=Count("instance"))
        .order_by()
    )
    return Applied(dict(counted))
