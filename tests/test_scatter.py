"""The chart of dots: where they lie, how large they are, and which are named."""

from __future__ import annotations

import pytest

from guardops.scatter import HIGH, LARGEST, SMALLEST, Point, Scatter, scatter_chart


def wide(*points: Point) -> Scatter:
    return scatter_chart("Lift", "tenants", points).drawings[0]


def point(x: int = 3, ratio: float = 2.0, weight: float = 0.1, name: str = "a.example") -> Point:
    return Point(x, ratio, weight, name, name, "/sources/")


def test_a_ratio_above_one_lies_above_the_line_and_tenfold_steps_are_equally_far() -> None:
    picture = wide(point(ratio=1), point(ratio=10), point(ratio=100))
    [one, ten, hundred] = [next(d.y for d in picture.dots if d.point.ratio == r) for r in (1, 10, 100)]

    assert one == picture.even
    assert hundred < ten < one
    assert one - ten == pytest.approx(ten - hundred, abs=0.2)


def test_a_dots_area_is_its_weight() -> None:
    sizes = {
        dot.point.weight: dot.size for dot in wide(point(weight=0), point(weight=1), point(weight=7)).dots
    }

    assert sizes == {0: SMALLEST, 1: LARGEST, 7: LARGEST}


def test_what_lies_beyond_the_axis_is_drawn_at_its_edge() -> None:
    picture = wide(point(ratio=HIGH * 50), point(ratio=0.0001))

    assert all(picture.frame.top <= dot.y <= picture.frame.plot_bottom for dot in picture.dots)


def test_names_lie_on_no_other_name_and_within_the_picture() -> None:
    many = [point(x=9, ratio=3, name=f"source-{number}.example") for number in range(9)]
    picture = wide(point(x=1), *many, point(x=12, name="x" * 200))

    assert sum(bool(dot.label) for dot in picture.dots if dot.point.x == 9) <= 1
    assert all(dot.label_x + 6 * len(dot.label) <= picture.frame.width for dot in picture.dots if dot.label)


def test_counts_of_tenants_are_whole_on_the_axis_however_many_there_are() -> None:
    picture = wide(point(x=3), point(x=1_400))

    assert len(picture.x_ticks) <= picture.frame.labels + 1
    assert all(tick.label.replace(",", "").isdigit() for tick in picture.x_ticks)


def test_a_chart_without_dots_still_has_its_axes() -> None:
    assert wide().y_ticks
