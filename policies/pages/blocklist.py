"""The blocklist: what is in force, what was, and what guards propose; as a page and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models import F
from django.db.models.functions import Coalesce
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from guardops.addresses import first_page, tidy, without
from guardops.export import Cell, file_name, file_response
from guardops.tenants import access
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.blocklist.given import READ
from policies.blocklist.looks import Look, look_of
from policies.blocklist.reach import Reader, reader_of, seen_by
from policies.forms.blocklist import BlockFilterForm
from policies.models import BlockedSource

if TYPE_CHECKING:
    from datetime import datetime

    from policies.querysets import BlockedSourceQuerySet

SOURCES_PER_PAGE = 100
COLUMNS = [
    *READ,
    *("for", "readable", "added_at", "added_by", "removed_at", "removed_by"),
]


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as its reader sees it."""

    source: BlockedSource
    may_edit: bool
    why: bool
    """Whether note, evidence and author are shown."""
    over: bool

    @property
    def look(self) -> Look:
        return look_of(self.source.name)

    @property
    def reach(self) -> str:
        return reach_of(self.source)


@never_cache
@require_safe
def blocklist(request: AuthenticatedRequest) -> HttpResponse:
    now, reader = timezone.now(), reader_of(request.user)
    form, seen = _asked(request), seen_by(request.user)
    listed = _listed(form, seen, now)
    page = Paginator(listed, SOURCES_PER_PAGE).get_page(form.cleaned_data.get("page"))
    rows = [_row(source, reader, now) for source in page.object_list]
    context = {
        "form": form,
        "page": page,
        "rows": rows,
        "tenant": form.tenant_in_view,
        "tab": form.cleaned_data.get("tab", ""),
        "may_edit": reader.may_edit_something,
        "bulk": any(row.may_edit and not row.over for row in rows),
        "state": _state(form, reader, rows, seen),
        "kept": first_page(without(tidy(request.GET), "tab")).urlencode(),
        "as_of": now,
    }
    return render(request, "policies/blocklist.html", context)


@never_cache
@require_GET
def blocklist_file(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    now, reader, asked = timezone.now(), reader_of(request.user), _asked(request)
    if not asked.is_valid():
        context = {"form": asked, "page": [], "state": "invalid", "tab": ""}
        return render(request, "policies/blocklist.html", context, status=400)
    listed = _listed(asked, seen_by(request.user), now)
    return file_response(form, file_name("blocklist", now), COLUMNS, _cells(listed, reader, now))


@never_cache
@require_safe
def proposed(request: AuthenticatedRequest) -> HttpResponse:
    form = _asked(request)
    valid = form.is_valid()
    context = {
        "form": form,
        "tab": "proposed",
        "may_edit": reader_of(request.user).may_edit_something,
        "tenant": form.tenant_in_view,
        "state": "invalid" if not valid else "rows" if form.tenants else "nobody",
        "kept": first_page(without(tidy(request.GET), "tab")).urlencode(),
    }
    return render(request, "policies/blocklist_proposed.html", context)


def reach_of(source: BlockedSource) -> str:
    """Return for whom a source is blocked, in words."""
    if source.tenant is not None:
        return str(source.tenant.name)
    return f"all of {source.organisation.name}" if source.organisation else "everybody"


def _asked(request: AuthenticatedRequest) -> BlockFilterForm:
    return BlockFilterForm(tidy(request.GET), tenants=access.visible(request.user).tenants)


def _listed(form: BlockFilterForm, seen: BlockedSourceQuerySet, now: datetime) -> BlockedSourceQuerySet:
    if not form.is_valid():
        return seen.none()
    listed = form.narrow(seen, now).select_related("organisation", "tenant", "created_by", "removed_by")
    if form.cleaned_data["tab"] == "removed":
        return listed.order_by(Coalesce(F("removed_at"), F("expires_at")).desc(), "-pk")
    return listed.order_by("-created_at", "-pk")


def _row(source: BlockedSource, reader: Reader, now: datetime) -> Row:
    over = source.removed_at is not None or (source.expires_at is not None and source.expires_at <= now)
    return Row(source, reader.edits(source), reader.reads_why(source), over)


def _state(form: BlockFilterForm, reader: Reader, rows: list[Row], seen: BlockedSourceQuerySet) -> str:
    if rows:
        return "rows"
    if not form.is_valid():
        return "invalid"
    if form.narrows and seen.exists():
        return "filtered"
    return "first" if form.tenants or reader.may_edit_something else "nobody"


def _cells(listed: BlockedSourceQuerySet, reader: Reader, now: datetime) -> Iterator[list[Cell]]:
    source: BlockedSource
    for source in listed.iterator(chunk_size=1_000):
        row = _row(source, reader, now)
        yield [
            *(source.name, source.kind, "exact" if source.exact else "registrable", source.action),
            source.most if source.action == "limit" else None,
            source.reason,
            source.note if row.why else "",
            source.origin,
            source.evidence if row.why else "",
            source.expires_at,
            *(row.reach, row.look.readable, source.created_at, _who(source.created_by, row)),
            *(source.removed_at, _who(source.removed_by, row)),
        ]


def _who(person: Any, row: Row) -> str:
    return person.get_username() if person is not None and row.why else ""
