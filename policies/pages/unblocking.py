"""Taking sources off the blocklist, putting them back, and reverting a whole edit of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from guardops.shown import visible_text
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.blocklist.looks import look_of
from policies.blocklist.reach import reader_of, require_editor, seen_by
from policies.choices import ChangeKind
from policies.errors import NOT_PUBLISHED
from policies.models import BlockedSource, Change
from policies.publish.sources import Reach, remove_sources, restore_source, revert_sources, sources_of

from .blocklist import reach_of
from .changes import change_or_404

if TYPE_CHECKING:
    from guardops.tenants.models import User

MOST_AT_ONCE = 100
_MAX_ID = 2**63 - 1


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: AuthenticatedRequest, source_id: int) -> HttpResponse:
    source = source_to_edit(request.user, source_id)
    if request.method != "POST":
        return render(request, "policies/blocklist_remove.html", _about(source))
    try:
        _, change = remove_sources(_reach(source), [source.pk], actor=request.user, now=timezone.now())
    except NOT_PUBLISHED as error:
        messages.error(request, f"Nothing was removed. {error.message}")
        return redirect("policies:blocklist")
    if change is None:
        messages.warning(request, f"{visible_text(source.name)} is off the list already.")
        return redirect("policies:blocklist")
    return redirect("policies:change", change.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def restore(request: AuthenticatedRequest, source_id: int) -> HttpResponse:
    source, now = source_to_edit(request.user, source_id), timezone.now()
    if request.method != "POST":
        context = {**_about(source), "expired": source.expires_at is not None and source.expires_at <= now}
        return render(request, "policies/blocklist_restore.html", context)
    try:
        outcome, change = restore_source(source, actor=request.user, now=now)
    except NOT_PUBLISHED as error:
        messages.error(request, f"Nothing was blocked. {error.message}")
        return redirect("policies:blocklist")
    if change is not None:
        return redirect("policies:change", change.pk)
    why = outcome.error.message if outcome.error else "It is on the list already."
    messages.warning(request, f"{visible_text(source.name)} was not put back. {why}")
    return redirect("policies:blocklist")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def remove_many(request: AuthenticatedRequest) -> HttpResponse:
    reader = require_editor(request.user)
    asked = request.POST if request.method == "POST" else request.GET
    ids = _ids(asked.getlist("source"))
    found = _found(request.user, ids)
    if found and not any(reader.edits(source) for source in found):
        raise PermissionDenied("This needs the role admin where these are blocked.")
    mine = [source for source in found if reader.edits(source) and source.removed_at is None]
    context = {
        "rows": [(source, look_of(source.name), reach_of(source)) for source in mine],
        "left": [source for source in found if source not in mine],
        "unknown": len(ids) - len(found),
        "too_many": len(ids) > MOST_AT_ONCE,
        "most": MOST_AT_ONCE,
    }
    if request.method != "POST" or context["too_many"]:
        return render(request, "policies/blocklist_remove_many.html", context)
    removed, changes = _remove_all(request, mine, timezone.now())
    done = {"removed": removed, "changes": changes}
    return render(request, "policies/blocklist_removed.html", context | done)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def revert(request: AuthenticatedRequest, change_id: UUID) -> HttpResponse:
    change = change_or_404(request.user, change_id)
    if change.kind != ChangeKind.BLOCKLIST:
        raise Http404("No such edit of the blocklist.")
    if not reader_of(request.user).may_edit(change.organisation_id, change.tenant_id):
        raise PermissionDenied("This needs the role admin where the edit was made.")
    if request.method != "POST":
        added, removed = sources_of(change)
        context = {"change": change, "added": added.filter(removed_at=None)[:20], "removed": removed[:20]}
        return render(request, "policies/blocklist_revert.html", context)
    try:
        reverted = revert_sources(change, actor=request.user, now=timezone.now())
    except NOT_PUBLISHED as error:
        messages.error(request, f"Nothing was reverted. {error.message}")
        return redirect("policies:change", change.pk)
    if reverted is None:
        messages.warning(request, "Nothing is left of this edit: others have changed the same sources since.")
    return redirect("policies:change", (reverted or change).pk)


def source_to_edit(user: User, source_id: int) -> BlockedSource:
    """Return an entry that ``user`` may edit; raises Http404 and PermissionDenied."""
    for source in _found(user, [source_id]):
        if reader_of(user).edits(source):
            return source
        raise PermissionDenied("This needs the role admin where the source is blocked.")
    raise Http404("No such entry of the blocklist.")


def _found(user: User, ids: Sequence[int]) -> list[BlockedSource]:
    seen = seen_by(user).filter(pk__in=[number for number in ids[: MOST_AT_ONCE + 1] if number <= _MAX_ID])
    return list(seen.select_related("organisation", "tenant", "created_by").order_by("pk"))


def _ids(texts: Iterable[str]) -> list[int]:
    return sorted({int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 19})


def _remove_all(
    request: AuthenticatedRequest, sources: Sequence[BlockedSource], now: datetime
) -> tuple[set[int], list[Change]]:
    """Remove entries of several lists; return the ids of those that were there, and a change a list."""
    removed: set[int] = set()
    changes = []
    in_order = sorted(sources, key=lambda source: (source.organisation_id or 0, source.tenant_id or 0))
    for _, group in groupby(in_order, key=lambda source: (source.organisation_id, source.tenant_id)):
        of_one = list(group)
        reach, ids = _reach(of_one[0]), [one.pk for one in of_one]
        try:
            gone, change = remove_sources(reach, ids, actor=request.user, now=now)
        except NOT_PUBLISHED as error:
            messages.error(request, f"Nothing was removed for {visible_text(str(reach))}. {error.message}")
            continue
        removed |= {source.pk for source in gone}
        changes += [change] if change else []
    return removed, changes


def _reach(source: BlockedSource) -> Reach:
    return Reach(source.organisation, source.tenant)


def _about(source: BlockedSource) -> dict[str, object]:
    return {"source": source, "look": look_of(source.name), "reach": reach_of(source)}
