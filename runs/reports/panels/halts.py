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
    change: Change


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


def halts_panel(halts: Halts, window: Window, links: Links, now: datetime, *, table: bool) -> HaltsPanel:
    def href(bucket: Bucket, **filters: Value) -> str:
        return links.runs(bucket.start, bucket.end, stopped="1", **filters)

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
        families=tuple(_family_row(family, halts, window, links) for family in families),
        total=_total(halts, window, links),
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


def _family_row(family: Family, halts: Halts, window: Window, links: Links) -> FamilyRow:
    count, before = halts.totals.get(family.value, 0), halts.before.get(family.value, 0)
    href = links.runs(window.start, window.end, stopped="1", family=family.value)
    return FamilyRow(f"k-{family.value}", family.label, count, href, halts_change(count, before))


def _total(halts: Halts, window: Window, links: Links) -> FamilyRow:
    count, before = sum(halts.totals.values()), sum(halts.before.values())
    return FamilyRow(
        "", "All halts", count, links.runs(window.start, window.end, stopped="1"), halts_change(count, before)
    )


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
