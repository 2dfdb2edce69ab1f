"""A chart of dots: a whole number along the bottom, a ratio upwards on a logarithmic scale.

Like the others (`guardops.charts`) it is drawn twice, each dot is a link with a title, colours are classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from guardops.charts import Frame, Tick

FRAMES = (Frame(830, 240, 44, 20, 14, 40, labels=12), Frame(340, 240, 40, 14, 14, 40, labels=6))
SMALLEST, LARGEST = 5.0, 12.0  # half the width of a dot
LOW, HIGH = 0.1, 1000.0
"""Ratios beyond these are drawn at the edge; their titles say what they are."""

_NAME_HEIGHT, _CHARACTER = 14.0, 6.6
_RATIOS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True, slots=True)
class Point:
    """What a dot stands for; ``weight`` (0 to 1) is its area, a ``square`` is told apart from a round one."""

    x: int
    ratio: float
    weight: float
    name: str
    title: str
    href: str
    square: bool = False
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    point: Point
    x: float
    y: float
    size: float
    label: str = ""  # empty where it would lie on another

    @property
    def left(self) -> float:
        return round(self.x - self.size, 1)

    @property
    def top(self) -> float:
        return round(self.y - self.size, 1)

    @property
    def side(self) -> float:
        return round(2 * self.size, 1)

    @property
    def label_x(self) -> float:
        return round(self.x + self.size + 5, 1)


@dataclass(frozen=True, slots=True)
class Scatter:
    """One picture; ``even`` is the height of the ratio 1."""

    css: str
    frame: Frame
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    even: float


@dataclass(frozen=True, slots=True)
class ScatterChart:
    template: str
    name: str
    x_name: str
    drawings: tuple[Scatter, ...]


def scatter_chart(name: str, x_name: str, points: Sequence[Point]) -> ScatterChart:
    """Draw the points, the smallest on top, named where there is room: those with the highest ratio first."""
    drawings = [
        _drawing(css, frame, points) for css, frame in zip(("chart-wide", "chart-phone"), FRAMES, strict=True)
    ]
    return ScatterChart("charts/scatter.html", name, x_name, tuple(drawings))


def _drawing(css: str, frame: Frame, points: Sequence[Point]) -> Scatter:
    ratios = [_within(point.ratio) for point in points]
    ticks = _ratio_ticks(min([1.0, *ratios]), max([1.0, *ratios]))
    first, last = min((point.x for point in points), default=0), max((point.x for point in points), default=0)
    first, last = max(0, first - 1), last + 1

    def height(ratio: float) -> float:
        part = math.log(ratio / ticks[0]) / math.log(ticks[-1] / ticks[0])
        return round(frame.plot_bottom - part * frame.plot_height, 1)

    def across(value: float) -> float:
        return round(frame.left + (value - first) / (last - first) * (frame.plot_right - frame.left), 1)

    dots = [
        Dot(point, across(point.x), height(_within(point.ratio)), _size(point.weight)) for point in points
    ]
    step = -(-(last - first) // frame.labels)
    return Scatter(
        css,
        frame,
        tuple(Tick(height(ratio), f"{ratio:g}×") for ratio in ticks),
        tuple(Tick(across(value), f"{value:,}") for value in range(first + 1, last + 1, step)),
        tuple(sorted(_named(dots, frame), key=lambda dot: -dot.size)),
        height(1.0),
    )


def _within(ratio: float) -> float:
    return min(max(ratio, LOW), HIGH)


def _size(weight: float) -> float:
    return round(SMALLEST + (LARGEST - SMALLEST) * math.sqrt(min(max(weight, 0.0), 1.0)), 1)


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Return the marks of the axis from the last one below ``low`` to the first one above ``high``."""
    first = max(place for place, ratio in enumerate(_RATIOS) if ratio <= low)
    last = min(place for place, ratio in enumerate(_RATIOS) if ratio >= high)
    return list(_RATIOS[min(first, 1) : max(last, 3) + 1])


def _named(dots: Sequence[Dot], frame: Frame) -> list[Dot]:
    """Give dots their names where these lie on no other dot and no other name."""
    taken = [(dot.left, dot.top, dot.left + dot.side, dot.top + dot.side) for dot in dots]
    named = []
    for dot in sorted(dots, key=lambda dot: -dot.point.ratio):
        text = dot.point.name if len(dot.point.name) <= 28 else f"{dot.point.name[:27]}…"
        box = (
            dot.label_x,
            dot.y - _NAME_HEIGHT / 2,
            dot.label_x + len(text) * _CHARACTER,
            dot.y + _NAME_HEIGHT / 2,
        )
        if box[2] > frame.width or any(_overlap(box, other) for other in taken):
            named.append(dot)
            continue
        taken.append(box)
        named.append(Dot(dot.point, dot.x, dot.y, dot.size, text))
    return named


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
