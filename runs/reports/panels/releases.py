"""Releases as they are shown: a sentence, each measure before and after with its interval, new halts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from guardops import shown
from guardops.tenants.access import Visible
from guardops.tenants.models import Tenant
from runs.reasons_text import clause
from runs.reports.arrivals import read_arrivals
from runs.reports.outages import Outage, read_outages
from runs.reports.releases import FEWEST_RUNS, FEWEST_TASKS, Compared, Estimate, Side, Verdict, read_compared

from .links import Links

PANEL_DAYS = timedelta(days=7)
PANEL_MOST = 4
WORDS = {
    Verdict.WORSE: ("worse", "danger", "arrow-up"),
    Verdict.BETTER: ("better", "ok", "arrow-down"),
    Verdict.SAME: ("no difference beyond chance", "", "same"),
    Verdict.FEW: ("too few to say", "", "clock"),
}
UNITS = {"tool_call": "tool calls", "turn": "turns", "superstep": "supersteps"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and where its rows are; ``range`` holds the true value in 95 of 100 cases."""

    value: str
    range: str
    note: str
    href: str


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    before: Figure
    after: Figure
    word: str
    css: str
    icon: str


@dataclass(frozen=True, slots=True)
class NewHalt:
    """A reason that stopped nobody in the week before."""

    name: str
    runs: int
    href: str


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """One release. ``said`` is its sentence, up to the time since when."""

    tenant: Tenant
    job_type: str
    release: str
    at: datetime
    word: str
    css: str
    icon: str
    said: str
    measures: tuple[Measure, ...]
    new_halts: tuple[NewHalt, ...]
    before_href: str
    after_href: str
    before_runs: int
    after_runs: int


@dataclass(frozen=True, slots=True)
class OutageLine:
    """A provider that fails now, with the list of runs that it ended."""

    tenant: Tenant
    outage: Outage
    href: str


@dataclass(frozen=True, slots=True)
class ReleasesPanel:
    lines: Sequence[ReleaseLine]
    outages: Sequence[OutageLine]
    more: int


def releases_panel(seen: Visible, tenant: str, now: datetime) -> ReleasesPanel:
    """Return the releases of the last seven days, the newest ones; of one tenant where it is chosen."""
    tenants = {each.pk: each for each in ([seen.by_slug(tenant)] if tenant else seen.tenants)}
    arrivals = read_arrivals(list(tenants), now - PANEL_DAYS, now)
    lines = release_lines(read_compared(arrivals[:PANEL_MOST], now), tenants)
    outages = outage_lines(read_outages(list(tenants), now), tenants)
    return ReleasesPanel(lines, outages, max(0, len(arrivals) - PANEL_MOST))


def release_lines(compared: Sequence[Compared], tenants: Mapping[int, Tenant]) -> list[ReleaseLine]:
    return [_line(each, tenants[each.arrival.tenant_id]) for each in compared]


def outage_lines(outages: Sequence[Outage], tenants: Mapping[int, Tenant]) -> list[OutageLine]:
    return [
        OutageLine(
            tenants[each.tenant_id],
            each,
            Links({"tenant": tenants[each.tenant_id].slug, "job": each.job_type}, {}).runs(
                each.since, each.until, provider_failure="1"
            ),
        )
        for each in outages
    ]


def _line(compared: Compared, tenant: Tenant) -> ReleaseLine:
    arrival = compared.arrival
    job = {"tenant": tenant.slug, "job": arrival.job_type}
    before, after = Links(job, {}), Links(job | {"release": arrival.release}, {})
    word, css, icon = _headline(compared)
    return ReleaseLine(
        tenant=tenant,
        job_type=arrival.job_type,
        release=arrival.release,
        at=arrival.at,
        word=word,
        css=css,
        icon=icon,
        said=_said(compared),
        measures=_measures(compared, before, after),
        new_halts=tuple(
            NewHalt(clause(code), runs, _rows(after, compared.after, stopped="1", reason=code))
            for code, runs in compared.new_reasons.items()
        ),
        before_href=_rows(before, compared.before),
        after_href=_rows(after, compared.after),
        before_runs=compared.before.counts.runs,
        after_runs=compared.after.counts.runs,
    )


