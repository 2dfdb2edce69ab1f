"""Rules that look at how things stand: each fires on rows as they come about, and is over as they change."""

from __future__ import annotations

import shutil
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.publish.sources import Reach, Wanted, block_sources
from runs.alerts.evaluate import CHECKS, evaluate_rules
from runs.alerts.incidents import open_incident
from runs.alerts.rules import SPECS
from runs.choices import ChannelKind, RuleKind, Severity, StopVerdict
from runs.models import Channel, Evaluation, FoldState, Incident, LiveRun, Notification, StopReview
from runs.pages.live import LiveFilterForm
from tests.factories import let_undo_time_pass, make_checkpoint, make_member, make_run_id, make_tenant
from tests.runs.alerts.findings import make_finding
from tests.runs.alerts.work import count, work
from tests.runs.checkpoints.deciding import decided
from tests.runs.live_rows import insert_live
from tests.runs.sources.town import make_town, trap

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(second=5, microsecond=0)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def ann(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="ann")


def judge(now: datetime, minutes: int = 1, *, every: int = 1) -> None:
    """Judge every rule in each of so many minutes, or in every fourth, the last one at ``now``."""
    for minute in range((minutes - 1) // every * every, -1, -every):
        done = evaluate_rules(now - minute * MINUTE)
        assert done is not None
        assert not done.failed


def found(rule: RuleKind) -> list[Incident]:
    return list(Incident.objects.unresolved().filter(rule=rule).order_by("tenant", "subject"))


def title(rule: RuleKind) -> str:
    (incident,) = found(rule)
    return incident.title


def end_of(rule: RuleKind) -> str:
    (incident,) = Incident.objects.filter(rule=rule)
    return incident.resolved_how


def test_nothing_is_wrong_with_a_new_installation(now: datetime) -> None:
    judge(now, minutes=3)
    assert not Incident.objects.exists()
    assert Evaluation.objects.filter(error="").count() == 13


def test_live_runs_near_a_limit(tenant: Tenant, now: datetime) -> None:
    for pressure in (79, 80, 91):
        insert_live(tenant, pressure=pressure, pressure_limit="max_steps", last_at=now)
    judge(now)
    assert found(RuleKind.PRESSURE) == []
    insert_live(tenant, pressure=85, pressure_limit="max_cost_usd", last_at=now)
    judge(now + MINUTE)
    (incident,) = found(RuleKind.PRESSURE)
    assert incident.title.startswith("research: 3 live runs have used 80 % of a limit or more, most of them")
    form = LiveFilterForm({name: value for name, value in incident.query.items() if name != "list"})
    assert form.is_valid()
    assert form.narrow([tenant.pk], now).count() == 3

    LiveRun.objects.filter(pressure=85).delete()
    judge(now + 5 * MINUTE, minutes=4)
    assert len(found(RuleKind.PRESSURE)) == 1  # it hovers
    judge(now + 6 * MINUTE)
    assert end_of(RuleKind.PRESSURE) == "fewer are near a limit"


def test_runs_that_never_ended(tenant: Tenant, now: datetime) -> None:
    for _ in range(5):
        insert_live(tenant, last_at=now - 40 * MINUTE)
    insert_live(tenant, last_at=now - 2 * DAY)  # long given up
    judge(now)
    assert found(RuleKind.NEVER_ENDED) == []  # GuardOps may have been away itself
    judge(now + 32 * MINUTE, minutes=32, every=4)
    assert title(RuleKind.NEVER_ENDED) == (
        "research: 5 runs of the last day fell silent and never ended (100\u00a0%), the last one"
        " 1\u00a0h 12\u00a0min ago."
    )
    LiveRun.objects.all().delete()
    judge(now + 37 * MINUTE, minutes=5)
    assert end_of(RuleKind.NEVER_ENDED) == "they ended, or fewer are silent"


def test_a_few_of_many_runs_may_die(tenant: Tenant, now: datetime) -> None:
    work(tenant, now - DAY, now - HOUR, every=4 * MINUTE)
    count(now)
    for _ in range(5):
        insert_live(tenant, last_at=now - 10 * MINUTE)
    judge(now + 40 * MINUTE, minutes=41, every=4)
    assert found(RuleKind.NEVER_ENDED) == []


def test_checkpoints_past_their_time(tenant: Tenant, ann: User, now: datetime) -> None:
    late = make_checkpoint(tenant, opened_at=now)
    judge(late.due_at - MINUTE)
    assert found(RuleKind.REVIEW_SLA) == []
    judge(late.due_at + 7 * MINUTE)
    (incident,) = found(RuleKind.REVIEW_SLA)
    assert incident.title == "A checkpoint is past the time for review, the oldest by 7\u00a0min."
    assert (incident.severity, incident.query) == (Severity.CRITICAL, {"list": "review", "over": "1"})
    decided(late, ann, late.due_at + 8 * MINUTE)
    judge(late.due_at + 9 * MINUTE, minutes=2)
    assert end_of(RuleKind.REVIEW_SLA) == "none is late any more"


def test_decisions_that_nobody_takes_up(tenant: Tenant, ann: User, now: datetime) -> None:
    decision = let_undo_time_pass(decided(make_checkpoint(tenant, opened_at=now), ann, now))
    judge(decision.deliver_at + 9 * MINUTE)
    assert found(RuleKind.UNCONSUMED) == []
    judge(decision.deliver_at + 11 * MINUTE)
    assert (
        title(RuleKind.UNCONSUMED) == "A decision was not taken up by any agent, the oldest for 11\u00a0min."
    )
    type(decision).objects.update(consumed_at=now, attempt_id=make_run_id(now), attempt=2)
    judge(decision.deliver_at + 13 * MINUTE, minutes=2)
    assert end_of(RuleKind.UNCONSUMED) == "all have been taken up, or have expired"


def review(tenant: Tenant, ann: User, at: datetime, *, false: int, right: int) -> None:
    for number in range(false + right):
        verdict = StopVerdict.FALSE_STOP if number < false else StopVerdict.RIGHT_STOP
        StopReview.objects.create(
            tenant=tenant, run_id=make_run_id(at), verdict=verdict, detector="repeated_call", by=ann, at=at
        )


def test_a_detector_whose_stops_are_marked_as_false(tenant: Tenant, ann: User, now: datetime) -> None:
    review(tenant, ann, now - 30 * DAY, false=1, right=19)
    review(tenant, ann, now - DAY, false=2, right=7)
    judge(now)
    assert found(RuleKind.PRECISION) == []  # nine are too few
    review(tenant, ann, now - DAY, false=4, right=7)
    judge(now + 15 * MINUTE)
    assert title(RuleKind.PRECISION) == (
        "6 of 20 reviewed stops by “same call, same result” were false (30.0\u00a0%) in 14 days;"
        " 5.0\u00a0% before."
    )
    review(tenant, ann, now, false=0, right=30)
    for quarter in range(2, 6):
        judge(now + quarter * 15 * MINUTE)
    assert end_of(RuleKind.PRECISION) == "fewer stops are marked as false"


def test_a_detector_that_always_was_as_bad_is_told_of_no_more(
    tenant: Tenant, ann: User, now: datetime
) -> None:
    review(tenant, ann, now - 30 * DAY, false=6, right=14)
    review(tenant, ann, now - DAY, false=6, right=14)
    judge(now)
    assert found(RuleKind.PRECISION) == []


def test_a_source_in_halted_runs_of_several_tenants(now: datetime) -> None:
    town = make_town(2, 1)
    bystander = make_tenant()
    for tenant in town:
        trap(tenant, now)
    judge(now)
    incidents = found(RuleKind.SOURCE)
    assert {incident.tenant_id for incident in incidents} == {None, *(tenant.pk for tenant in town)}
    assert bystander.pk not in {incident.tenant_id for incident in incidents}
    for incident in incidents:
        assert incident.title.startswith("trap.example is used at least ")
        shown = f"{incident.title} {incident.evidence}"
        assert not any(other.slug in shown for other in town)
        # How many runs of all tenants it was is for operators.
        assert ("15 runs" in shown) == (incident.tenant_id is None)


def test_a_source_that_is_blocked_is_over_there(now: datetime) -> None:
    town = make_town(2, 1)
    for tenant in town:
        trap(tenant, now)
    judge(now)
    reach = Reach(town[0].organisation, town[0])
    block_sources(reach, [Wanted("trap.example", reason="A trap.")], actor=SYSTEM, now=now)
    for quarter in range(1, SPECS[RuleKind.SOURCE].clear + 1):
        judge(now + quarter * 15 * MINUTE)
    assert {incident.tenant_id for incident in found(RuleKind.SOURCE)} == {*(None, town[1].pk, town[2].pk)}


def test_nothing_arrives_from_a_tenant_that_sends_at_this_time_on_other_days(now: datetime) -> None:
    silent, sending, new = make_tenant(), make_tenant(), make_tenant()
    for tenant in (silent, sending):
        work(tenant, now - 8 * DAY, now - 10 * MINUTE, every=10 * MINUTE)
    work(sending, now - 10 * MINUTE, now + 2 * HOUR, every=10 * MINUTE)
    work(new, now - DAY, now - 10 * MINUTE, every=10 * MINUTE)  # no day to compare with
    count(now + 2 * HOUR)
    judge(now + 59 * MINUTE, minutes=60, every=4)
    assert found(RuleKind.INGEST_SILENT) == []  # not watched for an hour yet
    judge(now + 80 * MINUTE, minutes=20, every=4)
    (incident,) = found(RuleKind.INGEST_SILENT)
    assert incident.tenant == silent
    assert incident.title == "No run has arrived for 1\u00a0h; at this time yesterday there were 6."
    insert_live(silent, last_at=now + 80 * MINUTE)  # it has started one
    judge(now + 81 * MINUTE)
    assert end_of(RuleKind.INGEST_SILENT) == "runs arrive again"


def test_silence_of_a_tenant_is_not_told_after_a_gap_of_our_own(now: datetime) -> None:
    tenant = make_tenant()
    work(tenant, now - 8 * DAY, now - 10 * MINUTE, every=10 * MINUTE)
    count(now + 3 * HOUR)
    judge(now - 30 * MINUTE)
    judge(now + 3 * HOUR)
    assert found(RuleKind.INGEST_SILENT) == []


def test_a_weekend_is_no_silence(now: datetime) -> None:
    tenant = make_tenant()
    for day in (8, 6, 5, 4, 3, 2, 1):  # not on this weekday
        work(tenant, now - day * DAY, now - (day - 1) * DAY - HOUR, every=20 * MINUTE)
    count(now)
    judge(now + 2 * HOUR, minutes=80, every=4)
    assert found(RuleKind.INGEST_SILENT) == []


def test_counting_that_is_behind(tenant: Tenant, now: datetime) -> None:
    work(tenant, now - HOUR, now)
    count(now)
    judge(now + 59 * timedelta(seconds=1))
    assert found(RuleKind.FOLD_LAG) == []
    judge(now + 3 * MINUTE)
    assert title(RuleKind.FOLD_LAG) == "Counting is 3\u00a0min behind; 0 runs are not counted."
    FoldState.objects.update(folded_at=now + 7 * MINUTE)
    judge(now + 7 * MINUTE, minutes=3)
    assert end_of(RuleKind.FOLD_LAG) == "all that has arrived is counted"


def test_notifications_that_are_stuck(now: datetime) -> None:
    Channel.objects.create(name="ops", kind=ChannelKind.WEBHOOK, secret=b"x", created_at=now, group_s=0)
    open_incident(make_finding(None, rule=RuleKind.LOOP_RATE, severity=Severity.CRITICAL), now=now)
    judge(now + 4 * MINUTE)
    assert found(RuleKind.OUTBOX_STUCK) == []
    judge(now + 6 * MINUTE)
    assert title(RuleKind.OUTBOX_STUCK).startswith("A notification waits to be sent, the oldest for 6")
    Notification.objects.all().delete()
    judge(now + 9 * MINUTE, minutes=3)
    assert end_of(RuleKind.OUTBOX_STUCK) == "nothing waits any more"


def test_a_disk_that_is_nearly_full(
    now: datetime, monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    settings.DATABASE_FOLDER = str(tmp_path)
    disk = {"free": 11}
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * 2**30, 0, disk["free"] * 2**30))
    judge(now)
    assert found(RuleKind.DISK) == []
    disk["free"] = 9
    judge(now + MINUTE)
    assert title(RuleKind.DISK) == "The database's disk has 9.0 GiB left, 9.0 % of it."
    disk["free"] = 11
    judge(now + 5 * MINUTE, minutes=4)
    assert len(found(RuleKind.DISK)) == 1  # it hovers
    disk["free"] = 13
    judge(now + 8 * MINUTE, minutes=3)
    assert end_of(RuleKind.DISK) == "there is room again"


def test_a_rule_that_fails_keeps_no_other_from_being_judged(
    tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(asked: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(CHECKS, RuleKind.REVIEW_SLA, fail)  # type: ignore[arg-type]
    for _ in range(3):
        insert_live(tenant, pressure=90, pressure_limit="max_steps", last_at=now)
    done = evaluate_rules(now)
    assert done is not None
    assert done.failed == ("review_sla",)
    assert len(found(RuleKind.PRESSURE)) == 1
    assert Evaluation.objects.get(rule=RuleKind.REVIEW_SLA).error == "ZeroDivisionError"


def test_a_minute_is_judged_once(tenant: Tenant, now: datetime) -> None:
    for _ in range(3):
        insert_live(tenant, pressure=90, pressure_limit="max_steps", last_at=now)
    judge(now)
    LiveRun.objects.all().delete()
    for second in range(1, 20):  # were each one a window, five of them would end it
        judge(now + timedelta(seconds=second))
    assert Incident.objects.get().clear == 0
