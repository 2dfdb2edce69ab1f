"""The runs list: filters, one keyset page, and the count that goes with them. One URL, two renderings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.tenants.access import Visible, visible

from ..filters import RunFilter
from ..keyset import Page, read_page
from ..models import Run
from ..querysets import ALL_TENANTS, RunQuerySet
from ..tables import RunTable

if TYPE_CHECKING:
    from ..filters import RunFilterForm

COUNTED_UP_TO = 10_000
EMPTY = Page(runs=(), next=None, previous=None)


@dataclass(frozen=True, slots=True)
class Total:
    """How many runs a list holds: exact, or the ``number`` at which counting stopped."""

    number: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """What the page shows. ``state``: rows, first (no run ever), filtered (none match), invalid, or slow."""

    form: RunFilterForm
    state: str
    page: Page = EMPTY
    total: Total = Total(0)


@require_safe
@vary_on_headers("HX-Request")
def run_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    seen = visible(request.user)
    listing = read_listing(seen, request.GET, now=now, zone=timezone.get_current_timezone_name())
    tenants = {tenant.pk: tenant.slug for tenant in seen.tenants}
    context = {
        "as_of": now,
        "listing": listing,
        "form": listing.form,
        "tenants": seen.tenants,
        "table": RunTable(listing.page.runs, sort=listing.form.order, tenants=tenants, now=now),
    }
    fragment = request.htmx and not (request.htmx.boosted or request.htmx.history_restore_request)
    return render(
        request,
        "runs/_list.html" if fragment else "runs/list.html",
        context,
        status=503 if listing.state == "slow" else 200,
    )


def read_listing(seen: Visible, params: QueryDict, *, now: datetime, zone: str) -> Listing:
    """Return one page of the runs that ``params`` ask for (`runs.filters`), with how many there are in all.

    Raises Http404 for a tenant that is not among those ``seen``.
    """
    slug = params.get("tenant", "")
    tenants = [seen.by_slug(slug).pk] if slug else seen.ids
    chosen = RunFilter(params, Run.objects.for_tenants(tenants), now=now, zone=zone)
    if chosen.form.errors:
        return Listing(chosen.form, "invalid")
    if not tenants:
        return Listing(chosen.form, "nobody")
    try:
        return _read(chosen)
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        return Listing(chosen.form, "slow")


def _read(chosen: RunFilter) -> Listing:
    form = chosen.form
    after, before = form.cleaned_data["after"], form.cleaned_data["before"]
    with snapshot():
        page = read_page(chosen.qs.without_detail(), form.order, after=after, before=before, size=form.size)
        if page.runs:
            return Listing(form, "rows", page, count_runs(chosen))
        if after or before:
            return Listing(form, "past")
        return Listing(form, "filtered" if chosen.queryset.exists() else "first")
