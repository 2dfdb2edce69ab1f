from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.alerts.incidents import open_incident, resolve_incident
from runs.alerts.silences import InvalidSilence, end_silence, settle_silences, silence
from runs.choices import ChannelKind, RuleKind, Severity, Transition
from runs.models import Channel, Incident, Notification, Silence
from tests.factories import make_member, make_tenant
from tests.runs.alerts.findings import make_finding

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def mara(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="mara")


@pytest.fixture(autouse=True)
def channel(tenant: Tenant) -> Channel:
    """Told of every incident of the tenant, so that what is told can be read from the outbox."""
    return Channel.objects.create(
        organisation=tenant.organisation,
        tenant=tenant,
        name="on call",
        kind=ChannelKind.WEBHOOK,
        secret=b"not read here",
        severity=Severity.INFO,
        created_at=NOW,
    )


def quiet(tenant: Tenant, mara: User, **changes: Any) -> Silence:
    fields = {"rule": None, "until": NOW + 2 * HOUR, "reason": "A known bad prompt.", "now": NOW}
    return silence(tenant, actor=mara, **(fields | changes))


def told() -> list[str]:
    return list(Notification.objects.order_by("id").values_list("transition", flat=True))


def over(tenant: Tenant, now: datetime) -> None:
    resolve_incident(tenant.pk, RuleKind.FORCED, "research", now=now, how="back to usual")


def test_without_a_silence_an_opening_and_its_end_are_told(tenant: Tenant) -> None:
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + HOUR)
    assert told() == [Transition.OPENED, Transition.RESOLVED]


def test_reopening_tells_nobody(tenant: Tenant) -> None:
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + HOUR)
    open_incident(make_finding(tenant), now=NOW + HOUR + timedelta(minutes=29))
    assert told() == [Transition.OPENED, Transition.RESOLVED]


def test_what_reopens_after_a_silence_that_kept_its_opening_back_is_told(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + 1.9 * HOUR)
    assert settle_silences(NOW + 2 * HOUR) == 1
    reopened = open_incident(make_finding(tenant), now=NOW + 2.1 * HOUR)
    assert reopened.transition == Transition.REOPENED
    assert told() == [Transition.REOPENED]


def test_what_reopens_under_a_silence_is_told_at_its_end(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + HOUR)
    open_incident(make_finding(tenant), now=NOW + 1.1 * HOUR)
    assert told() == []
    settle_silences(NOW + 2 * HOUR)
    assert told() == [Transition.UNSILENCED]


def test_what_is_silenced_opens_and_is_over_without_a_word(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    opened = open_incident(make_finding(tenant), now=NOW)
    assert opened.transition == Transition.OPENED
    assert opened.incident.steps.get().silenced
    over(tenant, NOW + HOUR)
    assert told() == []


def test_a_silence_outlives_what_it_was_made_for(tenant: Tenant, mara: User) -> None:
    open_incident(make_finding(tenant), now=NOW)
    quiet(tenant, mara, rule=RuleKind.FORCED, subject="research")
    over(tenant, NOW + HOUR)
    open_incident(make_finding(tenant), now=NOW + 1.9 * HOUR)
    assert told() == [Transition.OPENED, Transition.RESOLVED]
    assert Incident.objects.count() == 2


def test_what_is_still_there_at_its_end_is_told_once(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    open_incident(make_finding(tenant), now=NOW)
    assert settle_silences(NOW + 1.9 * HOUR) == 0
    assert settle_silences(NOW + 2 * HOUR) == 1
    assert settle_silences(NOW + 3 * HOUR) == 0
    assert told() == [Transition.UNSILENCED]


def test_what_was_told_before_the_silence_is_told_again_at_its_end(tenant: Tenant, mara: User) -> None:
    open_incident(make_finding(tenant), now=NOW)
    quiet(tenant, mara)
    settle_silences(NOW + 2 * HOUR)
    assert told() == [Transition.OPENED, Transition.UNSILENCED]


def test_what_is_over_at_its_end_is_not_told(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    open_incident(make_finding(tenant), now=NOW)
    over(tenant, NOW + HOUR)
    assert settle_silences(NOW + 2 * HOUR) == 1
    assert told() == []


def test_where_another_silence_goes_on_nothing_is_told(tenant: Tenant, mara: User) -> None:
    quiet(tenant, mara)
    quiet(tenant, mara, rule=RuleKind.FORCED, until=NOW + 5 * HOUR)
    open_incident(make_finding(tenant), now=NOW)
    settle_silences(NOW + 2 * HOUR)
    assert told() == []
    settle_silences(NOW + 5 * HOUR)
    assert told() == [Transition.UNSILENCED]


def test_a_silence_that_somebody_ends_is_settled_at_once(tenant: Tenant, mara: User) -> None:
    made = quiet(tenant, mara)
    open_incident(make_finding(tenant), now=NOW)
    assert end_silence(made, actor=mara, now=NOW + HOUR)
    assert told() == [Transition.UNSILENCED]
    assert not end_silence(made, actor=mara, now=NOW + HOUR)
    settle_silences(NOW + 3 * HOUR)
    assert told() == [Transition.UNSILENCED]


@pytest.mark.parametrize(
    "named",
    [
        {"rule": RuleKind.COST},
        {"rule": RuleKind.FORCED, "subject": "support"},
        {"subject": "support"},
        {"until": NOW + timedelta(seconds=1), "now": NOW - HOUR},
    ],
    ids=["other rule", "other subject", "other subject of any rule", "ended"],
)
def test_what_a_silence_does_not_name_is_told(tenant: Tenant, mara: User, named: dict[str, Any]) -> None:
    quiet(tenant, mara, **named)
    open_incident(make_finding(tenant), now=NOW + timedelta(seconds=1))
    assert told() == [Transition.OPENED]


def test_another_tenants_silence_keeps_nothing_back(tenant: Tenant, mara: User) -> None:
    quiet(make_tenant(), mara)
    open_incident(make_finding(tenant), now=NOW)
    assert told() == [Transition.OPENED]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reason": "  "}, "no_reason"),
        ({"until": NOW}, "over"),
        ({"until": NOW + timedelta(days=31)}, "too_long"),
    ],
    ids=["no reason", "over", "too long"],
)
def test_a_silence_says_why_and_ends(tenant: Tenant, mara: User, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidSilence) as error:
        quiet(tenant, mara, **changes)
    assert error.value.code == code
