from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from policies.publish.policies import Place, save_policy
from runs.choices import Cut, Grain
from runs.models import Rollup
from tests.factories import make_member, make_tenant

NOW = datetime.now(UTC)
ASK = reverse("runs:job-types")


@pytest.fixture
def tenant(db: None) -> Tenant:
    """A tenant in which research, support and something hostile ran."""
    tenant = make_tenant("acme")
    for job_type in ("research", "support", "<b>\u202e"):
        ran(tenant, job_type, NOW - timedelta(hours=1))
    return tenant


def ran(tenant: Tenant, job_type: str, at: datetime) -> None:
    """Count a run of that hour, as folding does."""
    Rollup.objects.create(
        tenant_id=tenant.pk, cut=Cut.JOB, grain=Grain.QUARTER, job_type=job_type, at=at, runs=1
    )


def offered(client: Client, person: object) -> list[tuple[str, str]]:
    client.force_login(person)  # type: ignore[arg-type]
    response = client.get(ASK, headers={"HX-Request": "true"})
    assert "\u202e" not in response.content.decode()
    return [(one.job_type, one.query) for one in response.context["found"]]


def rule(tenant: Tenant, job_type: str, *, wide: bool) -> None:
    place = Place(tenant.organisation, None if wide else tenant, job_type)
    save_policy(place, {"mode": "shadow"}, seen=0, actor=SYSTEM, now=NOW)


def test_job_types_that_ran_are_offered_a_policy(client: Client, tenant: Tenant) -> None:
    ran(tenant, "forgotten", NOW - timedelta(days=8))
    found = offered(client, make_member(tenant, Role.ADMIN))
    assert [job for job, _ in found] == ["<b>\u202e", "research", "support"]
    assert found[1][1] == "tenant=acme&job=research"


@pytest.mark.parametrize("wide", [True, False])
def test_job_type_with_a_policy_here_or_above_is_not_offered(
    client: Client, tenant: Tenant, wide: bool
) -> None:
    rule(tenant, "research", wide=wide)
    assert [job for job, _ in offered(client, make_member(tenant, Role.ADMIN))] == ["<b>\u202e", "support"]


def test_who_edits_no_policy_is_offered_none(client: Client, tenant: Tenant) -> None:
    foreign = make_tenant("elsewhere")
    for person in (make_member(tenant, Role.REVIEWER), make_member(foreign, Role.ADMIN)):
        assert offered(client, person) == []


def test_without_htmx_it_is_a_page(client: Client, tenant: Tenant) -> None:
    client.force_login(make_member(tenant, Role.ADMIN))
    assert "<h1>Job types</h1>" in client.get(ASK).content.decode()
