"""The pages of incidents, rules and silences, as people use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.template import Context, Template
from django.test import Client
from django.urls import reverse

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.alerts.evaluate import GAP
from runs.alerts.incidents import acknowledge, open_incident, resolve_incident
from runs.alerts.standing import STOPPED_AFTER
from runs.choices import IncidentState, RuleKind, Severity
from runs.models import Evaluation, Incident, Rule, RuleEvent, Silence
from tests.factories import make_member, make_operator, make_tenant
from tests.runs.alerts.findings import make_finding
from tests.runs.alerts.scene import make_scene

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def mara(tenant: Tenant, client: Client) -> User:
    """Return a reviewer who is signed in."""
    person = make_member(tenant, Role.REVIEWER, username="mara")
    client.force_login(person)
    return person


@pytest.fixture
def admin(tenant: Tenant, client: Client) -> User:
    person = make_member(tenant, Role.ADMIN, username="adam")
    client.force_login(person)
    return person


@pytest.fixture
def incident(tenant: Tenant, now: datetime) -> Incident:
    return open_incident(make_finding(tenant), now=now - HOUR).incident


def text(response: HttpResponse) -> str:
    return response.content.decode()


def listed(client: Client, **params: str) -> list[str]:
    page = client.get(reverse("runs:incidents"), params).context["page"]
    return [incident.rule for incident in page]


def act(client: Client, incident: Incident, verb: str, **data: Any) -> HttpResponse:
    address = reverse(f"runs:incident-{verb}", args=[incident.pk])
    return client.post(address, {"version": incident.version} | data, follow=True)


def test_the_list_shows_what_is_not_over_and_narrows_by_its_address(
    client: Client, tenant: Tenant, mara: User, now: datetime
) -> None:
    make_scene(tenant, mara, now)
    assert listed(client) == ["forced", "cost"]
    assert listed(client, state="any") == ["forced", "cost", "review_sla"]
    assert listed(client, state="resolved") == ["review_sla"]
    assert listed(client, state="open") == ["forced"]
    assert listed(client, rule="cost") == ["cost"]
    assert listed(client, severity="critical") == ["forced"]
    assert listed(client, mine="1") == ["cost"]
    assert listed(client, tenant="acme") == ["forced", "cost"]


@pytest.mark.parametrize("params", ["state=odd", "tenant=globex", "page=0", "rule=%00", "page=1e400"])
def test_nonsense_in_the_address_of_the_list_is_told(client: Client, mara: User, params: str) -> None:
    response = client.get(f"{reverse('runs:incidents')}?{params}")
    assert response.status_code == 400
    assert "make no sense" in text(response)


def test_members_do_not_see_what_concerns_the_installation_or_others(
    client: Client, mara: User, now: datetime
) -> None:
    other = open_incident(make_finding(make_tenant(), title="theirs"), now=now).incident
    whole = open_incident(make_finding(None, rule=RuleKind.DISK, title="ours"), now=now).incident
    assert listed(client, state="any") == []
    for hidden in (other, whole):
        assert client.get(reverse("runs:incident", args=[hidden.pk])).status_code == 404
    client.force_login(make_operator())
    assert sorted(listed(client)) == ["disk", "forced"]
    assert act(client, whole, "acknowledge").status_code == 200
    whole.refresh_from_db()
    assert whole.state == IncidentState.ACKNOWLEDGED
    assert act(client, other, "acknowledge").status_code == 403


def test_the_page_shows_evidence_log_and_where_it_leads(
    client: Client, tenant: Tenant, mara: User, now: datetime
) -> None:
    response = client.get(reverse("runs:incident", args=[make_scene(tenant, mara, now).pk]))
    page, link = text(response), response.context["link"].href
    assert "61 of 300 runs; 95 % between" in page
    assert f'href="{link}"'.replace("&", "&amp;") in page
    path, _, query = link.partition("?")
    assert path == reverse("runs:list")
    assert sorted(query.split("&")) == ["forced=1", "job=research", "range=6h", "tenant=acme"]
    assert page.count('<th scope="row" class="nowrap">') == 11  # the chart's table
    assert "Provider failures are left out: 12 of 312 runs." in page


def test_viewers_see_it_and_find_nothing_to_do(client: Client, tenant: Tenant, incident: Incident) -> None:
    client.force_login(make_member(tenant, Role.VIEWER))
    page = text(client.get(reverse("runs:incident", args=[incident.pk])))
    assert incident.title in page
    assert "Acknowledge" not in page
    assert act(client, incident, "acknowledge").status_code == 403


def test_a_reviewer_acknowledges_gives_notes_and_ends_it(
    client: Client, tenant: Tenant, mara: User, incident: Incident
) -> None:
    noor = make_member(tenant, Role.REVIEWER, username="noor")
    assert "You look after it now." in text(act(client, incident, "acknowledge"))
    incident.refresh_from_db()
    assert "Given to noor." in text(act(client, incident, "assign", to=noor.pk))
    assert "Looking at the prompt." in text(act(client, incident, "note", note="Looking at the prompt."))
    incident.refresh_from_db()
    assert "It is marked as over." in text(act(client, incident, "resolve", note="Rolled back."))
    incident.refresh_from_db()
    assert (incident.state, incident.assigned_to, incident.resolved_by) == ("resolved", noor, mara)
    assert "It is open again." in text(act(client, incident, "reopen"))


def test_who_comes_too_late_is_told_who_was_first_and_keeps_their_note(
    client: Client, tenant: Tenant, mara: User, incident: Incident, now: datetime
) -> None:
    acknowledge(incident, actor=make_member(tenant, Role.REVIEWER, username="noor"), now=now, version=1)
    stale = Incident(pk=incident.pk, version=1)
    response = act(client, stale, "resolve", note="It was the prompt.")
    assert response.status_code == 409
    assert "<bdi>noor</bdi> came first: acknowledged" in text(response)
    assert "It was the prompt." in text(response)
    assert Incident.objects.get().state == IncidentState.ACKNOWLEDGED


def test_a_late_acknowledge_on_the_page_does_not_unresolve(
    client: Client, tenant: Tenant, mara: User, incident: Incident, now: datetime
) -> None:
    resolve_incident(tenant.pk, RuleKind.FORCED, "research", now=now, how="back to usual")
    assert act(client, Incident(pk=incident.pk, version=1), "acknowledge").status_code == 409
    assert Incident.objects.get().state == IncidentState.RESOLVED


@pytest.mark.parametrize(
    "data", [{"version": "x"}, {"version": "9" * 30}, {"note": "a\0b"}, {"note": "x" * 2_001}]
)
def test_forms_that_are_not_whole_change_nothing(
    client: Client, mara: User, incident: Incident, data: dict[str, str]
) -> None:
    assert act(client, incident, "resolve", **data).status_code == 200
    assert Incident.objects.get().state == IncidentState.OPEN


def test_it_is_given_only_to_who_may_act_on_it(
    client: Client, tenant: Tenant, mara: User, incident: Incident
) -> None:
    viewer = make_member(tenant, Role.VIEWER)
    assert act(client, incident, "assign", to=viewer.pk).status_code == 400
    assert Incident.objects.get().assigned_to is None


def test_a_silence_is_made_from_an_incident_and_ended(client: Client, mara: User, incident: Incident) -> None:
    page = text(client.get(reverse("runs:incident", args=[incident.pk])))
    link = f"{reverse('runs:silence-new')}?rule=forced&subject=research&tenant=acme"
    assert link.replace("&", "&amp;") in page
    form = client.get(link).context["form"]
    sent = {name: form[name].value() or "" for name in ("tenant", "rule", "subject", "lasting")}
    client.post(reverse("runs:silence-new"), sent | {"reason": "Known."})
    made = Silence.objects.get()
    assert (made.rule, made.subject, made.until - made.created_at) == ("forced", "research", 4 * HOUR)
    assert "A silence covers it" in text(client.get(reverse("runs:incident", args=[incident.pk])))
    client.post(reverse("runs:silence-end", args=[made.pk]))
    made.refresh_from_db()
    assert made.ended_by == mara
    assert incident.steps.latest("id").transition == "unsilenced"


def test_a_rule_is_set_and_set_back_and_the_trail_tells_who(
    client: Client, tenant: Tenant, admin: User
) -> None:
    address = reverse("runs:rule-edit", args=["cost"])
    limits = {"ratio": "2.5", "usd": "5", "tasks": "30"}
    sent = {"tenant": "acme", "job": "", "severity": "critical", "enabled": "on", **limits}
    client.post(address, sent | {"version": "0"})
    row = Rule.objects.get()
    assert (row.parameters, row.severity, row.by) == ({"ratio": 2.5}, Severity.CRITICAL, admin)
    page = text(client.get(reverse("runs:rules"), {"tenant": "acme"}))
    assert "2.5 × the usual" in page

    late = client.post(address, sent | {"version": "0"})
    assert (late.status_code, Rule.objects.get().version) == (409, 1)
    client.post(address, {"tenant": "acme", "job": "", "unset": "1", "version": "1"})
    assert not Rule.objects.exists()
    actors = {event.pgh_context["actor"]["name"] for event in RuleEvent.objects.all()}
    assert actors == {"adam"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"ratio": "nan"},
        {"ratio": "1e999"},
        {"ratio": "1"},
        {"usd": ""},
        {"severity": "odd"},
        {"tasks": "9" * 40},
    ],
    ids=lambda wrong: "-".join(f"{name}-{value[:4]}" for name, value in wrong.items()),
)
def test_limits_that_make_no_sense_are_refused(client: Client, admin: User, wrong: dict[str, str]) -> None:
    sent = {"tenant": "acme", "severity": "info", "version": "0", "ratio": "2", "usd": "5", "tasks": "30"}
    assert client.post(reverse("runs:rule-edit", args=["cost"]), sent | wrong).status_code == 200
    assert not Rule.objects.exists()


def test_a_job_type_gets_limits_of_its_own(client: Client, admin: User) -> None:
    sent = {"tenant": "acme", "job": "support", "severity": "info", "version": "0"}
    client.post(reverse("runs:rule-edit", args=["cost"]), sent | {"ratio": "2", "usd": "5", "tasks": "30"})
    assert (Rule.objects.get().job_type, Rule.objects.get().enabled) == ("support", False)
    assert "Only <bdi>support</bdi>" in text(client.get(reverse("runs:rules")))


@pytest.mark.parametrize(
    ("kind", "job"), [("disk", ""), ("odd", ""), ("source", "research"), ("cost", "x" * 129)]
)
def test_a_rule_is_not_set_where_it_does_not_stand(client: Client, admin: User, kind: str, job: str) -> None:
    asked = {"tenant": "acme", "job": job}
    assert client.get(reverse("runs:rule-edit", args=[kind]), asked).status_code == 404


def test_operators_set_rules_of_the_installation(client: Client) -> None:
    client.force_login(make_operator())
    assert "Disk filling up" in text(client.get(reverse("runs:rules"), {"tenant": "_installation"}))
    sent = {
        "tenant": "_installation",
        "severity": "critical",
        "version": "0",
        "enabled": "on",
        "percent": "20",
    }
    client.post(reverse("runs:rule-edit", args=["disk"]), sent)
    assert Rule.objects.get().tenant is None


def test_rules_that_are_not_judged_are_told_of_by_the_web_process(
    client: Client, mara: User, now: datetime
) -> None:
    def warned() -> bool:
        return "Rules are not being judged" in text(client.get(reverse("runs:incidents")))

    assert warned()
    Evaluation.objects.create(rule=RuleKind.COST, at=now, since=now)
    assert not warned()
    Evaluation.objects.update(at=now - STOPPED_AFTER)
    assert warned()
    assert STOPPED_AFTER < GAP


def test_the_navigation_counts_what_is_open(client: Client, mara: User, incident: Incident) -> None:
    told = Template("{% load alerts %}{% open_incidents as found %}{{ found.open }} {{ found.stopped }}")
    assert told.render(Context({"user": mara})) == "1 False"
