"""The strip on top of the overview: what waits for somebody, of the tenants that they see."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.utils import timezone

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.alerts.incidents import Finding, open_incident
from runs.choices import RuleKind, Severity
from tests.factories import make_checkpoint, make_member, make_tenant

HTMX = {"HX-Request": "true"}


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def reviewer(client: Client, tenant: Tenant) -> Client:
    client.force_login(make_member(tenant, Role.REVIEWER, username="mara"))
    return client


def fire(tenant: Tenant, subject: str, severity: Severity = Severity.WARNING) -> None:
    title = f"Too many in {subject}"
    finding = Finding(
        tenant_id=tenant.pk, rule=RuleKind.FORCED, title=title, severity=severity, subject=subject
    )
    open_incident(finding, now=timezone.now())


def strip(client: Client) -> str:
    page = html.unescape(client.get("/attention/", headers=HTMX).content.decode())
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page)).strip()


def test_nothing_that_waits_says_nothing(reviewer: Client) -> None:
    assert strip(reviewer) == ""


def test_gravest_incidents_are_named_and_the_others_counted(reviewer: Client, tenant: Tenant) -> None:
    for name in ("a", "b"):
        fire(tenant, name)
    fire(tenant, "c", Severity.CRITICAL)
    text = strip(reviewer)
    assert text.index("Too many in c") < text.index("Too many in b")
    assert "Too many in a" not in text
    assert "3 open" in text


def test_checkpoints_that_wait_are_counted_by_their_sla(reviewer: Client, tenant: Tenant) -> None:
    make_checkpoint(tenant)
    assert "1 checkpoint for review" in strip(reviewer)


def test_what_others_have_waits_for_nobody_here(reviewer: Client) -> None:
    other = make_tenant("other")
    make_checkpoint(other)
    fire(other, "confidential")
    assert strip(reviewer) == ""


def test_navigation_counts_what_waits(reviewer: Client, tenant: Tenant) -> None:
    make_checkpoint(tenant)
    fire(tenant, "a")
    page = reviewer.get("/runs/").content.decode()
    assert len(re.findall(r'<span class="vh">, waiting: </span>1<', page)) == 2
