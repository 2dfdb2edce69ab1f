from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection
from django.utils import timezone

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.alerts.baseline import LoopRateDetector
from runs.alerts.incidents import resolve
from runs.alerts.spikes import Judged, judge_minutes
from runs.choices import IncidentState, RuleKind
from runs.models import AlertState, Evaluation, Incident, LoopMinute, Rule
from runs.rollup.minutes import minute_of, moment_of
from tests.benchmarks.detector import labelled
from tests.factories import make_member, make_tenant
from tests.runs.alerts.loops import Series, close, steady, write_minutes
from tests.shared import shared

pytestmark = pytest.mark.django_db(transaction=True)

DAYS = 2 * 1_440
HOUR = 60
LAST = 4 * HOUR


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant("acme")


def night(*, rate: float = 0.4) -> tuple[int, Series]:
    """Return the minute at which a rate of 2 % becomes ``rate`` for an hour, and the minutes around it."""
    rng = random.Random(7)
    start = minute_of(timezone.now()) - LAST - HOUR
    usual = steady(rng, start - DAYS, start, tasks=4, rate=0.02)
    loud = steady(rng, start, start + HOUR, tasks=4, rate=rate)
    return start, usual | loud | steady(rng, start + HOUR, start + LAST, tasks=4, rate=0.02)


def judge(minute: int, *, since: int | None = None) -> Judged:
    """Close up to a minute and judge, from ``since`` on the first time."""
    if since is not None:
        close(since - 1)
        judge_minutes(moment_of(since))
    close(minute)
    return judge_minutes(moment_of(minute + 1), most=10_000)


def incidents() -> list[tuple[str, str, str]]:
    return list(Incident.objects.order_by("opened_at").values_list("rule", "subject", "state"))


def test_a_rate_that_leaps_opens_one_incident_that_says_so_and_is_over_with_it(tenant: Tenant) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)

    judge(start + 30, since=start - 5)

    incident = Incident.objects.get()
    assert (incident.rule, incident.subject, incident.job_type) == ("loop_rate", "support", "support")
    assert incident.title.startswith("support: ")
    assert " tasks looped (" in incident.title
    assert "usual at this hour is" in incident.title
    assert {"job": "support", "looped": "1"}.items() <= incident.query.items()
    assert len(incident.evidence["series"][0]["values"]) == 96

    judge(start + LAST - 1)

    assert incidents() == [("loop_rate", "support", IncidentState.RESOLVED)]
    assert Incident.objects.get().resolved_how == "back to usual"


def test_a_spike_that_somebody_resolved_and_that_goes_on_opens_anew(tenant: Tenant) -> None:
    start, series = night()
    rng = random.Random(5)
    series |= steady(rng, start + HOUR, start + LAST, tasks=4, rate=0.4)
    write_minutes(series, tenant_id=tenant.pk)
    judge(start + 30, since=start - 5)
    first = Incident.objects.get()
    resolve(first, actor=make_member(tenant, Role.REVIEWER), now=moment_of(start + 31), version=first.version)

    judge(start + 60)
    assert incidents() == [("loop_rate", "support", IncidentState.RESOLVED)]

    judge(start + 61)  # half an hour after
    judge(start + 90)
    assert [state for _, _, state in incidents()] == [IncidentState.RESOLVED, IncidentState.OPEN]


def test_a_rate_that_stays_as_it_was_opens_nothing(tenant: Tenant) -> None:
    start, series = night(rate=0.02)
    write_minutes(series, tenant_id=tenant.pk)

    judge(start + LAST - 1, since=start - HOUR)

    assert incidents() == []
    assert AlertState.objects.get(job_type="support").usual == pytest.approx(0.02, abs=0.01)


