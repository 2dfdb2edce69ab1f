"""Every route of the project × everybody: what strangers, members and operators get of one tenant's things.

A route that no table names fails the first test, so none is added without a word on who may see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from tests.factories import (
    make_member,
    make_operator,
    make_run_event,
    make_run_id,
    make_tenant,
    make_user,
    store_runs,
)

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)  # the pages show the last day, and today has a partition
ENDED_AT = NOW - timedelta(minutes=1)
RUN_ID = make_run_id(ENDED_AT)
OPEN = {"healthz", "tenants:login", "tenants:logout"}
ELSEWHERE = {
    "tenants:keys",
    "tenants:key-create",
    "tenants:key-revoke",
}  # walked in tests/tenants/test_walk.py
PAGES = {"runs:overview": [], "runs:list": []}
"""Pages that show whatever their reader may see; asked for a tenant of others they find nothing."""
OF_A_RUN = {"runs:detail": [RUN_ID]}

MEMBERS = ["viewer", "reviewer", "admin", "organisation_admin", "operator"]
STRANGERS = ["nobody", "foreign_admin"]


def route_names(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLPattern):
            yield f"{prefix}{entry.name or entry.pattern}"
        else:
            yield from route_names(entry, f"{entry.namespace}:" if entry.namespace else prefix)


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant("secret-tenant")
    run = make_run_event(run_id=RUN_ID, ended_at=ENDED_AT, job_type="secret-job")
    store_runs(tenant, run, received_at=NOW)
    return tenant


def person(tenant: Tenant, who: str) -> User:
    match who:
        case "nobody":
            return make_user()
        case "operator":
            return make_operator()
        case "foreign_admin":
            return make_member(make_tenant("elsewhere"), Role.ADMIN)
        case "organisation_admin":
            return make_member(tenant.organisation, Role.ADMIN)
        case _:
            return make_member(tenant, Role(who))


def plain(response: HttpResponse) -> str:
    """Return the page without what differs each time: its CSRF token, and the moment it was made."""
    text = re.sub(
        r'(name="csrfmiddlewaretoken" value=|"X-CSRFToken": )"[^"]+"', "", response.content.decode()
    )
    return re.sub(r"<time\b.*?</time>", "", text)


def test_every_route_is_walked() -> None:
    assert set(route_names(get_resolver())) == OPEN | ELSEWHERE | set(PAGES) | set(OF_A_RUN)


@pytest.mark.parametrize("name", sorted({**PAGES, **OF_A_RUN}))
def test_who_is_not_logged_in_is_sent_to_the_login_page(client: Client, tenant: Tenant, name: str) -> None:
    address = reverse(name, args=(PAGES | OF_A_RUN)[name])
    assert client.get(address)["Location"] == f"/login/?next={address}"


@pytest.mark.parametrize("who", MEMBERS)
@pytest.mark.parametrize("name", sorted({**PAGES, **OF_A_RUN}))
def test_who_may_see_the_tenant_sees_its_runs(client: Client, tenant: Tenant, name: str, who: str) -> None:
    client.force_login(person(tenant, who))
    response = client.get(reverse(name, args=(PAGES | OF_A_RUN)[name]), {"tenant": tenant.slug})
    assert response.status_code == 200
    assert "secret-job" in response.content.decode()


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_stranger_sees_nothing_of_the_tenant(client: Client, tenant: Tenant, name: str, who: str) -> None:
    client.force_login(person(tenant, who))
    for headers in ({}, {"HX-Request": "true"}):
        response = client.get(reverse(name), headers=headers)
        assert response.status_code == 200
        assert "secret-job" not in response.content.decode()
        assert tenant.slug not in response.content.decode()


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("name", sorted({**PAGES, **OF_A_RUN}))
def test_a_stranger_can_not_tell_the_tenant_from_one_that_does_not_exist(
    client: Client, tenant: Tenant, name: str, who: str
) -> None:
    client.force_login(person(tenant, who))
    address = reverse(name, args=(PAGES | OF_A_RUN)[name])
    real, made_up = (client.get(address, {"tenant": slug}) for slug in (tenant.slug, "made-up"))
    assert real.status_code == made_up.status_code
    assert plain(real).replace(tenant.slug, "") == plain(made_up).replace("made-up", "")
    assert "secret-job" not in plain(real)


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("name", sorted(OF_A_RUN))
def test_a_stranger_does_not_find_a_run(client: Client, tenant: Tenant, name: str, who: str) -> None:
    client.force_login(person(tenant, who))
    unknown = UUID(int=RUN_ID.int + 1)
    answers = {client.get(reverse(name, args=[run_id])).content for run_id in (RUN_ID, unknown)}
    assert client.get(reverse(name, args=[RUN_ID])).status_code == 404
    assert len(answers) == 1
