from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from django.db import IntegrityError, connection, transaction

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.alerts.incidents import (
    IncidentChanged,
    InvalidIncident,
    Opened,
    acknowledge,
    add_note,
    assign,
    open_incident,
    reopen,
    resolve,
    resolve_incident,
)
from runs.choices import IncidentState, RuleKind, Severity, Transition
from runs.models import Incident, IncidentStep
from tests.factories import make_member, make_tenant
from tests.runs.alerts.findings import make_finding

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = ("forced", "research")


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def mara(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="mara")


@pytest.fixture
def noor(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="noor")


@pytest.fixture
def incident(tenant: Tenant) -> Incident:
    return open_incident(make_finding(tenant), now=NOW).incident


def over(tenant: Tenant, now: datetime) -> Incident:
    resolved = resolve_incident(tenant.pk, RuleKind.FORCED, "research", now=now, how="back to usual")
    assert resolved is not None
    return resolved


def log(incident: Incident) -> list[str]:
    return [step.transition for step in incident.steps.order_by("id")]


def test_a_finding_opens_an_incident_with_its_log(tenant: Tenant) -> None:
    opened = open_incident(make_finding(tenant, evidence={"facts": ["so"]}, query={"forced": "1"}), now=NOW)
    kept = Incident.objects.get()
    assert opened.transition == Transition.OPENED
    assert (kept.state, kept.version, kept.opened_at) == (IncidentState.OPEN, 1, NOW)
    assert (kept.evidence, kept.query) == ({"facts": ["so"]}, {"forced": "1"})
    assert log(kept) == ["opened"]


def test_what_is_found_again_is_one_incident_that_nobody_sees_change(
    tenant: Tenant, incident: Incident
) -> None:
    later = make_finding(tenant, title="research: 50 of 210.", evidence={"facts": ["other"]})
    again = open_incident(later, now=NOW + MINUTE)
    kept = Incident.objects.get()
    assert (again.transition, again.incident) == (None, incident)
    assert (kept.title, kept.last_at, kept.version) == ("research: 50 of 210.", NOW + MINUTE, 1)
    assert kept.evidence == {}  # as it was when it opened
    assert log(kept) == ["opened"]


def test_evidence_is_gathered_only_where_an_incident_opens(tenant: Tenant) -> None:
    asked: list[int] = []

    def gather() -> dict[str, object]:
        asked.append(1)
        return {"facts": ["gathered"]}

    for minute in range(3):
        open_incident(make_finding(tenant, evidence=gather), now=NOW + minute * MINUTE)
    assert (len(asked), Incident.objects.get().evidence) == (1, {"facts": ["gathered"]})


def test_other_subjects_rules_and_tenants_are_incidents_of_their_own(tenant: Tenant) -> None:
    for finding in (
        make_finding(tenant),
        make_finding(tenant, subject="support"),
        make_finding(tenant, rule=RuleKind.COST),
        make_finding(make_tenant()),
        make_finding(None, rule=RuleKind.DISK, subject=""),
    ):
        assert open_incident(finding, now=NOW).transition == Transition.OPENED
    assert Incident.objects.count() == 5


def test_the_database_holds_one_open_incident_of_a_subject(incident: Incident) -> None:
    twin = Incident.objects.get()
    twin.pk = None
    with pytest.raises(IntegrityError, match="incident_one_open"), transaction.atomic():
        twin.save(force_insert=True)


def test_the_installation_too_has_one_open_incident_of_a_rule(db: None) -> None:
    disk = make_finding(None, rule=RuleKind.DISK, subject="")
    first, second = open_incident(disk, now=NOW), open_incident(disk, now=NOW + MINUTE)
    assert (first.incident, second.transition) == (second.incident, None)


