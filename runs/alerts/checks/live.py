"""Runs that have not ended: those near a limit, and those that will not end any more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min

from guardops import shown
from runs.alerts.evidence import Evidence, Figure
from runs.alerts.incidents import Finding
from runs.alerts.verdicts import Asked, Verdict
from runs.choices import RuleKind
from runs.models import LiveRun
from runs.pages.limits import label_of
from runs.querysets import SILENT_AFTER
from runs.reports.windows import floor_quarter

from .rolled import Job, Sums, named, sums_by_job

DAY = timedelta(days=1)


def check_pressure(asked: Asked) -> Verdict:
    """Find job types with several live runs near a limit; a run that has gone silent counts for the other."""
    settings = asked.settings
    lowest = min(settings.of(*key)["percent"] for key in [(None, ""), *settings.rows])
    rows = (
        LiveRun.objects.filter(pressure__gte=int(lowest), last_at__gte=asked.now - SILENT_AFTER)
        .values("tenant_id", "job_type", "pressure", "pressure_limit")
        .annotate(runs=Count("run_id"))
        .order_by()
    )
    pressed: defaultdict[Job, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    highest: defaultdict[Job, int] = defaultdict(int)
    for row in rows:
        job = (row["tenant_id"], row["job_type"])
        if row["pressure"] >= settings.of(*job)["percent"]:
            pressed[job][row["pressure_limit"]] += row["runs"]
            highest[job] = max(highest[job], row["pressure"])
    findings = [
        _pressure_finding(asked, job, limits, highest[job])
        for job, limits in pressed.items()
        if settings.of(*job).enabled and sum(limits.values()) >= settings.of(*job)["runs"]
    ]
    return Verdict(findings)


def _pressure_finding(asked: Asked, job: Job, limits: dict[str, int], highest: int) -> Finding:
    setting, runs = asked.settings.of(*job), sum(limits.values())
    nearest = max(limits, key=lambda name: (limits[name], name))
    evidence = Evidence(
        figures=[
            Figure("Near a limit", shown.count(runs), f"live runs, at {setting['percent']:.0f} % or above"),
            Figure("Highest", f"{highest} %"),
            *(
                Figure(label_of(name), shown.count(limits[name]), "live runs")
                for name in sorted(limits, key=lambda name: -limits[name])[:4]
            ),
        ]
    )
    return Finding(
        tenant_id=job[0],
        rule=RuleKind.PRESSURE,
        subject=job[1],
        job_type=job[1],
        title=(
            f"{named(job)}{shown.count(runs)} live runs have used {setting['percent']:.0f} % of a limit or"
            f" more, most of them {label_of(nearest)}."
        ),
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": "live", "job": job[1], "state": "pressure"},
    )


def check_never_ended(asked: Asked) -> Verdict | None:
    """Find job types of whose runs of the last day several fell silent and never ended.

    None just after GuardOps itself was away: what was not heard then may still come.
    """
    settings = asked.settings
    lengths = {settings.of(*key)["minutes"] for key in [(None, ""), *settings.rows]}
    if not asked.watched_for(timedelta(minutes=min(lengths))):
        return None
    silent = {
        job: found
        for minutes in lengths
        for job, found in _silent(asked, timedelta(minutes=minutes)).items()
        if settings.of(*job).enabled and settings.of(*job)["minutes"] == minutes
    }
    until = floor_quarter(asked.now)
    ended = sums_by_job(until - DAY, until) if silent else {}
    findings = []
    for job, found in silent.items():
        setting, runs = settings.of(*job), ended.get(job, Sums()).runs
        many = found.runs >= setting["runs"]
        if many and 100 * found.runs >= setting["percent"] * (found.runs + runs):
            findings.append(_never_ended_finding(asked, job, found, runs))
    return Verdict(findings)


@dataclass(frozen=True, slots=True)
class _Silent:
    """Live runs of a job type without a sign of life, and between when and when they gave the last one."""

    runs: int
    first: datetime
    last: datetime


def _silent(asked: Asked, span: timedelta) -> dict[Job, _Silent]:
    rows = (
        LiveRun.objects.filter(last_at__gt=asked.now - DAY, last_at__lte=asked.now - span)
        .values_list("tenant_id", "job_type")
        .annotate(Count("run_id"), Min("last_at"), Max("last_at"))
        .order_by()
    )
    return {(tenant, job): _Silent(*found) for tenant, job, *found in rows}


def _never_ended_finding(asked: Asked, job: Job, found: _Silent, ended: int) -> Finding:
    setting = asked.settings.of(*job)
    part = shown.share(found.runs / (found.runs + ended))
    evidence = Evidence(
        figures=[
            Figure("Silent", shown.count(found.runs), f"runs for {setting['minutes']:.0f} min or longer"),
            Figure("Of the runs of the last day", part, f"{shown.count(ended)} ended"),
            Figure("Longest", shown.duration(asked.now - found.first), "without a sign of life"),
        ],
        facts=["A process that was killed or lost its network tells nobody. The runs may still be going on."],
    )
    return Finding(
        tenant_id=job[0],
        rule=RuleKind.NEVER_ENDED,
        subject=job[1],
        job_type=job[1],
        title=(
            f"{named(job)}{shown.count(found.runs)} runs of the last day fell silent and never ended"
            f" ({part}), the last one {shown.duration(asked.now - found.last)} ago."
        ),
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": "live", "job": job[1], "state": "silent"},
    )
