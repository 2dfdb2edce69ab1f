"""Incidents, a rule and silences as a tenant has them after a bad night, for pages and browsers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from guardops.tenants.models import Tenant, User
from runs.alerts.evidence import Evidence, Figure, Series
from runs.alerts.incidents import acknowledge, add_note, assign, open_incident, resolve_incident
from runs.alerts.rules import SPECS
from runs.alerts.setting import set_rule
from runs.alerts.silences import end_silence, silence
from runs.choices import RuleKind, Severity
from runs.models import Evaluation, Incident
from tests.runs.alerts.findings import make_finding

HOUR = timedelta(hours=1)


def make_scene(tenant: Tenant, mara: User, now: datetime) -> Incident:
    """Leave an incident with a chart, one that ``mara`` has, and one that is over; return the first."""
    usual = [1.6, 1.9, 1.7, 1.8, 2.0, 1.7, 1.5, 1.9]
    evidence = Evidence(
        figures=[
            Figure("Last 6 h", "20.3\u00a0%", "61 of 300 runs; 95 % between 16.1\u00a0% and 25.2\u00a0%"),
            Figure("Usual", "1.8\u00a0%", "92 of 5,101 runs, 7 days before"),
        ],
        title="Runs with a forced answer, by six hours",
        unit="percent",
        start=now.replace(minute=0, second=0, microsecond=0) - 11 * 6 * HOUR,
        step_s=6 * 3_600,
        series=[Series("Usual", [1.8] * 11, usual=True), Series("Forced", [*usual, 6.2, 14.8, 20.3])],
        fired_at=now - HOUR,
        facts=["Provider failures are left out: 12 of 312 runs."],
    )
    first = open_incident(
        make_finding(
            tenant,
            title="research: 61 of 300 runs ended with a forced answer (20.3 %) in 6 h; usual is 1.8 %.",
            evidence=evidence.as_json(),
            query={"job": "research", "forced": "1", "range": "6h"},
            severity=Severity.CRITICAL,
        ),
        now=now - HOUR,
    ).incident
    second = open_incident(
        make_finding(
            tenant,
            rule=RuleKind.COST,
            subject="support",
            job_type="support",
            title="support: a completed task costs $0.514, 5.0× the usual $0.102 (35 tasks in 6 h).",
        ),
        now=now - 3 * HOUR,
    ).incident
    acknowledge(second, actor=mara, now=now - 2 * HOUR, version=1)
    assign(second, mara, actor=mara, now=now - 2 * HOUR, version=2, note="I know this job.")
    add_note(second, "The prompt of 2.4 asks for three sources.\nRolled back.", actor=mara, now=now - HOUR)
    late = make_finding(
        tenant,
        rule=RuleKind.REVIEW_SLA,
        subject="",
        job_type="",
        title="3 checkpoints are past the time for review, the oldest by 41\u00a0min.",
    )
    open_incident(late, now=now - 9 * HOUR)
    resolve_incident(tenant.pk, RuleKind.REVIEW_SLA, "", now=now - 8 * HOUR, how="none is late any more")
    _settings(tenant, mara, now)
    return first


def _settings(tenant: Tenant, mara: User, now: datetime) -> None:
    spec = SPECS[RuleKind.COST]
    values = {each.name: each.default for each in spec.parameters}
    how: dict[str, Any] = {
        "enabled": True,
        "severity": Severity.CRITICAL,
        "actor": mara,
        "now": now,
        "version": 0,
    }
    set_rule(spec, tenant, values=values | {"ratio": 2.0}, **how)
    set_rule(spec, tenant, "support", values=values | {"usd": 50}, **how)
    quiet: dict[str, Any] = {"actor": mara, "now": now - HOUR, "until": now + 5 * HOUR}
    silence(tenant, rule=RuleKind.COST, subject="support", reason="Known: the new prompt.", **quiet)
    over = silence(tenant, rule=None, reason="Moving to the new cluster.", **quiet)
    end_silence(over, actor=mara, now=now)
    Evaluation.objects.create(rule=RuleKind.COST, window=now, at=now, since=now)
