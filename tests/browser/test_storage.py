"""The page of storage in a browser: with and without runs, in every look, down to 320 pixels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from guardops.tenants.models import Tenant, User
from runs.health.pulse import write_pulse
from runs.models import RetentionRun
from runs.partitions import ensure_partitions
from tests.browser.conftest import Desks, Look
from tests.browser.seeds import HOSTILE, insert_day
from tests.browser.test_every_page import faults_by_look
from tests.factories import make_operator

PATH = reverse("runs:storage")


@pytest.fixture
def operator(tenant: Tenant) -> User:
    ensure_partitions(datetime.now(UTC))
    return make_operator()


def test_it_is_accessible_before_anything_is_stored(desk: Desks, operator: User) -> None:
    assert faults_by_look(desk, operator, PATH) == {}


def test_it_is_accessible_with_runs_and_retentions_and_fits_on_a_small_phone(
    desk: Desks, tenant: Tenant, operator: User
) -> None:
    now = datetime.now(UTC)
    insert_day(tenant, count=40)
    for minutes, fields in enumerate(({"error": HOSTILE}, {"days": [now.date()]}, {"finished": True})):
        began = now - timedelta(minutes=10 + minutes)
        RetentionRun.objects.create(started_at=began, ended_at=began, **fields)
    RetentionRun.objects.create(started_at=now, progress="Day 2 of 5")

    assert faults_by_look(desk, operator, PATH) == {}
    at = desk(operator, Look("light", 320))
    page = at.open(PATH)
    assert at.sideways_scroll() == 0
    assert page.get_by_text("At work: Day 2 of 5").is_visible()
    assert "⟦U+202E⟧" in page.locator("main").inner_text()


def test_the_page_of_health_is_accessible(desk: Desks, operator: User) -> None:
    write_pulse("heartbeat", datetime.now(UTC), HOSTILE)
    assert faults_by_look(desk, operator, reverse("runs:health")) == {}
