from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from guardops.guard.bundle import Bundle, read_bundle
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant, User
from policies.models import BundleRevision
from policies.publish import bundles
from policies.publish.policies import Place, save_policy
from tests.factories import make_member, make_organisation, make_tenant

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


@dataclass
class House:
    """An organisation of two tenants, its admin, and a tenant of another one."""

    organisation: Organisation
    tenant: Tenant
    sibling: Tenant
    foreign: Tenant
    admin: User

    def place(self, job_type: str = "research", *, wide: bool = False) -> Place:
        return Place(self.organisation, None if wide else self.tenant, job_type)


@pytest.fixture
def house(db: None) -> House:
    organisation = make_organisation("acme")
    return House(
        organisation=organisation,
        tenant=make_tenant("research", organisation=organisation),
        sibling=make_tenant("support", organisation=organisation),
        foreign=make_tenant("elsewhere"),
        admin=make_member(organisation, Role.ADMIN, username="mara"),
    )


def contradict(house: House) -> None:
    """Have the organisation say what doesn't go with what the tenant says: its policies stay as they were."""
    save_policy(house.place(), {"limits": {"window": 6}}, seen=0, actor=house.admin, now=NOW)
    wide = save_policy(
        house.place("", wide=True), {"limits": {"cycle_reps": 5}}, seen=0, actor=house.admin, now=NOW
    )
    assert wide is not None
    assert wide.change.failure


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes every bundle too large, as if 20,000 sources were blocked already."""
    return lambda: monkeypatch.setattr(bundles, "MAX_BLOCKED", -1)


def bundle_of(tenant: Tenant) -> Bundle:
    """Return what a guard of the tenant reads of its newest revision, proven as a guard proves it."""
    newest = BundleRevision.objects.filter(tenant=tenant).latest("revision")
    bundle = read_bundle(gzip.decompress(newest.body), tenant=tenant.slug)
    assert (bundle.revision, bundle.content_hash) == (newest.revision, newest.content_hash)
    return bundle


def revisions_of(tenant: Tenant) -> list[int]:
    found = BundleRevision.objects.filter(tenant=tenant).order_by("revision")
    return list(found.values_list("revision", flat=True))
