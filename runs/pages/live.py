"""The list of live runs, the nearest to a limit first. All that it is narrowed to is in its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.db.models import F
from django.db.models.fields.tuple_lookups import Tuple, TupleLessThan
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.addresses import first_page, tidy, without
from guardops.shown import visible_text
from guardops.tenants.access import Visible, visible
from runs.filters import NameField
from runs.keyset import MAX_PAGE_SIZE, PAGE_SIZE
from runs.models import LiveRun
from runs.pages.limits import Pressure, label_of
from runs.querysets import NEAR_LIMIT_PERCENT, SILENT_AFTER, LiveRunQuerySet
from runs.reports.asked import tenant_ids_of
from runs.reports.live import live_runs
from runs.reports.pages import PageRequest

if TYPE_CHECKING:
    from django.http import QueryDict


STATES = [("pressure", "Near a limit"), ("silent", "Silent")]
"""At 80 % of a limit or above; without a sign of life for five minutes."""


class PlaceField(forms.CharField):
    """A place in the list: pressure, run id and tenant of the run that the page begins after."""

    default_error_messages = {"invalid": "This page of the list cannot be found; start from its first page."}

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            pressure, run_id, tenant_id = text.split("-")
            place = int(pressure), UUID(run_id), int(tenant_id)
        except ValueError:
            place = None
        if place is None or not (0 <= place[0] <= 10_000 and 0 <= place[2] < 2**31):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return place


class LiveFilterForm(forms.Form):
    """What the list is narrowed to; all of it together."""

    job = NameField(label="Job type", max_length=128, required=False)
    release = NameField(label="Release", max_length=260, required=False)
    state = forms.ChoiceField(label="State", choices=STATES, required=False)
    limit = NameField(label="Nearest limit", max_length=64, required=False)
    root = NameField(label="Task", max_length=128, required=False)
    size = forms.IntegerField(label="Rows", min_value=1, max_value=MAX_PAGE_SIZE, required=False)
    after = PlaceField(max_length=60, required=False)

    def narrow(self, tenant_ids: Sequence[int], now: datetime) -> LiveRunQuerySet:
        """Return the live runs of these tenants that match."""
        asked = self.cleaned_data
        runs = live_runs(tenant_ids, asked["job"], asked["release"])
        if asked["state"] == "pressure":
            runs = runs.under_pressure()
        elif asked["state"] == "silent":
            runs = runs.silent(now)
        if asked["limit"]:
            runs = runs.filter(pressure_limit=asked["limit"])
        return runs.of_task(asked["root"]) if asked["root"] else runs


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A live run in the list at ``now``."""

    run: LiveRun
    tenant: str
    now: datetime

    @property
    def is_silent(self) -> bool:
        return self.now - self.run.last_at > SILENT_AFTER

    @property
    def is_pressed(self) -> bool:
        return self.run.pressure >= NEAR_LIMIT_PERCENT

    @property
    def pressure(self) -> Pressure:
        return Pressure(label_of(self.run.pressure_limit), self.run.pressure / 100)


@dataclass(frozen=True, slots=True)
class LiveList:
    """One page. ``state`` is rows, first, filtered, past, invalid or nobody, as in the runs list."""

    form: LiveFilterForm
    state: str
    rows: Sequence[LiveRow] = ()
    total: int = 0
    next: str = ""


@require_safe
def live_list(request: PageRequest) -> HttpResponse:
    params, now, seen = tidy(request.GET), timezone.now(), visible(request.user)
    found = read_live_list(seen, params, now)
    context = {
        "found": found,
        "form": found.form,
        "as_of": now,
        "tenants": seen.tenants if len(seen.tenants) > 1 else (),
        "tenant": params.get("tenant", ""),
        "states": state_links(params),
        "narrowed": [
            (found.form.fields[name].label, params[name], f"?{without(first_page(params), name).urlencode()}")
            for name in ("job", "release", "limit", "root")
            if name in params
        ],
        "kept": [(name, visible_text(params[name])) for name in params if name not in ("tenant", "after")],
        "next": f"?{_with(params, after=found.next).urlencode()}",
        "first": f"?{first_page(params).urlencode()}",
    }
    return render(request, "runs/live.html", context)


def read_live_list(seen: Visible, params: QueryDict, now: datetime) -> LiveList:
    """Return one page of the live runs that ``params`` ask for, in at most three queries.

    Raises Http404 for a tenant that is not among those ``seen``.
    """
    tenant_ids = tenant_ids_of(params.get("tenant", ""), seen)
    form = LiveFilterForm(params)
    if not form.is_valid():
        return LiveList(form, "invalid")
    if not tenant_ids:
        return LiveList(form, "nobody")
    size, after = form.cleaned_data["size"] or PAGE_SIZE, form.cleaned_data["after"]
    matching = form.narrow(tenant_ids, now)
    page = matching.order_by("-pressure", "-run_id", "-tenant_id")
    if after:
        page = page.filter(TupleLessThan(Tuple(F("pressure"), F("run_id"), F("tenant_id")), after))
    runs = list(page.defer("detail", "sources", "pressures")[: size + 1])
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    rows = [LiveRow(run, slugs.get(run.tenant_id, ""), now) for run in runs[:size]]
    if not rows:
        any_live = LiveRun.objects.for_tenants(tenant_ids).exists()
        return LiveList(form, "past" if after else "filtered" if any_live else "first")
    more = len(runs) > size
    last = rows[-1].run
    place = f"{last.pressure}-{last.run_id.hex}-{last.tenant_id}" if more else ""
    return LiveList(form, "rows", rows, matching.count() if more or after else len(rows), place)


def state_links(params: QueryDict) -> list[tuple[str, str, bool]]:
    """Return the list's states as links: all, under pressure, silent."""
    chosen = params.get("state", "")
    plain = first_page(params)
    return [
        (label, f"?{_with(plain, state=value).urlencode()}", value == chosen)
        for value, label in [("", "All"), *STATES]
    ]


def _with(params: QueryDict, **values: str) -> QueryDict:
    changed = without(params, *values)
    for name, value in values.items():
        if value:
            changed[name] = value
    return changed
