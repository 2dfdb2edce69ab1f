from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import urlencode

import pytest
from django.test import Client

from guardops.tenants import keys
from guardops.tenants.choices import Role
from guardops.tenants.models import ApiKey, Tenant
from runs.reports.signs import first_sign, parse_since
from tests.factories import make_member, make_run_event, make_tenant, store_runs

pytestmark = pytest.mark.django_db

URL = "/connect/"
PLAIN = re.compile(r"go_[0-9a-f]{12}_[0-9a-f]{64}")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def admin(client: Client, tenant: Tenant) -> Client:
    client.force_login(make_member(tenant, Role.ADMIN, username="ana"))
    return client


def status(client: Client, **query: str) -> str:
    response = client.get(f"{URL}status/?{urlencode(query)}", headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


def test_looking_makes_no_key(admin: Client) -> None:
    assert "Make a key" in admin.get(URL).content.decode()
    assert not ApiKey.objects.exists()


def test_a_fresh_key_is_filled_into_every_snippet(admin: Client, tenant: Tenant, settings: object) -> None:
    settings.GATE_URL = "https://gate.example"  # type: ignore[attr-defined]
    response = admin.post(URL, {"tenant": "acme"})
    text = response.content.decode()
    [plain] = set(PLAIN.findall(text))
    assert f"export GUARDOPS_KEY={plain}" in text
    assert f"Bearer {plain}" in text
    assert "curl https://gate.example/api/v1/events" in text
    assert "no-store" in response["Cache-Control"]


def test_the_key_works_for_that_tenant_and_may_do_what_a_guard_does(admin: Client, tenant: Tenant) -> None:
    [plain] = set(PLAIN.findall(admin.post(URL, {"tenant": "acme"}).content.decode()))
    keys.forget()
    holder = keys.authenticate(f"Bearer {plain}", datetime.now(UTC))
    assert (holder.tenants, holder.scopes) == ({"acme": tenant.pk}, {"events:write", "bundle:read"})
    assert ApiKey.objects.get().name == "connected by ana"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_who_may_not_make_a_key_is_told_whom_to_ask(client: Client, tenant: Tenant, role: Role) -> None:
    make_member(tenant, Role.ADMIN, username="ana")
    make_member(tenant.organisation, Role.ADMIN, username="omar")
    make_member(make_tenant(), Role.ADMIN, username="zoe")
    client.force_login(make_member(tenant, role))
    text = client.get(URL).content.decode()
    assert "Ask <strong><bdi>ana</bdi></strong>, <strong><bdi>omar</bdi></strong>" in text
    assert "zoe" not in text
    assert client.post(URL, {"tenant": "acme"}).status_code == 403
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("slug", ["", "made-up", "\0", "x" * 5000])
def test_a_tenant_that_is_none_gets_no_key(admin: Client, slug: str) -> None:
    assert admin.post(URL, {"tenant": slug}).status_code == 404
    assert not ApiKey.objects.exists()


def test_who_is_no_member_is_told_so(client: Client) -> None:
    client.force_login(make_member(make_tenant()))
    client.logout()
    stranger = make_member(make_tenant())
    stranger.memberships.all().delete()
    client.force_login(stranger)
    assert "not a member of any tenant" in client.get(URL).content.decode()


def test_waiting_asks_again_until_an_event_arrives(admin: Client, tenant: Tenant, now: datetime) -> None:
    waiting = status(admin, tenant="acme", since=now.isoformat())
    assert "Waiting for the first event" in waiting
    assert "every 2s" in waiting
    run = make_run_event(ended_at=now)
    store_runs(tenant, run, received_at=now + timedelta(seconds=1))
    green = status(admin, tenant="acme", since=now.isoformat())
    assert f"/runs/{run.run_id}/?tenant=acme" in green
    assert "hx-get" not in green


def test_a_run_that_arrived_before_the_key_was_made_does_not_count(tenant: Tenant, now: datetime) -> None:
    store_runs(tenant, make_run_event(ended_at=now), received_at=now - timedelta(seconds=1))
    assert first_sign(tenant.pk, now, now) is None


def test_a_run_of_another_tenant_does_not_count(tenant: Tenant, now: datetime) -> None:
    store_runs(make_tenant(), make_run_event(ended_at=now), received_at=now)
    assert first_sign(tenant.pk, now, now) is None


def test_a_run_that_ended_before_the_key_was_made_counts_when_it_arrives(
    tenant: Tenant, now: datetime
) -> None:
    run = make_run_event(ended_at=now - timedelta(hours=2))
    store_runs(tenant, run, received_at=now)
    sign = first_sign(tenant.pk, now, now)
    assert sign is not None
    assert (sign.run_id, sign.ended) == (run.run_id, True)


def test_the_status_is_a_whole_page_without_scripts(admin: Client) -> None:
    text = admin.get(f"{URL}status/?tenant=acme").content.decode()
    assert "<html" in text
    assert "Waiting for the first event" in text


@pytest.mark.parametrize(
    "text",
    ["", "x", "\0", "2026-13-01", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-30T00:00:00"],
)
def test_a_moment_that_is_none_is_a_day_ago(text: str, now: datetime) -> None:
    assert parse_since(text, now) == now - timedelta(days=1)


def test_a_moment_of_this_week_is_kept(now: datetime) -> None:
    since = now - timedelta(days=2)
    assert parse_since(since.isoformat(), now) == since


def test_a_moment_with_an_offset_that_no_database_knows_is_read(admin: Client, now: datetime) -> None:
    offset = timezone(timedelta(seconds=30, microseconds=500_000))
    assert "Waiting for the first event" in status(
        admin, tenant="acme", since=now.astimezone(offset).isoformat()
    )
