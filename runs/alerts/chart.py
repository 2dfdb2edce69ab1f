"""An incident's evidence as a chart and its table: what was, beside what usually is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from guardops import shown
from guardops.charts import Chart, Column, Frame, Line, line_chart
from runs.reports.metrics import Bucket
from runs.reports.panels import axis

from .evidence import Evidence, Unit
from .links import runs_between

if TYPE_CHECKING:
    from runs.models import Incident

# Names stand at the ends of lines: more room there than for "p99".
_FRAMES = (Frame(830, 230, 44, 124, 12, 26, labels=8), Frame(340, 210, 40, 116, 12, 26, labels=3))
_LABEL_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 240)


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 or value == int(value) else f"{value:.1f} %"


def _usd(value: float) -> str:
    return shown.money(Decimal(str(value)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


_SAID: dict[Unit, Callable[[float], str]] = {"percent": _percent, "usd": _usd}
_LEAST: dict[Unit, float] = {"usd": 0.001, "percent": 0.5}


@dataclass(frozen=True, slots=True)
class Row:
    """One column of the chart in its table."""

    title: str
    href: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The chart and the same numbers as a table, the newest first."""

    chart: Chart
    names: tuple[str, ...]
    rows: tuple[Row, ...]


def draw(evidence: Evidence, incident: Incident) -> Drawn | None:
    """Draw the evidence in the viewer's zone; None where it holds no series."""
    moments = evidence.moments
    if not moments:
        return None
    length = timedelta(seconds=evidence.step_s)
    buckets = [Bucket(moment, moment + length) for moment in moments]
    columns = axis.columns(buckets, length, lambda bucket: runs_between(incident, bucket.start, bucket.end))
    say = _SAID.get(evidence.unit, _number)
    lines = [
        Line(
            "line-p50" if series.usual else "line-p99",
            shown.visible_text(series.name),
            _filled(series.values, len(columns)),
        )
        for series in evidence.series
    ]
    if evidence.threshold is not None:
        lines.append(Line("line-p95", "Limit", [evidence.threshold] * len(columns)))
    lines.sort(key=_last, reverse=True)  # as they end on the right, so that no name lies across another
    chart = line_chart(
        shown.visible_text(evidence.title or "What was seen"),
        columns,
        lines,
        label_steps=axis.LABEL_STEPS.get(length, _LABEL_STEPS),
        say=say,
        least=_LEAST.get(evidence.unit, 1),
        frames=_FRAMES,
    )
    return Drawn(chart, tuple(line.name for line in lines), _rows(columns, lines, say))


def _last(line: Line) -> float:
    return next((value for value in reversed(line.values) if value is not None), 0)


def _filled(values: Sequence[float | None], columns: int) -> list[float | None]:
    """Return a value for each column: a series that is shorter says nothing of the last ones."""
    return [*values[:columns], *[None] * (columns - len(values))]


def _rows(columns: Sequence[Column], lines: Sequence[Line], say: Callable[[float], str]) -> tuple[Row, ...]:
    return tuple(
        Row(
            column.title,
            column.href,
            tuple("–" if (value := line.values[place]) is None else say(value) for line in lines),
        )
        for place, column in reversed(list(enumerate(columns)))
    )