@pytest.mark.django_db(transaction=True)
def test_twenty_openings_at_once_make_one_incident() -> None:
    tenant = make_tenant()
    start = Barrier(20)

    def open_one(number: int) -> Opened:
        try:
            start.wait(20)
            return open_incident(make_finding(tenant), now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        opened = list(pool.map(open_one, range(20)))
    assert [each.transition for each in opened].count(Transition.OPENED) == 1
    assert Incident.objects.count() == IncidentStep.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_eight_reopenings_at_once_are_one() -> None:
    tenant = make_tenant()
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + MINUTE)
    start = Barrier(8)

    def reopen_one(number: int) -> Opened:
        try:
            start.wait(20)
            return open_incident(make_finding(tenant), now=NOW + 2 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(reopen_one, range(8)))
    assert [each.transition for each in opened].count(Transition.REOPENED) == 1
    assert Incident.objects.get().reopened == 1


def test_what_comes_back_within_half_an_hour_reopens(tenant: Tenant, incident: Incident) -> None:
    over(tenant, NOW + 10 * MINUTE)
    back = open_incident(make_finding(tenant), now=NOW + 39 * MINUTE)
    kept = Incident.objects.get()
    assert (back.transition, kept.state, kept.reopened) == (Transition.REOPENED, IncidentState.OPEN, 1)
    assert (kept.resolved_at, kept.resolved_how) == (None, "")
    assert log(kept) == ["opened", "resolved", "reopened"]


def test_what_comes_back_later_is_a_new_incident(tenant: Tenant, incident: Incident) -> None:
    over(tenant, NOW + 10 * MINUTE)
    back = open_incident(make_finding(tenant), now=NOW + 40 * MINUTE)
    assert (back.transition, back.incident == incident) == (Transition.OPENED, False)


def test_a_clock_set_back_reopens_and_opens_no_second(tenant: Tenant, incident: Incident) -> None:
    over(tenant, NOW + 10 * MINUTE)
    back = open_incident(make_finding(tenant), now=NOW - 50 * MINUTE)
    assert (back.transition, Incident.objects.count()) == (Transition.REOPENED, 1)


def test_who_had_acknowledged_it_still_looks_after_it_when_it_reopens(
    tenant: Tenant, incident: Incident, mara: User
) -> None:
    acknowledge(incident, actor=mara, now=NOW, version=1)
    over(tenant, NOW + MINUTE)
    back = open_incident(make_finding(tenant), now=NOW + 2 * MINUTE).incident
    assert (back.state, back.acknowledged_by) == (IncidentState.ACKNOWLEDGED, mara)


def test_a_window_that_was_judged_opens_nothing_again(tenant: Tenant) -> None:
    finding = make_finding(tenant, window=NOW)
    first = open_incident(finding, now=NOW).incident
    over(tenant, NOW + MINUTE)
    again = open_incident(finding, now=NOW + 2 * MINUTE)
    assert (again.transition, again.incident, Incident.objects.count()) == (None, first, 1)
    later = open_incident(make_finding(tenant, window=NOW + 15 * MINUTE), now=NOW + 15 * MINUTE)
    assert later.transition == Transition.REOPENED


def test_a_window_judged_while_the_clock_was_ahead_hides_none_after_it_was_set_back(tenant: Tenant) -> None:
    ahead = NOW + timedelta(days=365)
    open_incident(make_finding(tenant, window=ahead), now=ahead)
    over(tenant, ahead)
    found = open_incident(make_finding(tenant, window=NOW), now=NOW)
    assert found.transition == Transition.REOPENED


def test_what_a_person_resolved_stays_so_for_half_an_hour(
    tenant: Tenant, incident: Incident, mara: User
) -> None:
    resolve(incident, actor=mara, now=NOW, version=1, note="A drill.")
    assert open_incident(make_finding(tenant), now=NOW + 29 * MINUTE).transition is None
    assert open_incident(make_finding(tenant), now=NOW + 30 * MINUTE).transition == Transition.OPENED
    assert Incident.objects.count() == 2


def test_what_gets_more_severe_is_told_so_and_does_not_get_less_so(
    tenant: Tenant, incident: Incident
) -> None:
    worse = open_incident(make_finding(tenant, severity=Severity.CRITICAL), now=NOW + MINUTE)
    milder = open_incident(make_finding(tenant, severity=Severity.INFO), now=NOW + 2 * MINUTE)
    assert (worse.transition, milder.transition) == (Transition.WORSE, None)
    assert Incident.objects.get().severity == Severity.CRITICAL


