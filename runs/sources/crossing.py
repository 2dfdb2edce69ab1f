"""Which sources cross tenants, and which of those stand out: the rule, without a database.

A tenant counts where runs were stopped that used the source, and where runs complete at all. Three such
tenants of two organisations cross; in an installation of one organisation, three of its tenants do, and each
tenant is then its own owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from guardops.tenants.models import Tenant

from .counts import ByTenant
from .lift import Lift, Tally, lift_of, weakest_lift

LEAST_TENANTS = 3
LEAST_ORGANISATIONS = 2
LEAST_STOPPED = 10
"""Stopped runs under which a source is no signal."""
LEAST_LIFT = 2.0
LEAST_LIFT_WITHOUT_ONE = 1.5
"""What has to be left of the lift whichever owner is left out."""

Owners = Mapping[int, int]
"""Each tenant's organisation."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A source in stopped runs of several tenants. ``tenant_ids`` are for operators alone."""

    tenant_ids: tuple[int, ...]
    organisations: int
    stopped: int
    lift: Lift
    weakest: float

    @property
    def stands_out(self) -> bool:
        """Say whether it is a signal: with enough runs, and no single owner's making."""
        return (
            self.stopped >= LEAST_STOPPED
            and self.lift.ratio >= LEAST_LIFT
            and self.lift.low > 1
            and self.weakest >= LEAST_LIFT_WITHOUT_ONE
        )


def read_owners() -> Owners:
    """Return every tenant's organisation."""
    return dict(Tenant.objects.values_list("pk", "organisation_id"))


def is_shared(owners: Owners) -> bool:
    """Say whether several organisations share the installation."""
    return len(set(owners.values())) > 1


def crossing_of(source: ByTenant, every: ByTenant, owners: Owners) -> Crossing | None:
    """Return how a source crosses tenants; None where it does not."""
    hit = [
        tenant_id
        for tenant_id, counted in sorted(source.items())
        if counted.stopped and tenant_id in owners and tenant_id in every and every[tenant_id].completed
    ]
    organisations = len({owners[tenant_id] for tenant_id in hit})
    shared = is_shared(owners)
    if len(hit) < LEAST_TENANTS or (shared and organisations < LEAST_ORGANISATIONS):
        return None
    tallies = tallies_of(source, every, owners if shared else {tenant: tenant for tenant in owners})
    lift = lift_of(tallies)
    if lift is None:
        return None
    stopped = sum(source[tenant_id].stopped for tenant_id in hit)
    return Crossing(tuple(hit), organisations, stopped, lift, weakest_lift(tallies))


def tallies_of(source: ByTenant, every: ByTenant, owners: Owners) -> list[Tally]:
    """Add up the runs of each owner's tenants."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for tenant_id, counted in every.items():
        if tenant_id in owners:
            used = source.get(tenant_id)
            numbers = (
                used.stopped if used else 0,
                counted.stopped,
                used.completed if used else 0,
                counted.completed,
            )
            of = sums[owners[tenant_id]]
            for place, number in enumerate(numbers):
                of[place] += number
    return [Tally(owner, *numbers) for owner, numbers in sorted(sums.items())]
