"""The review queue. One address, two renderings; beside it the fragment that keeps an open page true."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode
from uuid import UUID

from django import forms
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import push_url

from guardops.addresses import first_page, tidy, without
from guardops.export import MAX_ROWS
from guardops.htmx import wants_fragment
from guardops.shown import from_visible, visible_text
from guardops.tenants.access import Visible, visible
from runs.checkpoints.decide import MAX_AT_ONCE
from runs.checkpoints.filters import ANY, COLUMNS, ORDERS, STATES, QueueForm
from runs.checkpoints.queue import (
    MOST_NAMED,
    Known,
    Queue,
    Row,
    count_new,
    in_rows,
    names_of,
    read_queue,
    rows_of,
)
from runs.models import Checkpoint, Decision
from runs.reports.asked import tenant_ids_of
from runs.reports.pages import PageRequest
from runs.reports.panels.filters import Pick, named, pick_of

from .receipts import Receipt

if TYPE_CHECKING:
    from guardops.tenants.models import User

_IN_BAR = ("state", "tenant", "job", "reason", "sort", "q", "mine")
_BEFORE_ALL = "1970-01-01T00:00:00Z"
_NO_CHIPS = {*_IN_BAR, "size", "after"}


@never_cache
@require_safe
@vary_on_headers("HX-Request")
def review_queue(request: PageRequest) -> HttpResponse:
    fragment = wants_fragment(request)
    params = tidy(request.GET)
    address = f"{request.path}?{params.urlencode()}" if params else request.path
    if not fragment and len(params) != len(request.GET):
        return HttpResponseRedirect(address)
    request.GET = params  # type: ignore[assignment]  # links in templates start from it
    now, seen = timezone.now(), visible(request.user)
    queue = read_queue(QueueForm(params), seen, request.user, params.get("tenant", ""), now)
    context = page_context(queue, seen, params, now) | {"undo": undoable_by(request.user, now)}
    page = "runs/checkpoints/_queue.html" if fragment else "runs/checkpoints/queue.html"
    response = render(request, page, context)
    return push_url(response, address) if fragment else response


def page_context(queue: Queue, seen: Visible, params: QueryDict, now: datetime) -> dict[str, object]:
    plain = first_page(params)
    return {
        "as_of": now,
        "queue": queue,
        "form": queue.form,
        "picks": picks_of(queue.form, seen, params, now),
        "order": order_pick(queue.form, params),
        "mine": "mine" in params,
        "chips": [
            (field.label, visible_text(params[name]), f"?{without(plain, name).urlencode()}")
            for name, field in queue.form.fields.items()
            if name in params and name not in _NO_CHIPS
        ],
        "kept": [(name, visible_text(params[name])) for name in params if name not in (*_IN_BAR, "after")],
        "live": f"{reverse('runs:review-new-count')}?{live_query(queue, plain)}",
        "first": f"?{plain.urlencode()}",
        "next": f"?{_with(plain, after=queue.next)}",
        "late": f"?{_with(plain, over='1')}",
        "sorts": {key: header_of(queue.form, key, plain) for key in COLUMNS},
        "anyhow": f"?{_with(plain, state=ANY)}",
        "whole": plain.urlencode(),
        "back": back_of(plain),
        "many": len(seen.tenants) > 1,
        "most": MAX_AT_ONCE,
        "most_rows": MAX_ROWS,
    }


def picks_of(form: QueueForm, seen: Visible, params: QueryDict, now: datetime) -> list[Pick]:
    """Return the selects of the bar."""
    chosen = {
        name: from_visible(params.get(name, "")) for name in ("state", "tenant", "job", "reason", "sort")
    }
    picks = [pick_of("state", "State", STATES, chosen["state"], "Waiting")]
    if len(seen.tenants) > 1:
        slugs = [(tenant.slug, tenant.slug) for tenant in seen.tenants]
        picks.append(pick_of("tenant", "Tenant", slugs, chosen["tenant"], f"All {len(slugs)}"))
    # A tenant that is not seen was answered with 404 before.
    names = names_of(form, tenant_ids_of(chosen["tenant"], seen), now)
    picks.append(pick_of("job", "Job type", named(names.job_types, chosen["job"]), chosen["job"]))
    picks.append(pick_of("reason", "Reason", named(names.reasons, chosen["reason"]), chosen["reason"]))
    return picks


def order_pick(form: QueueForm, params: QueryDict) -> Pick:
    """Return the select of orders; it stands with the list, since the headers change it too."""
    default, asked = form.default_sort, params.get("sort", "")
    others = [(key, label) for key, label in ORDERS if key != default]
    return pick_of("sort", "Sort", others, "" if asked == default else asked, dict(ORDERS)[default])


def back_of(plain: QueryDict) -> str:
    """Return the list’s address as its rows’ links pass it on, to lead back; empty for the plain list."""
    return quote(f"{reverse('runs:review-queue')}?{plain.urlencode()}", safe="") if plain else ""


def undoable_by(user: User, now: datetime) -> Receipt | None:
    """Return the last decision of ``user`` that nobody has got yet."""
    made = Decision.objects.standing().filter(by=user, deliver_at__gt=now)
    last = made.select_related("checkpoint__tenant").order_by("-at").first()
    receipt = Receipt(last, last.checkpoint, now) if last else None
    return receipt if receipt and receipt.can_undo else None


class Header(NamedTuple):
    """A column that the list can be sorted by: where its header leads, and how the list is sorted by it."""

    href: str
    aria: str


def header_of(form: QueueForm, key: str, plain: QueryDict) -> Header:
    """Return a column's header: a click sorts by it, the next one turns the order round."""
    first = key if key == "due" else f"-{key}"
    current = form.sort_key if form.is_valid() else ""
    turned = first.removeprefix("-") if first.startswith("-") else f"-{first}"
    aria = {key: "ascending", f"-{key}": "descending"}.get(current, "")
    asked = turned if current == first else first
    return Header(f"?{_with(plain, sort='' if asked == form.default_sort else asked)}", aria)


