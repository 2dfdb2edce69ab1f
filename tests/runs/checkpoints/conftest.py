from __future__ import annotations

from datetime import UTC, datetime

import pytest

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.models import Checkpoint
from tests.factories import make_checkpoint, make_member, make_tenant


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def ann(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="ann")


@pytest.fixture
def bob(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="bob")


@pytest.fixture
def checkpoint(tenant: Tenant, now: datetime) -> Checkpoint:
    return make_checkpoint(tenant, opened_at=now)
