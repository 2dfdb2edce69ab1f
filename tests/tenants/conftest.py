from __future__ import annotations

from dataclasses import dataclass

import pytest

from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant, User
from tests.factories import make_member, make_operator, make_organisation, make_tenant, make_user


@dataclass
class Cast:
    """One organisation with two tenants, people of every role in the first, and people from elsewhere."""

    organisation: Organisation
    tenant: Tenant
    sibling: Tenant
    foreign: Tenant
    viewer: User
    reviewer: User
    admin: User
    organisation_admin: User
    foreign_admin: User
    operator: User
    nobody: User


@pytest.fixture
def cast(db: None) -> Cast:
    organisation = make_organisation("acme")
    tenant = make_tenant("research", organisation=organisation)
    foreign = make_tenant("elsewhere")
    return Cast(
        organisation=organisation,
        tenant=tenant,
        sibling=make_tenant("support", organisation=organisation),
        foreign=foreign,
        viewer=make_member(tenant, Role.VIEWER),
        reviewer=make_member(tenant, Role.REVIEWER),
        admin=make_member(tenant, Role.ADMIN),
        organisation_admin=make_member(organisation, Role.ADMIN),
        foreign_admin=make_member(foreign, Role.ADMIN),
        operator=make_operator(),
        nobody=make_user(),
    )
