"""Charts drawn on the server as SVG: the geometry here, the markup in ``templates/charts/``.

Scales, stacks and ticks are detroit's (D3's, in Python); its own elements cost a quarter of a millisecond a
mark, formatting a fiftieth of that. A chart is drawn twice, wide and for a phone, because SVG text scales
with its picture; the style sheet shows one of them. Colours are classes (``k-cycle``), every mark is a link
with a title, and nothing carries a style attribute (the content security policy forbids it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import detroit

_MAX_STEPS = 5  # of the vertical axis, so six lines
_BAR_SHARE = 0.72  # of a slot
_LABEL_GAP = 13.0  # pixels between the middles of two labels at the ends of lines


@dataclass(frozen=True, slots=True)
class Column:
    """One slot on the axis of time: what its label and title say, and the list of all its rows."""

    label: str
    title: str
    href: str
    ordinal: int  # in columns since a midnight: labels stand where the step between them divides it
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One colour of a stack: a count and a link for each column."""

    css: str
    name: str
    values: Sequence[int]
    hrefs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a value for each column, None where there is nothing to say."""

    css: str
    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a drawing and of the margins round its plot, in pixels."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    labels: int  # that fit on the axis of time

    @property
    def plot_right(self) -> int:
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        return self.height - self.bottom

    @property
    def plot_height(self) -> int:
        return self.plot_bottom - self.top

    @property
    def tick_text_y(self) -> int:
        return self.plot_bottom + 17


BAR_FRAMES = (Frame(830, 254, 34, 6, 12, 26, labels=9), Frame(340, 220, 30, 4, 12, 26, labels=5))
LINE_FRAMES = (Frame(560, 206, 26, 56, 12, 26, labels=6), Frame(340, 200, 26, 56, 12, 26, labels=4))


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    y: float
    height: float
    css: str
    href: str
    title: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A column as drawn: the whole slot is a link, the bar's segments lie on it."""

    column: Column
    x: float
    width: float
    bar_x: float
    bar_width: float
    title: str
    marks: tuple[Mark, ...] = ()
    points: tuple[float, ...] = ()  # heights of the lines here

    @property
    def middle(self) -> float:
        return _px(self.x + self.width / 2)


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line as drawn, with the label at its end."""

    css: str
    path: str
    label: str
    label_y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """One picture of a chart, ready for its template."""

    css: str
    frame: Frame
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    slots: tuple[Slot, ...]
    strokes: tuple[Stroke, ...] = ()
    baseline: str = ""
    cap: Tick | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Both pictures of a chart under the name that a screen reader says."""

    template: str
    name: str
    drawings: tuple[Drawing, ...]


def stacked_bars(
    name: str,
    columns: Sequence[Column],
    layers: Sequence[Layer],
    *,
    noun: str,
    label_steps: Sequence[int],
    baseline: Sequence[float | None] = (),
) -> Chart:
    """Draw counts stacked by layer, the first at the bottom, with a dotted baseline where one is given."""
    totals = [sum(layer.values[i] for layer in layers) for i in range(len(columns))]
    highest = max([1, *totals, *(math.ceil(value) for value in baseline if value is not None)])
    stacked = _stack(columns, layers)
    drawings = []
    for css, frame in zip(("chart-wide", "chart-phone"), BAR_FRAMES, strict=True):
        y, ticks = _y_axis(highest, frame)
        slots = []
        for i, column in enumerate(columns):
            marks = tuple(
                _segment(layer, i, column, stacked[k][i], y)
                for k, layer in enumerate(layers)
                if layer.values[i]
            )
            slots.append(_slot(frame, columns, i, f"{column.title}: {totals[i]:,} {noun}", marks=marks))
        drawings.append(
            Drawing(
                css,
                frame,
                ticks,
                _x_ticks(frame, columns, slots, label_steps),
                tuple(slots),
                baseline=_path(slots, baseline, y) if baseline else "",
            )
        )
    return Chart("charts/bars.html", name, tuple(drawings))


def line_chart(
    name: str,
    columns: Sequence[Column],
    lines: Sequence[Line],
    *,
    label_steps: Sequence[int],
    cap: int | None = None,
    say: Callable[[float], str] = "{:,}".format,
    least: float = 1,
    frames: Sequence[Frame] = LINE_FRAMES,
) -> Chart:
    """Draw lines over time, each named at its end, with the cap dashed where one is given.

    ``say`` writes a value; what is smaller than ``least`` gets no tick of its own. ``frames`` are the wide
    picture's and the phone's.
    """
    values = [value for line in lines for value in line.values if value is not None]
    drawings = []
    for css, frame in zip(("chart-wide", "chart-phone"), frames, strict=True):
        y, ticks = _y_axis(max([least, *values, cap or 0]), frame, least, say if least < 1 else _short)
        slots = [
            _slot(
                frame,
                columns,
                i,
                _line_title(column, lines, i, say),
                points=tuple(_px(y(line.values[i])) for line in lines if line.values[i] is not None),
            )
            for i, column in enumerate(columns)
        ]
        drawings.append(
            Drawing(
                css,
                frame,
                ticks,
                _x_ticks(frame, columns, slots, label_steps),
                tuple(slots),
                strokes=_strokes(slots, lines, y, cap, say),
                cap=Tick(_px(y(cap)), f"cap {cap:,}") if cap else None,
            )
        )
    return Chart("charts/lines.html", name, tuple(drawings))


