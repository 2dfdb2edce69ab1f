"""Steps of completed, answered tasks: percentiles by job type and step unit, and one of them over time."""

from __future__ import annotations

from dataclasses import dataclass

from guardops.charts import Chart, Column, Line, line_chart
from runs.reports.metrics import MIN_RUNS_FOR_P99, Bucket, Steps, StepsRow, Window

from . import axis
from .links import Links, Value

_CENSORED_SHARE = 0.01  # of tasks near the cap: then the 99th percentile itself stands at the cap
_LOOSE_FACTOR = 2.5  # cap over p99

UNITS = {"tool_call": "tool calls", "turn": "turns", "superstep": "supersteps"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a row says of its cap: an icon, a state's colour and words."""

    icon: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class JobRow:
    steps: StepsRow
    unit: str
    reading: Reading
    shown: bool
    show_href: str
    tasks_href: str
    near_cap_href: str


@dataclass(frozen=True, slots=True)
class TimeRow:
    column: Column
    p50: int | None
    p95: int | None
    p99: int | None
    highest: int | None


@dataclass(frozen=True, slots=True)
class StepsPanel:
    rows: tuple[JobRow, ...]
    chart: Chart | None  # None in the table's view
    times: tuple[TimeRow, ...]
    shown_job: str
    shown_unit: str
    chart_href: str
    table_href: str


def steps_panel(steps: Steps, window: Window, links: Links, *, table: bool) -> StepsPanel:
    shown = steps.shown

    def href(bucket: Bucket) -> str:
        return links.runs(bucket.start, bucket.end, **_rows_of(shown) if shown else {})

    columns = axis.columns(steps.buckets, window.bucket, href)
    return StepsPanel(
        rows=tuple(_job_row(row, window, links, shown) for row in steps.rows),
        chart=_chart(steps, columns, window) if shown and not table else None,
        times=_times(steps, columns) if shown and table else (),
        shown_job=shown.job_type if shown else "",
        shown_unit=UNITS[shown.unit] if shown else "",
        chart_href=links.page(steps=None),
        table_href=links.page(steps="table"),
    )


def reading_of(row: StepsRow) -> Reading:
    """Judge a cap by the tasks that completed under it: one that cuts them hides the tail it is set by."""
    if row.cap is None:
        return Reading("same", "", "No cap")
    if row.tasks < MIN_RUNS_FOR_P99 or row.p99 is None:
        return Reading("clock", "", f"{row.tasks:,} of {MIN_RUNS_FOR_P99} runs")
    if (row.near_cap_share or 0.0) >= _CENSORED_SHARE:
        return Reading("hidden", "warn", "Censored")
    if row.cap >= _LOOSE_FACTOR * row.p99:
        return Reading("loose", "", "Loose")
    return Reading("ok", "ok", "Fits")


def _rows_of(row: StepsRow) -> dict[str, Value]:
    return {"completes": "1", "answered": "1", "job": row.job_type, "step_unit": row.unit}


def _job_row(row: StepsRow, window: Window, links: Links, shown: StepsRow | None) -> JobRow:
    same = shown is not None and (row.job_type, row.unit) == (shown.job_type, shown.unit)
    return JobRow(
        steps=row,
        unit=UNITS[row.unit],
        reading=reading_of(row),
        shown=same,
        show_href=links.page(steps_job=row.job_type, steps_unit=row.unit),
        tasks_href=links.runs(window.start, window.end, **_rows_of(row)),
        near_cap_href=links.runs(window.start, window.end, **_rows_of(row), near_cap="1"),
    )


def _chart(steps: Steps, columns: tuple[Column, ...], window: Window) -> Chart:
    lines = [
        _top_line(steps),
        Line("line-p95", "p95", _whole(steps, steps.p95)),
        Line("line-p50", "p50", _whole(steps, steps.p50)),
    ]
    cap = steps.shown.cap if steps.shown else None
    name = "Steps of completed tasks over time"
    return line_chart(name, columns, lines, label_steps=axis.LABEL_STEPS[window.bucket], cap=cap)


def _top_line(steps: Steps) -> Line:
    """The 99th percentile, or the highest where a bucket that is over had too few tasks to tell it."""
    whole = [
        i for i, bucket in enumerate(steps.buckets) if not bucket.partial and steps.highest[i] is not None
    ]
    if whole and all(steps.p99[i] is not None for i in whole):
        return Line("line-p99", "p99", _whole(steps, steps.p99))
    return Line("line-p99", "max", _whole(steps, steps.highest))


def _whole(steps: Steps, values: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Leave out buckets that are cut, whose few tasks would bend the lines, unless there are no others."""
    if all(bucket.partial for bucket in steps.buckets):
        return values
    return tuple(
        None if bucket.partial else value for bucket, value in zip(steps.buckets, values, strict=True)
    )


def _times(steps: Steps, columns: tuple[Column, ...]) -> tuple[TimeRow, ...]:
    rows = zip(columns, steps.p50, steps.p95, steps.p99, steps.highest, strict=True)
    return tuple(TimeRow(*row) for row in reversed(list(rows)))
