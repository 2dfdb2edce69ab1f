"""The runs list: filters, one keyset page, and the count that goes with them. One URL, two renderings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import push_url
from psycopg.errors import QueryCanceled

from guardops.guard.reasons import Reason
from guardops.tenants.access import Visible, visible
from runs.filters import RunFilter
from runs.keyset import Page, read_page
from runs.models import Run
from runs.pages.chips import chips
from runs.tables import RunTable

if TYPE_CHECKING:
    from runs.filters import RunFilterForm

COUNTED_UP_TO = 10_000
EMPTY = Page(runs=(), next=None, previous=None)


@dataclass(frozen=True, slots=True)
class Total:
    """How many runs a list holds: exact, or the ``number`` at which counting stopped."""

    number: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """What the list shows.

    ``state`` is rows; or first (no run has ever ended), filtered (none matches), past (a page after the
    last), invalid (the filters make no sense), nobody (no tenant may be seen) or slow (the database gave up).
    """

    form: RunFilterForm
    state: str
    page: Page = EMPTY
    total: Total = Total(0)


@require_safe
@vary_on_headers("HX-Request")
def run_list(request: HttpRequest) -> HttpResponse:
    fragment = request.htmx and not (request.htmx.boosted or request.htmx.history_restore_request)
    params = tidy(request.GET)
    address = f"{request.path}?{params.urlencode()}" if params else request.path
    if not fragment and len(params) != len(request.GET):
        return HttpResponseRedirect(address)
    request.GET = params
    now, seen = timezone.now(), visible(request.user)
    listing = read_listing(seen, params, now=now, zone=timezone.get_current_timezone_name())
    context = page_context(listing, seen, params, now)
    status = 503 if listing.state == "slow" else 200
    response = render(request, "runs/_list.html" if fragment else "runs/list.html", context, status=status)
    return push_url(response, address) if fragment else response


def tidy(params: QueryDict) -> QueryDict:
    """Return the parameters that say something: forms send empty ones, and ends of a range left behind."""
    tidied = params.copy()
    named = params.get("range")
    for name, values in params.lists():
        said = [value for value in values if value]
        if said and not (named and name in ("from", "to")):
            tidied.setlist(name, said)
        else:
            del tidied[name]
    return tidied


def page_context(listing: Listing, seen: Visible, params: QueryDict, now: datetime) -> dict[str, object]:
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    return {
        "as_of": now,
        "listing": listing,
        "form": listing.form,
        "table": RunTable(listing.page.runs, sort=listing.form.order, tenants=slugs, now=now),
        "chips": chips(listing.form, params),
        "kept": [(name, params[name]) for name in ("from", "to", "sort", "size") if name in params],
        "tenants": seen.tenants,
        "reasons": [*Reason, "other"],
        "wider": wider(params),
    }


def wider(params: QueryDict) -> str:
    """Return the query of the same list over the longest range; empty where it is that already."""
    if params.get("range") == "90d":
        return ""
    longest = params.copy()
    for name in ("from", "to", "after", "before"):
        longest.pop(name, None)
    longest["range"] = "90d"
    return f"?{longest.urlencode()}"


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
    page = read_page(chosen.qs.without_detail(), form.order, after=after, before=before, size=form.size)
    if page.runs:
        return Listing(form, "rows", page, count_runs(chosen))
    if after or before:
        return Listing(form, "past")
    return Listing(form, "filtered" if chosen.queryset.exists() else "first")


def count_runs(chosen: RunFilter) -> Total:
    """Return how many runs match, counted one by one up to a bound."""
    counted = chosen.qs.values("tenant_id")[: COUNTED_UP_TO + 1].count()
    return Total(min(counted, COUNTED_UP_TO), counted <= COUNTED_UP_TO)