def test_an_outage_of_a_provider_opens_nothing_and_is_told_beside(tenant: Tenant) -> None:
    start, series = night(rate=0.02)
    before = {minute: rows for minute, rows in series.items() if minute < start}
    out = {minute: rows for minute, rows in series.items() if minute >= start}
    write_minutes(before, tenant_id=tenant.pk)
    write_minutes(out, tenant_id=tenant.pk, provider=40)

    judge(start + LAST - 1, since=start - HOUR)

    assert incidents() == []


def test_a_new_release_that_loops_opens_an_incident_of_the_release(tenant: Tenant) -> None:
    start, series = night(rate=0.02)
    rng = random.Random(3)
    for minute in range(start, start + HOUR):
        series[minute] = [("r1", 2, int(rng.random() < 0.04)), ("r2", 2, int(rng.random() < 0.8))]
    write_minutes(series, tenant_id=tenant.pk)

    judge(start + HOUR - 1, since=start - 5)

    releases = Incident.objects.filter(rule=RuleKind.RELEASE) | Incident.objects.filter(
        title__contains="release r2 looped in"
    )
    assert releases.count() == 1
    assert Incident.objects.count() == 1


def test_minutes_that_were_missed_are_judged_in_order_as_if_none_had_been(tenant: Tenant) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)
    judge(start - 5, since=start - 6)

    done = judge(start + LAST - 1)

    assert done.minutes == LAST + 4
    assert incidents() == [("loop_rate", "support", IncidentState.RESOLVED)]


def test_twenty_judges_at_once_judge_a_minute_once(tenant: Tenant) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)
    judge(start + 5, since=start - 5)
    close(start + 15)
    now = moment_of(start + 16)

    def one(_: int) -> int:
        try:
            return judge_minutes(now).minutes
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        judged = list(pool.map(one, range(20)))

    assert sum(judged) == 10
    assert Incident.objects.count() == 1


def test_what_is_judged_in_two_goes_ends_as_what_is_judged_in_one(tenant: Tenant) -> None:
    start, series = night()
    for job_type in ("one", "two"):
        write_minutes(series, tenant_id=tenant.pk, job_type=job_type)
    judge(start + HOUR, since=start - 5)
    one = {state.job_type: state.state for state in AlertState.objects.filter(job_type__in=["one", "two"])}

    assert one["one"] == one["two"]
    assert one["one"]["spike"] is not None
    assert one["one"]["last"] == start + HOUR


def test_thin_job_types_are_judged_together_as_well(tenant: Tenant) -> None:
    rng = random.Random(11)
    start = minute_of(timezone.now()) - 3 * HOUR
    for job_type in ("a", "b", "c", "d", "e", "f"):
        usual = steady(rng, start - DAYS, start, tasks=1, rate=0.01)
        thin = {minute: rows for minute, rows in usual.items() if minute % 6 == 0}
        loud = {minute: [("r1", 1, int(minute % 24 < 12))] for minute in range(start, start + HOUR, 6)}
        write_minutes(thin | loud, tenant_id=tenant.pk, job_type=job_type)

    judge(start - 1, since=start - 2 * HOUR)
    judge(start + HOUR - 1)

    together = Incident.objects.get(subject="")
    assert together.title.startswith("Job types with few tasks, together: ")


def test_a_series_that_cannot_be_judged_keeps_no_other_from_it(tenant: Tenant) -> None:
    start, series = night()
    for job_type in ("broken", "support"):
        write_minutes(series, tenant_id=tenant.pk, job_type=job_type)
    judge(start, since=start - 5)
    AlertState.objects.filter(job_type="broken").update(state={"sums": "nonsense"})

    done = judge(start + 30)

    assert done.failed > 0
    assert incidents() == [("loop_rate", "support", IncidentState.OPEN)]
    assert Evaluation.objects.get(rule=RuleKind.LOOP_RATE).error == f"{done.failed} series"
    AlertState.objects.filter(job_type="broken").delete()
    judge(start + 31)
    assert Evaluation.objects.get(rule=RuleKind.LOOP_RATE).error == ""


