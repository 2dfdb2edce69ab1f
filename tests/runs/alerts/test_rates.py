"""Rules that read counts, on rows that fold has counted: they fire, say what they saw, and are over again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import QueryDict

from guardops.tenants.models import Tenant
from runs.alerts.evaluate import evaluate_rules
from runs.alerts.evidence import Evidence
from runs.choices import IncidentState, RuleKind, Severity
from runs.filters import RunFilter
from runs.models import Evaluation, Incident, Rule, Run
from tests.factories import make_tenant
from tests.runs.alerts.work import count, work

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 14, 15, 1, 0, tzinfo=UTC)
WINDOW = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
JUDGED = (RuleKind.STEPS, RuleKind.COST, RuleKind.FORCED)


def usual(tenant: Tenant, until: datetime, **changes: Any) -> None:
    work(tenant, WINDOW - 8 * DAY, until, **({"every": 20 * MINUTE} | changes))


def judge(now: datetime) -> None:
    count(now)
    evaluate(now)


def evaluate(now: datetime) -> None:
    done = evaluate_rules(now)
    assert done is not None
    assert not done.failed


def found(rule: RuleKind) -> list[Incident]:
    return list(Incident.objects.filter(rule=rule).order_by("opened_at"))


def listed(incident: Incident) -> Any:
    """Return the runs that its link lists."""
    params = QueryDict(mutable=True)
    params.update(incident.query)
    return RunFilter(params, Run.objects.for_tenants([incident.tenant_id]), now=NOW).qs


def test_as_usual_opens_nothing() -> None:
    usual(make_tenant(), WINDOW, every=4 * MINUTE)
    judge(NOW)
    assert not Incident.objects.exists()
    assert set(Evaluation.objects.filter(window=WINDOW).values_list("rule", flat=True)) >= set(JUDGED)


def test_cost_per_completed_task_rises_is_told_and_is_over_again() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - 6 * HOUR)
    work(tenant, WINDOW - 6 * HOUR, WINDOW, cost="0.50")
    judge(NOW)
    (incident,) = found(RuleKind.COST)
    # One of 50 runs is forced and completes nothing, but costs as well.
    assert incident.title == (
        "research: a completed task costs $0.514, 5.0× the usual $0.102 (35 tasks and 36 runs in 6 h)."
    )
    assert (incident.severity, incident.job_type) == (Severity.WARNING, "research")
    evidence = Evidence.read(incident.evidence)
    assert [figure.value for figure in evidence.figures] == ["$0.514", "$0.102", "$14.43"]
    assert [round(value or 0, 2) for value in evidence.series[1].values[-2:]] == [0.11, 0.51]
    assert listed(incident).count() == 36

    work(tenant, WINDOW, WINDOW + 7 * HOUR)
    judge(NOW + 7 * HOUR)
    evaluate(NOW + 7 * HOUR + MINUTE)  # one evaluation judges 24 windows of a rule at most
    (incident,) = found(RuleKind.COST)
    assert (incident.state, incident.resolved_how) == (IncidentState.RESOLVED, "back to usual")


def test_runs_that_cost_and_complete_nothing_are_told() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - 6 * HOUR)
    work(
        tenant,
        WINDOW - 6 * HOUR,
        WINDOW,
        cost="0.20",
        outcome="halted",
        halt_reason="step_budget",
        answer="none",
    )
    judge(NOW)
    (incident,) = found(RuleKind.COST)
    assert incident.title == "research: none of 36 runs completed a task, for $7.20."


def test_forced_answers_rise_are_told_and_listed() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - 6 * HOUR)
    work(tenant, WINDOW - 6 * HOUR, WINDOW, every=timedelta(minutes=3), forced_one_in=5)
    judge(NOW)
    (incident,) = found(RuleKind.FORCED)
    assert incident.title == (
        "research: 24 of 120 runs ended with a forced answer (20.0\u00a0%) in 6 h; usual is 2.0\u00a0%."
    )
    assert listed(incident).count() == 24


def test_steps_of_the_longest_tasks_creep_up_are_told_and_listed() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - DAY)
    work(
        tenant, WINDOW - DAY, WINDOW, every=timedelta(minutes=4), steps=(5,) * 9 + (19,), forced_one_in=10_000
    )
    judge(NOW)
    (incident,) = found(RuleKind.STEPS)
    assert incident.subject == "research by tool calls"
    assert incident.title == (
        "research: 99 of 100 completed tasks took at most 19 tool calls in the last day; it was 6 in the"
        " seven days before."
    )
    assert Evidence.read(incident.evidence).figures[2].note == "36 tasks; it was 1 %"
    assert listed(incident).count() == 36


@pytest.mark.parametrize("rule", JUDGED)
def test_too_few_runs_say_nothing(rule: RuleKind) -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - 6 * HOUR, every=timedelta(hours=7))
    work(
        tenant, WINDOW - 6 * HOUR, WINDOW, every=timedelta(hours=1), cost="9.00", forced_one_in=1, steps=(40,)
    )
    judge(NOW)
    assert found(rule) == []


def test_a_rule_that_is_switched_off_opens_nothing_and_ends_what_is_open() -> None:
    tenant, other = make_tenant(), make_tenant()
    for each in (tenant, other):
        usual(each, WINDOW - 6 * HOUR)
        work(each, WINDOW - 6 * HOUR, WINDOW + HOUR, cost="0.50")
    judge(NOW)
    assert len(found(RuleKind.COST)) == 2
    Rule.objects.create(tenant=tenant, rule=RuleKind.COST, enabled=False, severity=Severity.WARNING, at=NOW)
    judge(NOW + 15 * MINUTE)
    assert Incident.objects.get(tenant=tenant).resolved_how == "its rule was switched off"
    assert Incident.objects.get(tenant=other).is_open


def test_a_job_types_own_limits_hold_for_it_alone() -> None:
    tenant = make_tenant()
    for job in ("research", "support"):
        usual(tenant, WINDOW - 6 * HOUR, job_type=job)
        work(tenant, WINDOW - 6 * HOUR, WINDOW, cost="0.50", job_type=job)
    set_here = {"rule": RuleKind.COST, "at": NOW, "severity": Severity.CRITICAL, "tenant": tenant}
    Rule.objects.create(**set_here, job_type="support", parameters={"ratio": 6})
    Rule.objects.create(**set_here, parameters={"ratio": 4})
    judge(NOW)
    (incident,) = found(RuleKind.COST)
    assert (incident.job_type, incident.severity) == ("research", Severity.CRITICAL)


def test_windows_that_were_missed_are_judged_in_order_afterwards() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW)
    judge(NOW)
    # Away for twelve hours, in which three hours were bad: they open an incident, and the rest ends it.
    work(tenant, WINDOW, WINDOW + 3 * HOUR, cost="1.00")
    work(tenant, WINDOW + 3 * HOUR, WINDOW + 12 * HOUR)
    judge(NOW + 12 * HOUR)
    evaluate(NOW + 12 * HOUR + MINUTE)  # one evaluation judges 24 windows of a rule at most
    (incident,) = found(RuleKind.COST)
    assert incident.state == IncidentState.RESOLVED
    assert Evaluation.objects.get(rule=RuleKind.COST).window == WINDOW + 12 * HOUR


def test_what_is_not_counted_yet_is_not_judged() -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW)
    count(NOW - 20 * MINUTE)
    evaluate(NOW)
    assert Evaluation.objects.get(rule=RuleKind.COST).window == WINDOW - 30 * MINUTE


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
def test_a_clock_that_jumps_makes_no_second_incident_and_misses_none(jump: timedelta) -> None:
    tenant = make_tenant()
    usual(tenant, WINDOW - 6 * HOUR)
    work(tenant, WINDOW - 6 * HOUR, WINDOW + 3 * HOUR, cost="0.50")
    support = {"job_type": "support"}
    usual(tenant, WINDOW + HOUR, **support)
    judge(NOW)
    judge(NOW + jump + 30 * MINUTE)
    # Back to the right time; another job type gets worse only now.
    work(tenant, WINDOW + HOUR, WINDOW + 3 * HOUR, cost="2.00", **support)
    for hours in (1, 3):
        judge(NOW + hours * HOUR)
    assert [incident.job_type for incident in found(RuleKind.COST)] == ["research", "support"]
    assert all(incident.is_open and not incident.reopened for incident in found(RuleKind.COST))