def test_resolving_what_is_not_open_does_nothing(tenant: Tenant, incident: Incident) -> None:
    over(tenant, NOW)
    assert resolve_incident(tenant.pk, RuleKind.FORCED, "research", now=NOW, how="again") is None
    assert log(incident) == ["opened", "resolved"]


def test_a_late_acknowledge_does_not_unresolve(tenant: Tenant, incident: Incident, mara: User) -> None:
    over(tenant, NOW + MINUTE)
    with pytest.raises(IncidentChanged) as told:
        acknowledge(incident, actor=mara, now=NOW + 2 * MINUTE, version=1)
    assert (told.value.change.by, told.value.change.did) == ("", "resolved")
    assert told.value.current.state == Incident.objects.get().state == IncidentState.RESOLVED
    assert log(incident) == ["opened", "resolved"]


def test_an_acknowledge_of_the_resolved_version_is_refused_too(
    tenant: Tenant, incident: Incident, mara: User
) -> None:
    resolved = over(tenant, NOW + MINUTE)
    with pytest.raises(IncidentChanged):
        acknowledge(resolved, actor=mara, now=NOW + 2 * MINUTE, version=resolved.version)


def test_who_acknowledges_second_is_told_who_was_first(incident: Incident, mara: User, noor: User) -> None:
    acknowledge(incident, actor=mara, now=NOW + MINUTE, version=1)
    with pytest.raises(IncidentChanged) as told:
        acknowledge(incident, actor=noor, now=NOW + 2 * MINUTE, version=1)
    change = told.value.change
    assert (change.by, change.did, change.at) == ("mara", "acknowledged", NOW + MINUTE)
    assert Incident.objects.get().acknowledged_by == mara


@pytest.mark.django_db(transaction=True)
def test_of_sixteen_people_who_acknowledge_at_once_one_does() -> None:
    tenant = make_tenant()
    people = [make_member(tenant, Role.REVIEWER) for _ in range(16)]
    incident = open_incident(make_finding(tenant), now=NOW).incident
    start = Barrier(16)

    def try_it(person: User) -> str:
        try:
            start.wait(20)
            acknowledge(Incident.objects.get(pk=incident.pk), actor=person, now=NOW, version=1)
        except IncidentChanged as told:
            return told.change.by
        finally:
            connection.close()
        return "I did"

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(try_it, people))
    first = Incident.objects.get().acknowledged_by
    assert first is not None
    assert sorted(answers) == sorted(["I did", *[first.username] * 15])


def test_it_is_given_to_somebody_and_taken_back(incident: Incident, mara: User, noor: User) -> None:
    given = assign(incident, noor, actor=mara, now=NOW, version=1, note="You know this job.")
    assert (given.assigned_to, given.version) == (noor, 2)
    step = incident.steps.latest("id")
    assert (step.by, step.to, step.note) == (mara, noor, "You know this job.")
    assert assign(given, None, actor=noor, now=NOW, version=2).assigned_to is None


def test_a_note_disturbs_nobody(incident: Incident, mara: User, noor: User) -> None:
    add_note(incident, "Looking at the prompt.", actor=mara, now=NOW)
    assert acknowledge(incident, actor=noor, now=NOW, version=1).version == 2
    assert log(incident) == ["opened", "noted", "acknowledged"]


def test_an_empty_note_is_refused(incident: Incident, mara: User) -> None:
    with pytest.raises(InvalidIncident):
        add_note(incident, " \n", actor=mara, now=NOW)


def test_a_person_takes_back_that_it_is_over(tenant: Tenant, incident: Incident, mara: User) -> None:
    resolved = resolve(incident, actor=mara, now=NOW, version=1)
    assert reopen(resolved, actor=mara, now=NOW, version=2).state == IncidentState.OPEN


def test_what_has_opened_anew_is_not_reopened_beside_it(
    tenant: Tenant, incident: Incident, mara: User
) -> None:
    resolved = over(tenant, NOW)
    open_incident(make_finding(tenant), now=NOW + 40 * MINUTE)
    with pytest.raises(InvalidIncident, match="opened anew"):
        reopen(resolved, actor=mara, now=NOW + 41 * MINUTE, version=2)
