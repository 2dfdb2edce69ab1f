"""Times on pages: how long ago, and when by the viewer's clock with its zone; right when clocks change."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from tests.factories import make_key, make_member, make_tenant
from tests.runs.live_rows import insert_live
from tests.runs.rows import insert_rows, make_row

AUTUMN = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, for the first time of two
SPRING = datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC)  # a second before 03:00 in Berlin


def when(moment: datetime, now: datetime, zone: str = "Europe/Berlin") -> str:
    with timezone.override(zone):
        html = Template("{% load shown %}{% when moment %}").render(Context({"moment": moment, "as_of": now}))
    return html.replace("\xa0", " ")


def test_hour_that_comes_twice_is_told_apart() -> None:
    first, second = (when(AUTUMN + timedelta(hours=hour), AUTUMN + timedelta(hours=2)) for hour in (0, 1))

    assert "2 h ago" in first
    assert "02:30:00 CEST" in first
    assert "1 h ago" in second
    assert "02:30:00 CET" in second


def test_hour_that_is_left_out_is_not_counted() -> None:
    later = when(SPRING, SPRING + timedelta(seconds=2))

    assert "just now" in later
    assert "01:59:59 CET" in later
    assert "03:00:01 CEST" in when(SPRING + timedelta(seconds=2), SPRING + timedelta(seconds=2))


def test_machines_read_the_same_moment_in_every_zone() -> None:
    found = {
        re.search(r'datetime="([^"]+)"', when(AUTUMN, AUTUMN, zone))[1]  # type: ignore[index]
        for zone in ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Etc/GMT+5")
    }
    assert found == {"2026-10-25T00:30:00.000+00:00"}


@pytest.mark.parametrize(("zone", "shown"), [("", "UTC"), ("Asia/Kathmandu", "+0545")])
@pytest.mark.django_db
def test_every_time_of_a_page_has_its_zone_and_machines_can_read_it(
    client: Client, zone: str, shown: str
) -> None:
    tenant: Tenant = make_tenant("acme")
    now = datetime.now(UTC)
    insert_rows([make_row(now - timedelta(days=age), tenant_id=tenant.pk) for age in (0, 2)])
    insert_live(tenant)
    make_key(tenant, now=now)
    client.force_login(make_member(tenant, Role.ADMIN))
    client.cookies["zone"] = zone
    for path in ("/runs/?range=7d", "/runs/live/", "/settings/keys/", "/settings/audit/"):
        times = re.findall(r"<time\b(.*?)>(.*?)</time>", client.get(path).content.decode(), re.S)
        assert len(times) > 1, path
        for attributes, text in times:
            assert re.search(r'datetime="20\d\d-\d\d-\d\dT[\d:.]+\+00:00"', attributes), path
            assert re.search(rf"\d\d:\d\d:\d\d {re.escape(shown)}", text), (path, text)
