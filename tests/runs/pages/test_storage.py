"""The page of storage: who sees it, and what it says of room, days and retention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant
from runs.models import RetentionRun
from runs.partitions import ensure_partitions, partition_name
from runs.retention.storage import next_retention, read_storage
from tests.factories import (
    make_member,
    make_operator,
    make_organisation,
    make_run_event,
    make_tenant,
    store_runs,
)

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture(autouse=True)
def _places() -> None:
    ensure_partitions(NOW)


@pytest.fixture
def read(client: Client) -> Callable[[], str]:
    client.force_login(make_operator())
    return lambda: client.get(reverse("runs:storage")).content.decode()


def record(**fields: Any) -> RetentionRun:
    now = datetime.now(UTC)
    ended = {"ended_at": now, "finished": True}
    return RetentionRun.objects.create(started_at=now - timedelta(seconds=3), **(ended | fields))


def test_parts_add_up_to_the_database(tenant: Tenant) -> None:
    store_runs(tenant, make_run_event(ended_at=NOW), received_at=NOW)

    found = read_storage([], now=NOW)

    assert sum(part.size for part in found.parts) == found.size > 1_000_000
    assert [part.name for part in found.parts][-1] == "The rest"
    assert all(part.size > 0 for part in found.parts)


def test_the_oldest_day_is_the_first_that_has_runs(tenant: Tenant) -> None:
    assert read_storage([], now=NOW).oldest is None

    at = NOW - timedelta(days=5)
    store_runs(tenant, make_run_event(ended_at=at), make_run_event(ended_at=NOW), received_at=NOW)

    found = read_storage([], now=NOW)
    assert found.oldest == (at - timedelta(seconds=40)).date()
    assert [kept.empty for kept in found.days].count(False) == 2


def test_days_ahead_that_have_no_place_are_missed(read: Callable[[], str]) -> None:
    assert "have no place yet" not in read()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {partition_name(NOW.date() + timedelta(days=1))}")

    assert read_storage([], now=NOW).places_missing
    assert "have no place yet" in read()


def test_the_next_retention_is_at_the_minute_that_beat_keeps_to() -> None:
    before = datetime(2026, 11, 30, 10, 5, 3, tzinfo=UTC)

    assert next_retention(before) == datetime(2026, 11, 30, 10, 17, tzinfo=UTC)
    assert next_retention(before + timedelta(minutes=12)) == datetime(2026, 11, 30, 11, 17, tzinfo=UTC)


def test_the_disk_is_the_one_of_the_folder_that_is_named(
    settings: Any, tmp_path: Path, read: Callable[[], str]
) -> None:
    settings.DATABASE_FOLDER = str(tmp_path)
    found = read_storage([], now=NOW)
    assert found.disk is not None
    assert 0 < found.disk.free < found.disk.total

    settings.DATABASE_FOLDER = str(tmp_path / "absent")
    assert read_storage([], now=NOW).disk is None
    assert "not known" in read()


def test_without_runs_and_retention_the_page_says_what_comes_next(read: Callable[[], str]) -> None:
    text = read()

    assert "No runs are stored" in text
    assert "Retention has not run yet" in text
    assert "manage.py retention" in text


def test_each_day_leads_to_its_runs(tenant: Tenant, read: Callable[[], str]) -> None:
    store_runs(tenant, make_run_event(ended_at=NOW), received_at=NOW)
    day = (NOW - timedelta(seconds=40)).date()

    assert f"from={day}T00%3A00Z&amp;to={day + timedelta(days=1)}T00%3A00Z" in read()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "finished"),
        ({"finished": False, "postponed": [NOW.date()]}, "1 day in use or not counted yet"),
        ({"error": "disk \u202e full"}, "failed: <bdi>disk"),
        ({"ended_at": None, "finished": False, "progress": "Day 2 of 5"}, "At work: <bdi>Day 2 of 5</bdi>"),
    ],
)
def test_the_last_retention_is_told_as_it_went(
    fields: dict[str, Any], said: str, read: Callable[[], str]
) -> None:
    record(**fields)

    text = read()

    assert said in text
    assert "\u202e" not in text


def test_a_retention_that_died_is_told_from_one_at_work(read: Callable[[], str]) -> None:
    record(ended_at=None, finished=False)
    RetentionRun.objects.update(started_at=timezone.now() - timedelta(minutes=20))

    assert "broken off" in read()


def test_an_organisations_admin_sees_the_shorter_times_of_their_own_alone(
    client: Client, tenant: Tenant
) -> None:
    for organisation in (tenant.organisation, make_organisation("globex", name="Globex")):
        with acting(SYSTEM):
            Organisation.objects.filter(pk=organisation.pk).update(retention_days=9)
    client.force_login(make_member(tenant.organisation, Role.ADMIN))

    text = client.get(reverse("runs:storage")).content.decode()

    assert "9 days" in text
    assert "Globex" not in text


@pytest.mark.parametrize("role", Role)
def test_a_role_in_one_tenant_is_too_low(client: Client, tenant: Tenant, role: Role) -> None:
    client.force_login(make_member(tenant, role))

    assert client.get(reverse("runs:storage")).status_code == 403
    assert "Storage" not in client.get(reverse("runs:overview")).content.decode()


def test_htmx_gets_the_panels_alone(client: Client) -> None:
    client.force_login(make_operator())

    text = client.get(reverse("runs:storage"), headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in text
    assert 'id="storage"' in text
    assert 'id="as-of"' in text


def test_the_page_asks_as_few_questions_however_many_days(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    client.force_login(make_operator())

    with django_assert_max_num_queries(20):
        client.get(reverse("runs:storage"))