def sparkline(values: Sequence[float | None]) -> str:
    """Return the path of a small line without axes, 100 wide and 30 high; empty under two values."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    # From zero, unless the line moves so little above it that nothing would be seen.
    bottom = low if low >= high / 2 else 0
    y = detroit.scale_linear().set_domain([bottom, high or 1]).set_range([27, 3])
    x = detroit.scale_linear().set_domain([0, len(values) - 1]).set_range([0, 100])
    return _line([(x(i), None if value is None else y(value)) for i, value in enumerate(values)])


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a split bar: where it begins and how wide it is, of 1,000."""

    css: str
    x: float
    width: float
    title: str


def split_bar(parts: Sequence[tuple[str, float, str]]) -> tuple[Part, ...]:
    """Cut a bar of 1,000 into parts of ``(css, value, title)`` by their values."""
    total = sum(value for _, value, _ in parts)
    cut: list[Part] = []
    x = 0.0
    for css, value, title in parts:
        if value > 0:
            width = 1000 * value / total
            cut.append(Part(css, _px(x), _px(width), title))
            x += width
    return tuple(cut)


def _px(value: float) -> float:
    return round(float(value), 1)


def _stack(columns: Sequence[Column], layers: Sequence[Layer]) -> list[list[tuple[float, float]]]:
    rows = [{layer.css: layer.values[i] for layer in layers} for i in range(len(columns))]
    series = detroit.stack().set_keys([layer.css for layer in layers])(rows)
    return [[(pair[0], pair[1]) for pair in one] for one in series]


def _segment(layer: Layer, i: int, column: Column, ends: tuple[float, float], y: Any) -> Mark:
    low, high = ends
    top = _px(y(high))
    title = f"{column.title}: {layer.name} {layer.values[i]:,}"
    return Mark(top, _px(y(low) - top), layer.css, layer.hrefs[i], title)


def _y_axis(
    highest: float, frame: Frame, least: float = 1, say: Callable[[float], str] | None = None
) -> tuple[Any, tuple[Tick, ...]]:
    steps = (max(float(least), detroit.tick_step(0, highest, count)) for count in range(_MAX_STEPS, 0, -1))
    step = next(step for step in steps if math.ceil(highest / step) <= _MAX_STEPS)
    top = math.ceil(highest / step) * step
    y = detroit.scale_linear().set_domain([0, top]).set_range([frame.plot_bottom, frame.top])
    count = round(top / step)
    label = say or _short
    return y, tuple(Tick(_px(y(k * step)), label(k * step)) for k in range(count + 1))


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1_000:g}k" if value >= 10_000 else f"{value:,.0f}"


def _slot(frame: Frame, columns: Sequence[Column], i: int, title: str, **drawn: Any) -> Slot:
    width = (frame.plot_right - frame.left) / len(columns)
    x = frame.left + i * width
    inset = width * (1 - _BAR_SHARE) / 2
    return Slot(columns[i], _px(x), _px(width), _px(x + inset), _px(width - 2 * inset), title, **drawn)


def _x_ticks(
    frame: Frame, columns: Sequence[Column], slots: Sequence[Slot], steps: Sequence[int]
) -> tuple[Tick, ...]:
    step = next((step for step in steps if len(columns) / step <= frame.labels), steps[-1])
    return tuple(
        Tick(slot.middle, column.label)
        for slot, column in zip(slots, columns, strict=True)
        if column.ordinal % step == 0
    )


def _line_title(column: Column, lines: Sequence[Line], i: int, say: Callable[[float], str]) -> str:
    known = [(line.name, line.values[i]) for line in lines]
    said = ", ".join(f"{name} {say(value)}" for name, value in known if value is not None)
    nothing = "in part, so not drawn" if column.partial else "none"
    return f"{column.title}: {said or nothing}"


def _strokes(
    slots: Sequence[Slot], lines: Sequence[Line], y: Any, cap: int | None, say: Callable[[float], str]
) -> tuple[Stroke, ...]:
    """Draw the lines; labels at their ends are pushed apart, downwards from the cap's."""
    free = y(cap) + _LABEL_GAP if cap else 0.0
    strokes = []
    for line in lines:
        last = next((value for value in reversed(line.values) if value is not None), None)
        if last is None:
            continue
        at = max(y(last), free)
        free = at + _LABEL_GAP
        strokes.append(Stroke(line.css, _path(slots, line.values, y), f"{line.name} {say(last)}", _px(at)))
    return tuple(strokes)


def _path(slots: Sequence[Slot], values: Sequence[float | None], y: Any) -> str:
    return _line(
        [
            (slot.middle, None if value is None else y(value))
            for slot, value in zip(slots, values, strict=True)
        ]
    )


def _line(points: Sequence[tuple[float, float | None]]) -> str:
    """Return the path through the points, broken where one has no height; a point alone becomes a dot."""
    path: list[str] = []
    drawing = False
    for i, (x, y) in enumerate(points):
        if y is None:
            drawing = False
            continue
        path.append(f"{'L' if drawing else 'M'}{_px(x):g},{_px(y):g}")
        if not drawing and (i + 1 == len(points) or points[i + 1][1] is None):
            path.append("Z")  # round caps make a dot of it
        drawing = True
    return "".join(path)
