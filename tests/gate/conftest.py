from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from litestar.testing import TestClient

from guardops.gate.app import make_app
from guardops.tenants import keys
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from tests.factories import make_key, make_tenant
from tests.runs.ingest.wire import make_event


@pytest.fixture
def gate(transactional_db: None) -> Iterator[TestClient[Any]]:
    """A gate in this process, on the loop of a thread of its own."""
    keys.forget()
    with TestClient(make_app(), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


def bearer(
    *tenants: Tenant, scopes: tuple[str, ...] = (Scope.EVENTS_WRITE,), **fields: Any
) -> dict[str, str]:
    """Return the header of a new key."""
    _, plain = make_key(*tenants, scopes=scopes, now=fields.pop("now", datetime.now(UTC)), **fields)
    return {"Authorization": f"Bearer {plain}"}


@pytest.fixture
def key(tenant: Tenant) -> dict[str, str]:
    return bearer(tenant)


def now_event(**overrides: Any) -> dict[str, Any]:
    """Return a run that has just ended."""
    return make_event(**{"ended_at": datetime.now(UTC)} | overrides)
