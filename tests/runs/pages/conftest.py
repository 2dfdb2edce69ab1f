from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from guardops.guard.events import RunEnded
from guardops.tenants.models import Tenant, User
from runs.ingest.record import record_runs
from runs.ingest.rows import Receipt, project
from tests.factories import make_member, make_operator, make_organisation, make_tenant, make_user
from tests.runs.rows import insert_rows, make_row


@dataclass
class Cast:
    """Two tenants of one organisation, one of another, and who sees which."""

    tenant: Tenant
    sibling: Tenant
    foreign: Tenant
    viewer: User  # of the first tenant
    member: User  # of the organisation
    operator: User
    outsider: User


@pytest.fixture
def cast(db: None) -> Cast:
    organisation = make_organisation("acme")
    tenant = make_tenant("research", organisation=organisation)
    return Cast(
        tenant=tenant,
        sibling=make_tenant("support", organisation=organisation),
        foreign=make_tenant("elsewhere"),
        viewer=make_member(tenant),
        member=make_member(organisation),
        operator=make_operator(),
        outsider=make_user(),
    )


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def viewer(cast: Cast, client: Client) -> Client:
    """A browser in which the first tenant's viewer is logged in."""
    client.force_login(cast.viewer)
    return client


@pytest.fixture
def member(cast: Cast, client: Client) -> Client:
    """A browser in which somebody who sees both tenants of the organisation is logged in."""
    client.force_login(cast.member)
    return client


@pytest.fixture
def add(cast: Cast, now: datetime) -> Callable[..., UUID]:
    """Return a function that stores one run of the first tenant, a minute ago, and returns its id."""

    def add(**columns: Any) -> UUID:
        row = make_row(
            columns.pop("at", now - timedelta(minutes=1)), **{"tenant_id": cast.tenant.pk, **columns}
        )
        insert_rows([row])
        return row["run_id"]

    return add


@pytest.fixture
def ingest(cast: Cast, now: datetime) -> Callable[..., None]:
    """Return a function that stores events as the gate does."""

    def ingest(*events: RunEnded, tenant: Tenant = cast.tenant) -> None:
        receipt = Receipt(at=now)
        rows = [
            project(event, receipt, index=index, tenant_id=tenant.pk, sanitized=False)
            for index, event in enumerate(events)
        ]
        assert record_runs(rows).accepted == len(events)

    return ingest


def listed(client: Client, query: str = "") -> list[UUID]:
    """Return the ids on one page of the list, in its order, and check that the page shows them."""
    response = client.get(f"/runs/{query}")
    assert response.status_code == 200, response.content
    ids = [run.run_id for run in response.context["listing"].page.runs]
    page = response.content.decode()
    assert all(f"/runs/{run_id}/" in page for run_id in ids)
    return ids
