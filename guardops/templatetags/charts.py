"""The one tag that draws a chart (`guardops.charts`), and its helpers for what a chart has hundreds of."""

from __future__ import annotations

from collections.abc import Iterator

from django import template
from django.template.loader import render_to_string
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from guardops.charts import Chart, Drawing

register = template.Library()

# Formatted, not looped over in the template: a stack has up to a thousand marks, and a mark here costs 5 µs
# where a template's loop costs 40. A slot can be reached by keyboard; its segments are in the chart's table.
_SLOT = (
    '<a href="{}" tabindex="{}"><title>{}</title>'
    '<rect class="slot" x="{}" y="{}" width="{}" height="{}"/>{}</a>'
)
_MARK = (
    '<a href="{}" tabindex="-1"><title>{}</title><rect class="{}" x="{}" y="{}" width="{}" height="{}"/></a>'
)
_DOT = '<circle class="point" cx="{}" cy="{}" r="3"/>'


@register.simple_tag
def chart(drawn: Chart) -> SafeString:
    """Both pictures of the chart, of which the style sheet shows one."""
    return render_to_string(drawn.template, {"chart": drawn})


@register.simple_tag
def bars(drawing: Drawing) -> SafeString:
    """The segments of stacks, each a link with a title, on links that are as high as the plot."""
    return format_html_join("\n", _SLOT, _slots(drawing)) + format_html_join("\n", _MARK, _marks(drawing))


@register.simple_tag
def points(drawing: Drawing) -> SafeString:
    """The links over lines, one a column, with a dot on each line."""
    return format_html_join("\n", _SLOT, _slots(drawing))


def _slots(drawing: Drawing) -> Iterator[tuple[object, ...]]:
    frame = drawing.frame
    for slot in drawing.slots:
        dots = format_html_join("", _DOT, ((slot.middle, at) for at in slot.points))
        reachable = "0" if slot.marks or slot.points else "-1"
        yield (
            slot.column.href,
            reachable,
            slot.title,
            slot.x,
            frame.top,
            slot.width,
            frame.plot_height,
            dots,
        )


def _marks(drawing: Drawing) -> Iterator[tuple[object, ...]]:
    for slot in drawing.slots:
        faded = " partial" if slot.column.partial else ""
        for mark in slot.marks:
            css = f"mark {mark.css}{faded}"
            yield (mark.href, mark.title, css, slot.bar_x, mark.y, slot.bar_width, mark.height)
