"""Cost per completed task and forced answers of the last hours, against the seven days before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal

from guardops import shown
from runs.alerts.evidence import Evidence, Figure, Series, Unit
from runs.alerts.incidents import Finding
from runs.alerts.rules import Setting
from runs.alerts.verdicts import Asked, Subject, Verdict
from runs.choices import RuleKind
from runs.reports.intervals import wilson

from .rolled import USUAL_DAYS, Job, Span, Sums, named, sums_by_job, sums_over_time

HOURS = timedelta(hours=6)
_HOLDS = 0.8  # of what it takes to find something: below it, it is over
_COLUMNS = USUAL_DAYS * 4 + 1  # of six hours each, the last one is judged


def check_cost(asked: Asked) -> Verdict:
    """Find job types whose completed tasks cost more than they used to; none completed counts as well."""
    span = Span(asked.window, HOURS)
    now, usual = sums_by_job(span.start, span.end), sums_by_job(span.usual_start, span.start)
    findings: list[Finding] = []
    holding, fine = set[Subject](), set[Subject]()
    for job, sums in now.items():
        setting, before = asked.settings.of(*job), usual.get(job, Sums())
        if not setting.enabled or before.completed < setting["tasks"] or before.cost_per_task is None:
            continue
        more = sums.cost - before.cost_per_task * sums.completed
        ratio = _times(sums, before)
        if ratio >= setting["ratio"] and more >= Decimal(setting["usd"]):
            findings.append(_cost_finding(job, sums, before, setting, span))
        elif ratio >= 1 + (setting["ratio"] - 1) * _HOLDS and more > 0:
            holding.add(job)
        else:
            fine.add(job)
    return Verdict(findings, holding, fine)


def _times(sums: Sums, before: Sums) -> float:
    """Return how many times the usual a completed task costs; where none was, as if one were about to be."""
    usual = before.cost_per_task or Decimal(0)
    now = sums.cost_per_task if sums.completed else sums.cost
    return float(now / usual) if usual and now is not None else 0.0


def _cost_finding(job: Job, sums: Sums, before: Sums, setting: Setting, span: Span) -> Finding:
    usual = before.cost_per_task or Decimal(0)
    runs = shown.count(sums.runs)
    if sums.cost_per_task is None:
        said = f"none of {runs} runs completed a task, for {shown.money(sums.cost)}"
        value = "none completed"
    else:
        value = shown.money(sums.cost_per_task)
        said = (
            f"a completed task costs {value}, {_times(sums, before):.1f}× the usual {shown.money(usual)}"
            f" ({shown.count(sums.completed)} tasks and {runs} runs in 6 h)"
        )

    def gather() -> dict[str, object]:
        figures = [
            Figure("Last 6 h", value, f"{shown.money(sums.cost)} for {shown.count(sums.completed)} tasks"),
            Figure(
                "Usual",
                shown.money(usual),
                f"{shown.money(before.cost)} for {shown.count(before.completed)} tasks, 7 days before",
            ),
            Figure("More than usual", shown.money(sums.cost - usual * sums.completed), "in 6 h"),
        ]
        series = _series(job, span, lambda of: None if of.cost_per_task is None else float(of.cost_per_task))
        return _evidence(span, ("Cost", "per completed task"), "usd", figures, series, float(usual))

    return Finding(
        tenant_id=job[0],
        rule=RuleKind.COST,
        subject=job[1],
        job_type=job[1],
        title=f"{named(job)}{said}.",
        severity=setting.severity,
        window=span.end,
        evidence=gather,
        query=_rows(job, span),
    )


def check_forced(asked: Asked) -> Verdict:
    """Find job types of whose runs more end with a forced answer than used to."""
    span = Span(asked.window, HOURS)
    now, usual = sums_by_job(span.start, span.end), sums_by_job(span.usual_start, span.start)
    findings: list[Finding] = []
    holding, fine = set[Subject](), set[Subject]()
    for job, sums in now.items():
        setting, before = asked.settings.of(*job), usual.get(job, Sums())
        if not setting.enabled or sums.runs < setting["runs"] or before.runs < setting["runs"]:
            continue
        share, was = sums.forced / sums.runs, before.forced / before.runs
        limit = max(was * setting["ratio"], was + setting["points"] / 100)
        # Not by chance: what it was lies below what it may be now.
        if share >= limit and wilson(sums.forced, sums.runs)[0] > was:
            findings.append(_forced_finding(job, sums, before, setting, span))
        elif share >= was + (limit - was) * _HOLDS:
            holding.add(job)
        else:
            fine.add(job)
    return Verdict(findings, holding, fine)


def _forced_finding(job: Job, sums: Sums, before: Sums, setting: Setting, span: Span) -> Finding:
    share, was = sums.forced / sums.runs, before.forced / before.runs
    said = (
        f"{shown.count(sums.forced)} of {shown.count(sums.runs)} runs ended with a forced answer"
        f" ({shown.share(share)}) in 6 h; usual is {shown.share(was)}"
    )

    def gather() -> dict[str, object]:
        low, high = wilson(sums.forced, sums.runs)
        between = f"; 95 % between {shown.share(low)} and {shown.share(high)}"
        figures = [
            Figure("Last 6 h", shown.share(share), f"{sums.forced:,} of {sums.runs:,} runs{between}"),
            Figure("Usual", shown.share(was), f"{before.forced:,} of {before.runs:,} runs, 7 days before"),
        ]
        percent = _series(job, span, lambda of: None if of.forced_share is None else 100 * of.forced_share)
        return _evidence(span, ("Forced", "answers of all runs"), "percent", figures, percent, 100 * was)

    return Finding(
        tenant_id=job[0],
        rule=RuleKind.FORCED,
        subject=job[1],
        job_type=job[1],
        title=f"{named(job)}{said}.",
        severity=setting.severity,
        window=span.end,
        evidence=gather,
        query=_rows(job, span) | {"forced": "1"},
    )


def _rows(job: Job, span: Span) -> dict[str, str]:
    return {"job": job[1], "from": span.start.isoformat(), "to": span.end.isoformat()}


def _series(job: Job, span: Span, value: Callable[[Sums], float | None]) -> list[float | None]:
    start = span.end - _COLUMNS * HOURS
    return [value(sums) for sums in sums_over_time(job, start, HOURS, _COLUMNS)]


def _evidence(
    span: Span,
    names: tuple[str, str],
    unit: Unit,
    figures: Sequence[Figure],
    values: Sequence[float | None],
    usual: float,
) -> dict[str, object]:
    made = Evidence(
        figures=figures,
        title=f"{names[0]} {names[1]}, by six hours",
        unit=unit,
        start=span.end - _COLUMNS * HOURS,
        step_s=int(HOURS.total_seconds()),
        series=[Series("Usual", [usual] * _COLUMNS, usual=True), Series(names[0], values)],
        fired_at=span.end,
    )
    return made.as_json()
