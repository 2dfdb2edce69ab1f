"""Halts by reason: runs that a guard stopped, stacked over time by the family of the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from guardops import shown
from guardops.charts import Chart, Column, Layer, stacked_bars
from guardops.guard.reasons import family_of
from runs.choices import Family
from runs.reasons_text import clause
from runs.reports.metrics import Bucket, Halts, Window

from . import axis
from .change import Change, halts_change
from .links import Links, Value

_OTHER = "other"


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """A line of the legend, which is the table of counts too."""

    css: str
    name: str
    count: int
    href: str
    change: Change | None


@dataclass(frozen=True, slots=True)
class ReasonRow:
    css: str
    code: str
    words: str
    count: int
    href: str


@dataclass(frozen=True, slots=True)
class Cell:
    name: str
    count: int
    href: str


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A bar as a row: a cell for each family, and all of them."""

    column: Column
    cells: tuple[Cell, ...]
    total: int


@dataclass(frozen=True, slots=True)
class HaltsPanel:
    subtitle: str
    chart_href: str
    table_href: str
    chart: Chart | None  # None in the table's view
    families: tuple[FamilyRow, ...]
    total: FamilyRow
    reasons: tuple[ReasonRow, ...]
    times: tuple[TimeRow, ...]


def halts_panel(
    halts: Halts, window: Window, links: Links, now: datetime, *, comparable: bool, table: bool
) -> HaltsPanel:
    """Lay out the halts; ``comparable`` where runs ended in the period before, ``table`` for that view."""

    def href(bucket: Bucket, **filters: Value) -> str:
        return links.runs(bucket.start, bucket.end, stopped="1", **filters)

    def row(family: str | None, name: str) -> FamilyRow:
        count, before = (
            of.get(family, 0) if family else sum(of.values()) for of in (halts.totals, halts.before)
        )
        change = halts_change(count, before) if comparable else None
        filters: dict[str, Value] = {"family": family} if family else {}
        href = links.runs(window.start, window.end, stopped="1", **filters)
        return FamilyRow(f"k-{family}" if family else "", name, count, href, change)

    families = [family for family in Family if family != Family.OTHER or _seen(halts, family)]
    columns = axis.columns(halts.buckets, window.bucket, href)
    layers = [
        Layer(
            f"k-{family.value}",
            family.label,
            halts.families.get(family.value) or (0,) * len(columns),
            [href(bucket, family=family.value) for bucket in halts.buckets],
        )
        for family in families
    ]
    return HaltsPanel(
        subtitle=_subtitle(halts, window, now),
        chart_href=links.page(halts=None),
        table_href=links.page(halts="table"),
        chart=None if table else _chart(columns, layers, halts, window),
        families=tuple(row(family.value, family.label) for family in families),
        total=row(None, "All halts"),
        reasons=_reasons(halts, window, links) if table else (),
        times=_times(columns, layers) if table else (),
    )


def _seen(halts: Halts, family: Family) -> bool:
    return bool(halts.totals.get(family.value) or halts.before.get(family.value))


def _chart(columns: Sequence[Column], layers: Sequence[Layer], halts: Halts, window: Window) -> Chart:
    steps = axis.LABEL_STEPS[window.bucket]
    return stacked_bars(
        "Halts by reason over time", columns, layers, noun="halts", label_steps=steps, baseline=halts.baseline
    )


def _subtitle(halts: Halts, window: Window, now: datetime) -> str:
    said = [f"{axis.SPANS[window.bucket]}, stacked", "dotted: trailing baseline"]
    if passed := axis.so_far(halts.buckets, now):
        said.append(f"last bar: {shown.duration(passed)} so far")
    return " · ".join(said)


def _reasons(halts: Halts, window: Window, links: Links) -> tuple[ReasonRow, ...]:
    most_first = sorted(halts.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(
        ReasonRow(
            css=f"k-{family_of(code).value}",
            code=code,
            words="codes that this version does not know" if code == _OTHER else clause(code),
            count=count,
            href=links.runs(window.start, window.end, stopped="1", reason=code),
        )
        for code, count in most_first
        if count
    )


def _times(columns: Sequence[Column], layers: Sequence[Layer]) -> tuple[TimeRow, ...]:
    rows = []
    for i, column in enumerate(columns):
        cells = tuple(Cell(layer.name, layer.values[i], layer.hrefs[i]) for layer in layers)
        rows.append(TimeRow(column, cells, sum(cell.count for cell in cells)))
    return tuple(reversed(rows))