def _headline(compared: Compared) -> tuple[str, str, str]:
    if compared.loops == Verdict.WORSE:
        return "Loops more", "danger", "arrow-up"
    if compared.worst == Verdict.WORSE:
        return "Worse", "warn", "arrow-up"
    if compared.loops == Verdict.BETTER:
        return "Loops less", "ok", "arrow-down"
    if compared.loops == Verdict.FEW:
        return "Too few runs", "", "clock"
    return "No worse", "ok", "ok"


def _said(compared: Compared) -> str:
    """Say what the release did: ``loops 2.1 % → 9.4 % of 412 runs``."""
    before, after = compared.before, compared.after
    runs = shown.count(after.judged)
    now = "none" if after.loop_rate is None else shown.share(after.loop_rate.value)
    if before.loop_rate is None:
        return f"loops {now} of {runs} runs; nothing ran in the week before"
    said = f"loops {shown.share(before.loop_rate.value)} → {now} of {runs} runs"
    if compared.loops == Verdict.FEW:
        return f"{said}; {FEWEST_RUNS} of {FEWEST_TASKS} tasks are needed on both sides to say more"
    return said


def _measures(compared: Compared, before: Links, after: Links) -> tuple[Measure, ...]:
    sides = ((compared.before, before), (compared.after, after))
    steps = f"p99 steps{f' ({UNITS.get(compared.unit, compared.unit)})' if compared.unit else ''}"
    return (
        _measure("Loop rate", compared.loops, *(_loops(side, links) for side, links in sides)),
        _measure(steps, compared.steps, *(_steps(side, links, compared.unit) for side, links in sides)),
        _measure("Forced answers", compared.forced, *(_forced(side, links) for side, links in sides)),
        _measure("Cost per completed task", compared.cost, *(_cost(side, links) for side, links in sides)),
    )


def _measure(name: str, verdict: Verdict, before: Figure, after: Figure) -> Measure:
    return Measure(name, before, after, *WORDS[verdict])


def _loops(side: Side, links: Links) -> Figure:
    left_out = side.counts.provider_failures
    note = f"{shown.count(side.counts.looped)} of {shown.count(side.judged)} runs"
    if left_out:
        note += f", {shown.count(left_out)} provider failures left out"
    return _share(side.loop_rate, note, _rows(links, side, looped="1"))


def _forced(side: Side, links: Links) -> Figure:
    note = f"{shown.count(side.counts.forced)} of {shown.count(side.counts.runs)} runs"
    return _share(side.forced, note, _rows(links, side, forced="1"))


def _share(estimate: Estimate | None, note: str, href: str) -> Figure:
    if estimate is None:
        return Figure("none", "", note, href)
    between = f"{shown.share(estimate.low)} to {shown.share(estimate.high)}"
    return Figure(shown.share(estimate.value), between, note, href)


def _steps(side: Side, links: Links, unit: str) -> Figure:
    filters = {"step_unit": unit} if unit else {}
    href = _rows(links, side, completes="1", answered="1", **filters)
    note = f"of {shown.count(side.step_tasks)} completed tasks"
    if side.p99 is None:
        value = "none" if side.highest is None else f"max {shown.count(side.highest)}"
        return Figure(value, "", note, href)
    low, high = shown.count(int(side.p99.low)), shown.count(int(side.p99.high))
    return Figure(shown.count(int(side.p99.value)), f"{low} to {high}", note, href)


def _cost(side: Side, links: Links) -> Figure:
    counts, each = side.counts, side.counts.cost_per_completed_task
    note = f"{shown.money(counts.cost)} for {shown.count(counts.completed)} completed tasks"
    href = _rows(links, side, completes="1")
    if each is None:
        return Figure("none completed", "", note, href)
    between = ""
    if side.cost is not None:
        low, high = (shown.money(Decimal(str(round(v, 6)))) for v in (side.cost.low, side.cost.high))
        between = f"{low} to {high}"
    return Figure(shown.money(each), between, note, href)


def _rows(links: Links, side: Side, **filters: str) -> str:
    return links.runs(side.window.start, side.window.end, **filters)