def test_a_clock_that_was_set_back_judges_no_minute_again(tenant: Tenant) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)
    judge(start + 30, since=start - 5)
    window = Evaluation.objects.get(rule=RuleKind.LOOP_RATE).window
    assert isinstance(window, datetime)

    assert judge_minutes(moment_of(start + 31) - timedelta(hours=1)).minutes == 0
    assert Evaluation.objects.get(rule=RuleKind.LOOP_RATE).window == window
    assert Incident.objects.count() == 1


def test_a_rule_that_was_switched_off_opens_nothing(tenant: Tenant) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)
    Rule.objects.create(
        rule=RuleKind.LOOP_RATE, tenant=tenant, enabled=False, severity="critical", at=timezone.now()
    )

    judge(start + 30, since=start - 5)

    assert incidents() == []
    assert LoopMinute.objects.exists()


@pytest.mark.parametrize(
    ("off", "told", "rate"),
    [
        (RuleKind.RELEASE, RuleKind.LOOP_RATE, 0.3),  # the release would be found first
        (RuleKind.LOOP_RATE, RuleKind.RELEASE, 0.8),  # the spike would
    ],
)
def test_a_rule_that_was_switched_off_keeps_the_other_from_nothing(
    tenant: Tenant, off: RuleKind, told: RuleKind, rate: float
) -> None:
    start, series = night(rate=0.02)
    rng = random.Random(3)
    for minute in range(start, start + HOUR):
        well = sum(rng.random() < 0.04 for _ in range(2))
        series[minute] = [("r1", 2, well), ("r2", 2, sum(rng.random() < rate for _ in range(2)))]
    write_minutes(series, tenant_id=tenant.pk)
    Rule.objects.create(rule=off, tenant=tenant, enabled=False, severity="critical", at=timezone.now())

    judge(start + HOUR - 1, since=start - 5)

    assert incidents() == [(told, "support: r2" if told == RuleKind.RELEASE else "support", "open")]


def test_a_minute_that_takes_too_long_is_judged_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, series = night()
    write_minutes(series, tenant_id=tenant.pk)
    judge(start, since=start - 5)
    window = Evaluation.objects.get(rule=RuleKind.LOOP_RATE).window

    def late(*args: object) -> None:
        raise SoftTimeLimitExceeded

    with monkeypatch.context() as patch:
        patch.setattr(LoopRateDetector, "tick", late)
        with pytest.raises(SoftTimeLimitExceeded):
            judge(start + 1)

    mark = Evaluation.objects.get(rule=RuleKind.LOOP_RATE)
    assert (mark.window, mark.error) == (window, "SoftTimeLimitExceeded")
    assert judge(start + 1).minutes == 1


@pytest.mark.shared
def test_a_recorded_pipeline_that_repeats_the_prompt_raises_one_incident_and_good_ones_none(
    tenant: Tenant,
) -> None:
    """Recorded pipelines as releases of one job each, minute by minute, around their arrival."""
    recorded = [each for each in labelled(shared("alerts/dev_series.jsonl.gz")) if each.source == "agentdojo"]
    repeating, good = recorded[2], recorded[11]
    now = minute_of(timezone.now())
    arrivals = {}
    for name, series in (("repeating", repeating), ("good", good)):
        release, first, _, bad = series.releases[0]
        assert bad == (name == "repeating")
        shift = now - 4 * HOUR - first
        arrivals[name] = str(release)
        minutes = {
            minute + shift: [(str(row["release"]), row["tasks"], row["looped_tasks"]) for row in rows]
            for minute, rows in series.rows.items()
            if first - 3 * 1_440 < minute < first + 2 * HOUR
        }
        write_minutes(minutes, tenant_id=tenant.pk, job_type=name)

    judge(now - 2 * HOUR - 1, since=now - 4 * HOUR)

    incident = Incident.objects.get()
    assert incident.job_type == "repeating"
    assert f"release {arrivals['repeating']} looped in" in incident.title
