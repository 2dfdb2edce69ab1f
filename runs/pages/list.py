"""The runs list: filters, one keyset page, and the count that goes with them. One URL, two renderings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.db import OperationalError
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import push_url
from psycopg.errors import QueryCanceled

from guardops.addresses import first_page, tidy, wider
from guardops.export import MAX_ROWS
from guardops.guard.reasons import Reason
from guardops.htmx import HtmxRequest, wants_fragment
from guardops.shown import from_visible
from guardops.tenants.access import Visible, visible
from guardops.viewer import current_zone
from runs.filters import RunFilter
from runs.keyset import Page, read_page
from runs.models import Run
from runs.pages.chips import chips
from runs.pages.totals import Total, count_runs
from runs.reports.asked import tenant_ids_of
from runs.reports.facets import any_runs, read_job_types, read_releases
from runs.reports.metrics import Scope
from runs.reports.panels.filters import Pick, named, pick_of, range_pick
from runs.reports.reading import open_reading
from runs.retention.horizon import gone_before
from runs.tables import RunTable

if TYPE_CHECKING:
    from runs.filters import RunFilterForm
    from runs.reports.metrics import Window
    from runs.reports.reading import Reading


class Names(NamedTuple):
    """What ran in the window: what the bar offers."""

    job_types: Sequence[str]
    releases: Sequence[str]


EMPTY = Page(runs=(), next=None, previous=None)
NONE = Total(0)
NO_NAMES = Names((), ())


@dataclass(frozen=True, slots=True)
class Listing:
    """What the list shows.

    ``state`` is rows; or first (no run has ever ended), filtered (none matches), past (a page after the
    last), invalid (the filters make no sense), nobody (no tenant may be seen) or slow (the database gave up).
    """

    form: RunFilterForm
    state: str
    page: Page = EMPTY
    total: Total = NONE
    names: Names = NO_NAMES
    gone_before: datetime | None = None  # where the window begins before the runs that are still kept


@require_safe
@vary_on_headers("HX-Request")
def run_list(request: HtmxRequest) -> HttpResponse:
    fragment = wants_fragment(request)
    params = tidy(request.GET)
    address = f"{request.path}?{params.urlencode()}" if params else request.path
    if not fragment and len(params) != len(request.GET):
        return HttpResponseRedirect(address)
    request.GET = params  # type: ignore[assignment]  # links in templates start from it
    now, seen = timezone.now(), visible(request.user)
    listing = read_listing(seen, params, now=now, zone=current_zone())
    context = page_context(listing, seen, params, now)
    status = 503 if listing.state == "slow" else 200
    response = render(request, "runs/_list.html" if fragment else "runs/list.html", context, status=status)
    return push_url(response, address) if fragment else response


def page_context(listing: Listing, seen: Visible, params: QueryDict, now: datetime) -> dict[str, object]:
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    return {
        "as_of": now,
        "listing": listing,
        "form": listing.form,
        "table": RunTable(listing.page.runs, sort=listing.form.order, tenants=slugs, now=now),
        "chips": chips(listing.form, params),
        "kept": [(name, params[name]) for name in ("from", "to", "sort", "size") if name in params],
        "picks": picks_of(listing, seen),
        "reasons": [*Reason, "other"],
        "wider": wider(params),
        "whole": first_page(params).urlencode(),
        "most_rows": MAX_ROWS,
    }


def picks_of(listing: Listing, seen: Visible) -> list[Pick]:
    """Return the selects of the bar, as on the overview: range, tenant, job type and release."""
    form = listing.form
    chosen = {name: from_visible(form.data.get(name, "")) for name in ("tenant", "job", "release")}
    picks = [range_pick(form.window)]
    if len(seen.tenants) > 1:
        slugs = [(tenant.slug, tenant.slug) for tenant in seen.tenants]
        picks.append(pick_of("tenant", "Tenant", slugs, chosen["tenant"], f"All {len(slugs)}"))
    for name, label, found in (
        ("job", "Job type", listing.names.job_types),
        ("release", "Release", listing.names.releases),
    ):
        picks.append(pick_of(name, label, named(found, chosen[name]), chosen[name]))
    return picks


def read_listing(seen: Visible, params: QueryDict, *, now: datetime, zone: str) -> Listing:
    """Return one page of the runs that ``params`` ask for (`runs.filters`), with how many there are in all.

    It must be the outermost transaction. Raises Http404 for a tenant that is not among those ``seen``.
    """
    tenants = tenant_ids_of(params.get("tenant", ""), seen)
    chosen = RunFilter(params, Run.objects.for_tenants(tenants), now=now, zone=zone)
    form = chosen.form
    if form.errors or form.window is None:
        return Listing(form, "invalid")
    if not tenants:
        return Listing(form, "nobody")
    scope = Scope(tenants, form.cleaned_data["job"] or None, form.cleaned_data["release"] or None)
    try:
        with open_reading(scope, form.window, now) as reading:
            return _read(reading, chosen, form.window)
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        return Listing(form, "slow")


def _read(reading: Reading, chosen: RunFilter, window: Window) -> Listing:
    form = chosen.form
    after, before = form.cleaned_data["after"], form.cleaned_data["before"]
    runs = chosen.qs.without_detail()
    page = read_page(runs, form.order, window, after=after, before=before, size=form.size)
    names = Names(read_job_types(reading), read_releases(reading))
    gone = gone_before(reading.scope.tenant_ids)
    gone = gone if gone and window.start < gone else None
    if page.runs:
        total = count_runs(reading, chosen, page, all_kept=gone is None)
        return Listing(form, "rows", page, total, names, gone)
    if after or before:
        return Listing(form, "past", names=names, gone_before=gone)
    return Listing(form, "filtered" if any_runs(reading) else "first", names=names, gone_before=gone)