def live_query(queue: Queue, plain: QueryDict) -> str:
    """Return what an open page asks with: its filters, and what it shows."""
    shown = plain.copy()
    shown["since"] = queue.known.since.isoformat()
    shown["seen"] = queue.known.named
    shown["rows"] = ".".join(row.checkpoint.checkpoint_id.hex for row in queue.rows[:MOST_NAMED])
    return tidy(shown).urlencode()


class LiveForm(forms.Form):
    """What an open page shows, sent back as the page was given it; nothing where it is left out."""

    since = forms.CharField(max_length=40, required=False)
    seen = forms.CharField(max_length=33 * MOST_NAMED, required=False)
    rows = forms.CharField(max_length=33 * MOST_NAMED, required=False)

    def clean_since(self) -> datetime:
        since = None
        with suppress(ValueError):  # a day that no calendar has
            since = parse_datetime(self.cleaned_data["since"] or _BEFORE_ALL)
        if since is None or timezone.is_naive(since):
            raise forms.ValidationError("This is no moment.")
        return since

    def clean_seen(self) -> list[UUID]:
        return _ids(self.cleaned_data["seen"])

    def clean_rows(self) -> list[UUID]:
        return _ids(self.cleaned_data["rows"])


@never_cache
@require_safe
def new_count(request: PageRequest) -> HttpResponse:
    """Tell an open page how many checkpoints it lacks, and how its rows stand now: none moves by itself."""
    params, now, seen = tidy(request.GET), timezone.now(), visible(request.user)
    tenants = tenant_ids_of(params.get("tenant", ""), seen)
    form, shown = QueueForm(params), LiveForm(params)
    if not (form.is_valid() and shown.is_valid()):
        return render(request, "runs/checkpoints/new_invalid.html", status=400)
    known = Known(shown.cleaned_data["since"], shown.cleaned_data["seen"])
    plain = without(params, "since", "seen", "rows")
    context = {
        "as_of": now,
        "new": count_new(form, tenants, request.user, known, now),
        "rows": _as_now(shown.cleaned_data["rows"], tenants, request.user, now),
        "live": request.get_full_path(),
        "queue_address": f"{reverse('runs:review-queue')}?{first_page(plain).urlencode()}",
    }
    page = "runs/checkpoints/_live.html" if wants_fragment(request) else "runs/checkpoints/new_count.html"
    return render(request, page, context)


def _as_now(ids: Sequence[UUID], tenants: Sequence[int], user: User, now: datetime) -> list[Row]:
    found = Checkpoint.objects.for_tenants(tenants).filter(checkpoint_id__in=ids)
    return rows_of(in_rows(found), user, now) if ids else []


def _ids(text: str) -> list[UUID]:
    try:
        return [UUID(one) for one in text.split(".") if one]
    except ValueError:
        raise forms.ValidationError("These are no ids.") from None


def _with(params: QueryDict, **values: str) -> str:
    kept = {name: params.getlist(name) for name in params if name not in values}
    return urlencode({**kept, **{name: value for name, value in values.items() if value}}, doseq=True)
