"""Steps of completed tasks creeping up: the 99th percentile of the last day against the seven before."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from guardops import shown
from runs.alerts.evidence import Evidence, Figure, Series
from runs.alerts.incidents import Finding
from runs.alerts.rules import Setting
from runs.alerts.verdicts import Asked, Subject, Verdict
from runs.choices import RuleKind
from runs.reports.intervals import Z_99, wilson
from runs.reports.metrics import MIN_RUNS_FOR_P99
from runs.reports.percentiles import nearest_rank

from .rolled import USUAL_DAYS, Span, Unit, steps_by_job, steps_over_time

DAY = timedelta(days=1)
_HOLDS = 0.5  # of what is more than the usual
_BEYOND = 0.02  # share of tasks beyond the former 99th percentile that is no chance: twice what it was
_WORDS = {"tool_call": "tool calls", "turn": "turns", "superstep": "supersteps"}


def check_steps(asked: Asked) -> Verdict:
    """Find job types whose longest tasks take more steps than they used to; units are never pooled."""
    span = Span(asked.window, DAY)
    now, usual = steps_by_job(span.start, span.end), steps_by_job(span.usual_start, span.start)
    findings: list[Finding] = []
    holding, fine = set[Subject](), set[Subject]()
    for unit, tasks in now.items():
        tenant_id, job_type, _ = unit
        setting, before = asked.settings.of(tenant_id, job_type), usual.get(unit, Counter())
        if not setting.enabled or min(tasks.total(), before.total()) < setting["tasks"]:
            continue
        p99, was = nearest_rank(tasks, 99) or 0, nearest_rank(before, 99) or 0
        limit = max(was * setting["ratio"], was + setting["steps"])
        beyond = sum(number for steps, number in tasks.items() if steps > was)
        subject = (tenant_id, _subject(unit))
        if p99 >= limit and wilson(beyond, tasks.total(), Z_99)[0] > _BEYOND:
            findings.append(_finding(unit, tasks, before, setting, span))
        elif p99 >= was + (limit - was) * _HOLDS:
            holding.add(subject)
        else:
            fine.add(subject)
    return Verdict(findings, holding, fine)


def _subject(unit: Unit) -> str:
    return f"{unit[1]} by {_WORDS.get(unit[2], unit[2])}"


def _finding(unit: Unit, tasks: Counter[int], before: Counter[int], setting: Setting, span: Span) -> Finding:
    tenant_id, job_type, step_unit = unit
    p99, was = nearest_rank(tasks, 99) or 0, nearest_rank(before, 99) or 0
    word = _WORDS.get(step_unit, step_unit)
    beyond = sum(number for steps, number in tasks.items() if steps > was)

    def gather() -> dict[str, object]:
        columns = USUAL_DAYS + 1
        series = steps_over_time(unit, span.end - columns * DAY, DAY, columns)
        figures = [
            Figure("p99, last day", f"{p99:,} {word}", f"of {tasks.total():,} completed tasks"),
            Figure("p99 before", f"{was:,} {word}", f"of {before.total():,} tasks, 7 days before"),
            Figure("Beyond that", shown.share(beyond / tasks.total()), f"{beyond:,} tasks; it was 1 %"),
        ]
        return Evidence(
            figures=figures,
            title=f"99th percentile of {word}, by day",
            unit="steps",
            start=span.end - columns * DAY,
            step_s=int(DAY.total_seconds()),
            series=[
                Series("Usual", [was] * columns, usual=True),
                Series("p99", [_p99(each) for each in series]),
            ],
            fired_at=span.end,
        ).as_json()

    return Finding(
        tenant_id=tenant_id,
        rule=RuleKind.STEPS,
        subject=_subject(unit),
        job_type=job_type,
        title=(
            f"{job_type or 'Runs without a job type'}: 99 of 100 completed tasks took at most {p99:,}"
            f" {word} in the last day; it was {was:,} in the seven days before."
        ),
        severity=setting.severity,
        window=span.end,
        evidence=gather,
        query={
            "job": job_type,
            "step_unit": step_unit,
            "completes": "1",
            "answered": "1",
            "steps_min": str(was + 1),
            "from": span.start.isoformat(),
            "to": span.end.isoformat(),
        },
    )


def _p99(tasks: Counter[int]) -> int | None:
    return nearest_rank(tasks, 99) if tasks.total() >= MIN_RUNS_FOR_P99 else None
