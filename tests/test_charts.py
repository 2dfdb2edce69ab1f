"""Charts: what is drawn where, and what the markup may hold."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from django.template import Context, Template

from guardops.charts import Chart, Column, Layer, Line, line_chart, sparkline, split_bar, stacked_bars

STEPS = (1, 2, 3, 6, 12)
SVG = "{http://www.w3.org/2000/svg}"


def make_columns(count: int, *, partial: bool = False) -> list[Column]:
    return [
        Column(f"{i:02}:00", f"hour {i}", f"/runs/?hour={i}", i, partial and i == count - 1)
        for i in range(count)
    ]


def make_layer(css: str, values: Sequence[int]) -> Layer:
    return Layer(css, css.removeprefix("k-"), values, [f"/runs/?{css}={i}" for i in range(len(values))])


def make_bars(*layers: Sequence[int], **options: object) -> Chart:
    drawn = [
        make_layer(f"k-{name}", values)
        for name, values in zip(("cycle", "error", "budget"), layers, strict=False)
    ]
    columns = make_columns(len(layers[0]), partial=bool(options.pop("partial", False)))
    return stacked_bars("Halts", columns, drawn, noun="halts", label_steps=STEPS, **options)  # type: ignore[arg-type]


def render(chart: Chart) -> str:
    return Template("{% load charts %}{% chart drawn %}").render(Context({"drawn": chart}))


def parse(chart: Chart) -> ElementTree.Element:
    html = render(chart).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_segments_stand_on_each_other_and_keep_their_proportions() -> None:
    wide = make_bars([10, 5], [20, 0]).drawings[0]
    low, high = wide.slots[0].marks

    assert low.y + low.height == pytest.approx(wide.frame.plot_bottom, abs=0.2)
    assert high.y + high.height == pytest.approx(low.y, abs=0.2)
    assert high.height == pytest.approx(2 * low.height, abs=0.3)


def test_count_of_nothing_draws_no_segment() -> None:
    assert [len(slot.marks) for slot in make_bars([1, 0], [0, 0]).drawings[0].slots] == [1, 0]


def test_every_mark_is_a_link_with_a_title_in_both_drawings() -> None:
    root = parse(make_bars([1, 2], [3, 4]))
    links = root.findall(f".//{SVG}a")

    assert len(links) == 2 * (2 + 4)
    assert all(link.get("href", "").startswith("/runs/?") and link.findtext(f"{SVG}title") for link in links)
    assert not root.findall(f".//{SVG}rect[@class='mark k-cycle'][@style]")


def test_titles_name_the_time_the_part_and_its_count() -> None:
    titles = {title.text for title in parse(make_bars([1, 1200], [3, 4])).iter(f"{SVG}title")}

    assert {"hour 1: cycle 1,200", "hour 1: 1,204 halts", "hour 0: error 3"} <= titles


def test_partial_column_is_faded() -> None:
    classes = [rect.get("class") for rect in parse(make_bars([1, 1], partial=True)).iter(f"{SVG}rect")]

    assert classes.count("mark k-cycle partial") == 2
    assert classes.count("mark k-cycle") == 2


def test_markup_holds_no_style_and_escapes_what_it_is_given() -> None:
    column = Column('<b>"', "a<script>", 'javascript:"', 0)
    html = render(
        stacked_bars("x", [column], [Layer("k-x", "<i>", [1], ['"><script>'])], noun="&", label_steps=STEPS)
    )

    assert not re.search(r"<script|<b>|<i>|style=|\"javascript:\"\"", html)
    assert "a&lt;script&gt;: &lt;i&gt; 1" in html


@pytest.mark.parametrize("highest", [1, 2, 7, 143, 999, 123_456])
def test_axis_has_few_round_ticks_and_holds_every_bar(highest: int) -> None:
    drawing = make_bars([highest, 0]).drawings[0]

    assert 2 <= len(drawing.y_ticks) <= 6
    assert len({tick.label for tick in drawing.y_ticks}) == len(drawing.y_ticks)
    assert drawing.slots[0].marks[0].y >= drawing.frame.top


def test_labels_of_time_stand_at_round_ordinals_and_fit() -> None:
    wide, phone = make_bars([1] * 24).drawings

    assert [tick.label for tick in wide.x_ticks] == [f"{hour:02}:00" for hour in range(0, 24, 3)]
    assert [tick.label for tick in phone.x_ticks] == [f"{hour:02}:00" for hour in range(0, 24, 6)]


def test_baseline_raises_the_axis_and_breaks_where_unknown() -> None:
    drawing = make_bars([1, 1, 1, 1], baseline=[90.5, 80.0, None, 70.0]).drawings[0]

    assert int(drawing.y_ticks[-1].label) >= 91
    assert drawing.baseline.count("M") == 2


def test_lines_break_at_gaps_and_a_lone_point_stays_visible() -> None:
    chart = line_chart(
        "Steps", make_columns(4), [Line("line-p50", "p50", [3, None, 4, 5])], label_steps=STEPS
    )
    path = chart.drawings[0].strokes[0].path

    assert re.fullmatch(r"M[\d.]+,[\d.]+ZM[\d.]+,[\d.]+L[\d.]+,[\d.]+", path)


def test_labels_at_line_ends_do_not_overlap() -> None:
    lines = [
        Line("line-p99", "p99", [40, 39]),
        Line("line-p95", "p95", [38, 39]),
        Line("line-p50", "p50", [38, 38]),
    ]
    drawing = line_chart("Steps", make_columns(2), lines, label_steps=STEPS, cap=40).drawings[0]
    heights = [drawing.cap.at if drawing.cap else 0.0, *(stroke.label_y for stroke in drawing.strokes)]

    assert all(below - above >= 12 for above, below in itertools.pairwise(heights))
    assert [stroke.label for stroke in drawing.strokes] == ["p99 39", "p95 39", "p50 38"]


def test_line_without_values_is_not_drawn() -> None:
    chart = line_chart("Steps", make_columns(2), [Line("line-p99", "p99", [None, None])], label_steps=STEPS)

    assert chart.drawings[0].strokes == ()


def test_column_that_is_not_over_is_not_said_to_be_empty() -> None:
    columns = make_columns(2, partial=True)
    chart = line_chart("Steps", columns, [Line("line-p99", "p99", [None, None])], label_steps=STEPS)

    titles = [slot.title for slot in chart.drawings[0].slots]
    assert titles == ["hour 0: none", "hour 1: in part, so not drawn"]


def test_sparkline_spans_its_box_and_needs_two_values() -> None:
    assert sparkline([1.0, 3.0]) == "M0,19L100,3"
    assert sparkline([None, 3.0]) == ""
    assert sparkline([0.0, 0.0]) == "M0,27L100,27"


def test_split_bar_leaves_out_nothings_and_fills_its_length() -> None:
    parts = split_bar([("a", 30.0, ""), ("b", 0.0, ""), ("c", 10.0, "")])

    assert [(part.css, part.x, part.width) for part in parts] == [("a", 0.0, 750.0), ("c", 750.0, 250.0)]
    assert split_bar([("a", 0.0, "")]) == ()
