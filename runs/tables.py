"""Tables of runs. Rows come sorted and cut to a page (`runs.keyset`); a table only shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import django_tables2 as tables
from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2.data import TableListData

from guardops import shown
from guardops.guard.events import StepUnit
from guardops.templatetags.shown import visible, when

from .keyset import Sort
from .reasons_text import headline, unit_name
from .templatetags.runs import any_marks, marks, outcome, reason

if TYPE_CHECKING:
    from datetime import datetime

    from .models import Run


class SortedRows(TableListData):
    """Rows in the order that the page was read in; a table's own sorting would only see one page."""

    def order_by(self, aliases: Sequence[str]) -> None:
        return


class Cell(tables.Column):
    """A column whose cells carry their label, for the cards that rows become on a phone.

    ``hollow`` says of which runs a cell holds nothing: a card leaves it out.
    """

    def __init__(
        self,
        label: str,
        *,
        kind: str = "",
        hollow: Callable[[Run], bool] | None = None,
        sortable: bool = False,
        **options: Any,
    ) -> None:
        def hollow_class(record: Run) -> str | None:
            return f"{kind} none".strip() if hollow and hollow(record) else kind or None

        # A plain text where it is the same in every row: tables2 inspects what it has to call.
        cell_class = hollow_class if hollow else kind or None
        super().__init__(
            label,
            orderable=sortable,
            initial_sort_descending=sortable,
            empty_values=(),
            attrs={"th": {"class": kind or None}, "td": {"class": cell_class, "data-l": label}},
            **options,
        )


class RunTable(tables.Table):
    """Ended runs. ``tenants`` gives the tenant of each row by its id."""

    at = Cell("Ended", kind="nowrap", sortable=True)
    job_type = Cell("Job type")
    tenant_id = Cell("Tenant", kind="nowrap")
    outcome = Cell("Outcome")
    halt_reason = Cell("Halt reason", kind="span", hollow=lambda run: not run.halt_reason)
    steps = Cell("Steps", kind="num", sortable=True)
    cost = Cell("Cost", kind="num", sortable=True)
    duration = Cell("Took", kind="num", sortable=True, accessor="duration_ms")
    marks = Cell("Loop marks", kind="span", hollow=lambda run: not any_marks(run), accessor="duplicates")
    release = Cell("Release", hollow=lambda run: not run.release)

    class Meta:
        order_by_field = "sort"

    caption = "Ended runs"
    kind = "stack-pairs"
    region = "runs"
    """The id of the element that htmx swaps for another order."""

    def __init__(self, runs: Sequence[Run], *, sort: Sort, tenants: Mapping[int, str], now: datetime) -> None:
        super().__init__(SortedRows(list(runs)), order_by=str(sort))
        self.tenants, self.now = tenants, now

    def render_at(self, record: Run) -> SafeString:
        slug = self.render_tenant_id(record.tenant_id)
        query = f"?tenant={slug}" if len(self.tenants) > 1 and slug else ""
        return format_html(
            '<a class="n" href="{}{}" title="{}">{}</a>',
            reverse("runs:detail", args=[record.run_id]),
            query,
            headline(record),
            moment(record.at, self.now),
        )

    def render_job_type(self, value: str) -> SafeString:
        return visible(value)

    def render_tenant_id(self, value: int) -> str:
        # A tenant made since the page began to load has no name here yet.
        return self.tenants.get(value, "")

    def render_outcome(self, value: str) -> SafeString:
        return outcome(value)

    def render_halt_reason(self, value: str) -> SafeString:
        return reason(value)

    def render_steps(self, record: Run) -> SafeString:
        cap = "" if record.step_cap is None else f"of {record.step_cap:,}"
        unit = "" if record.step_unit == StepUnit.TOOL_CALL else unit_name(record.steps, record.step_unit)
        return format_html(
            '<span>{} <span class="muted">{}</span></span>',
            shown.count(record.steps),
            f"{cap} {unit}".strip(),
        )

    def render_cost(self, record: Run) -> str:
        return shown.money(record.cost)

    def render_duration(self, value: int) -> str:
        return shown.duration(timedelta(milliseconds=value))

    def render_marks(self, record: Run) -> SafeString:
        return marks(record)

    def render_release(self, value: str) -> SafeString | str:
        return format_html("<code>{}</code>", visible(value)) if value else "–"


def moment(at: datetime, now: datetime) -> SafeString:
    """Return a time as ``8 min ago 03:06:32``, with its day where that is not today."""
    return when(template.Context({"as_of": now}), at)
