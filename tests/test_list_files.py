"""Each list's files hold what its page lists, in both forms, and are narrowed in the same way."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from guardops.guard.reasons import family_of
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from policies.choices import StopScope
from policies.publish.policies import Place, save_policy
from policies.publish.stops import issue_stop, lift_stop
from policies.pull.fleet import Sign, write_signs
from tests.factories import make_invitation, make_member, make_tenant
from tests.runs.live_rows import insert_live
from tests.runs.notify.conftest import open_one
from tests.runs.rows import insert_rows, make_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant(client: Client) -> Tenant:
    made = make_tenant("acme")
    client.force_login(make_member(made.organisation, Role.ADMIN, username="ada"))
    return made


def rows_of(client: Client, address: str, **query: Any) -> list[dict[str, Any]]:
    """Return a file's rows as JSON has them; the CSV file must have as many, of the same columns."""
    lines, document = (_text(client, f"{address}.{form}", query) for form in ("csv", "json"))
    found = json.loads(document)
    assert found["complete"] is True
    records = list(csv.DictReader(io.StringIO(lines, newline="")))
    assert len(records) == len(found["rows"])
    assert all(set(record) == set(row) for record, row in zip(records, found["rows"], strict=True))
    return list(found["rows"])


def _text(client: Client, address: str, query: dict[str, Any]) -> str:
    response = client.get(address, query)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


def test_stops_tell_which_are_in_force(client: Client, tenant: Tenant) -> None:
    now = timezone.now()
    order = {"reason": "=costs", "actor": SYSTEM, "now": now}
    lift_stop(issue_stop(tenant, StopScope.TASK, "t-1", **order).stop, actor=SYSTEM, now=now)
    issue_stop(tenant, StopScope.JOB_TYPE, "research", **order)
    rows = rows_of(client, "/stops/export")
    assert {(row["name"], row["in_force"]) for row in rows} == {("t-1", False), ("research", True)}
    assert rows[0]["reason"] == "=costs"
    assert ",'=costs," in _text(client, "/stops/export.csv", {})


def test_policies_have_what_holds_and_who_said_so(client: Client, tenant: Tenant) -> None:
    now = timezone.now()
    for number, place in enumerate(
        [Place(tenant.organisation, None, ""), Place(tenant.organisation, tenant, "x")]
    ):
        save_policy(place, {"limits": {"max_steps": 9 + number}}, seen=0, actor=SYSTEM, now=now, note="why")
    rows = rows_of(client, "/policies/export")
    assert [(row["job_type"], row["tenant"], row["max_steps"]) for row in rows] == [
        ("", None, "9"),
        ("x", "acme", "10"),
    ]
    assert len(rows_of(client, "/policies/export", job="x")) == 1
    versions = rows_of(client, "/policies/versions/export", tenant="acme", job="x")
    assert [(row["version"], row["note"]) for row in versions] == [(1, "why")]
    assert json.loads(versions[0]["document"]) == {"limits": {"max_steps": 10}}


def test_guards_are_narrowed_by_their_state(client: Client, tenant: Tenant) -> None:
    now = timezone.now()
    write_signs({(tenant.pk, f"00000000-0000-0000-0000-{n:012}"): Sign(now, "", "", "") for n in range(3)})
    rows = rows_of(client, "/guards/export")
    assert len(rows) == 3
    assert {row["tenant"] for row in rows} == {"acme"}
    states = {row["state"] for row in rows}
    assert len(rows_of(client, "/guards/export", state=states.pop())) == 3
    assert client.get("/guards/export.json", {"state": "asleep"}).status_code == 400


def test_members_invitations_and_tenants(client: Client, tenant: Tenant) -> None:
    make_member(tenant, Role.REVIEWER, username="rosa")
    make_invitation(tenant, invitee="kim@example.com", now=timezone.now())
    members = {row["username"]: row["role"] for row in rows_of(client, "/settings/members/members")}
    assert (members["ada"], members["rosa"]) == ("admin", "reviewer")
    (invitation,) = rows_of(client, "/settings/members/invitations")
    assert (invitation["invitee"], invitation["tenant"], invitation["state"]) == (
        "kim@example.com",
        "acme",
        "open",
    )
    assert [row["tenant"] for row in rows_of(client, "/settings/tenants")] == ["acme"]


def test_live_runs_are_narrowed_like_their_list(client: Client, tenant: Tenant) -> None:
    insert_live(tenant, job_type="support", pressure=91, pressure_limit="max_steps")
    insert_live(tenant, job_type="research")
    rows = rows_of(client, "/runs/live/export")
    assert [(row["job_type"], row["pressure_percent"]) for row in rows] == [("support", 91), ("research", 0)]
    assert len(rows_of(client, "/runs/live/export", state="pressure")) == 1
    assert client.get("/runs/live/export.csv", {"state": "asleep"}).status_code == 400


def test_incidents_rules_and_silences(client: Client, tenant: Tenant) -> None:
    incident = open_one(tenant)
    rows = rows_of(client, "/alerts/incidents")
    assert [(row["id"], row["title"], row["state"]) for row in rows] == [
        (str(incident.pk), incident.title, "open")
    ]
    assert rows_of(client, "/alerts/incidents", state="resolved") == []
    rules = {row["rule"]: row for row in rows_of(client, "/alerts/rules/export", tenant="acme")}
    assert (rules["loop_rate"]["incidents"], rules["loop_rate"]["enabled"]) == (1, True)
    assert rows_of(client, "/alerts/silences/export") == []


def test_the_overviews_tables_count_what_the_page_counts(client: Client, tenant: Tenant) -> None:
    now = timezone.now()
    insert_rows(
        make_row(
            now - timedelta(minutes=n),
            tenant_id=tenant.pk,
            **({"halt_reason": "no_progress"} if n < 3 else {}),
        )
        for n in range(10)
    )
    query = {"range": "24h"}
    family = family_of("no_progress").value
    halts = rows_of(client, "/overview/halts", **query)
    assert sum(row["all"] for row in halts) == sum(row[family] for row in halts) == 3
    (reason,) = rows_of(client, "/overview/reasons", **query)
    assert (reason["reason"], reason["halts"]) == ("no_progress", 3)
    steps = rows_of(client, "/overview/steps", **query)
    assert sum(row["tasks"] for row in steps) > 0
    over_time = rows_of(client, "/overview/steps-over-time", **query)
    assert {row["job_type"] for row in over_time} == {steps[0]["job_type"]}
    assert client.get("/overview/nothing.csv").status_code == 404
    assert client.get("/overview/halts.csv", {"range": "3y"}).status_code == 400
