"""Blocking sources: write what and for whom, look at what each line does, confirm."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.blocklist.plan import Planned, plan_blocks, results_of
from policies.blocklist.reach import reaches_to_edit, refuse_below_admin, require_editor
from policies.errors import NOT_PUBLISHED
from policies.fleet import read_applied
from policies.forms.blocklist import BlockForm
from policies.models import Change
from policies.publish.sources import Reach, block_sources

from .changes import concerned

_TOLD_BY_LINK = ("kind", "match", "action", "most", "lasting", "reason", "note", "origin", "evidence")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: AuthenticatedRequest) -> HttpResponse:
    require_editor(request.user)
    refuse_below_admin(request.user, request.POST.get("place", ""))
    now, reaches = timezone.now(), reaches_to_edit(request.user)
    if request.method != "POST":
        return _ask(request, BlockForm(initial=_told(request.GET), reaches=reaches, now=now))
    form = BlockForm(request.POST, request.FILES, reaches=reaches, now=now)
    step = request.POST.get("step", "")
    if not form.is_valid() or step == "edit":
        return _ask(request, form)
    return _block(request, form, now) if step == "confirm" else _preview(request, form)


def _told(params: QueryDict) -> dict[str, Any]:
    """Return what a link fills in: who proposes a block names the source and says what led to it."""
    told: dict[str, Any] = {name: params[name] for name in _TOLD_BY_LINK if params.get(name)}
    told["names"] = "\n".join(params.getlist("name"))
    if place := params.get("place") or (f"tenant:{params['tenant']}" if params.get("tenant") else ""):
        told["place"] = place
    return told


def _ask(request: AuthenticatedRequest, form: BlockForm) -> HttpResponse:
    wrong = form.is_bound and not form.is_valid()
    return render(
        request, "policies/blocklist_add.html", {"form": form, "wrong": wrong, "table": _table(form)}
    )


def _table(form: BlockForm) -> str:
    """Return the text of the file that was sent, which no browser sends a second time."""
    if not form.is_bound:
        return ""
    table: str = form.cleaned_data.get("file") or form["table"].value() or ""
    return table.replace("\r\n", "\n")


def _preview(request: AuthenticatedRequest, form: BlockForm) -> HttpResponse:
    planned = plan_blocks(form.reach, form.lines)
    kept = [(name, form[name].value() or "") for name in form.fields if name not in ("file", "table")]
    context = {
        "rows": [(line, _used(form.reach, line)) for line in planned],
        "counts": Counter(line.state for line in planned),
        "changing": sum(line.changes for line in planned),
        "reach": str(form.reach),
        "kept": [*kept, ("table", _table(form))],
        "reason": form.cleaned_data["reason"],
    }
    return render(request, "policies/blocklist_preview.html", context)


def _used(reach: Reach, line: Planned) -> str:
    """Return the query that asks how many completed runs used the source of a line."""
    if not line.name or line.given.wanted is None:
        return ""
    of: dict[str, str] = {}
    if reach.tenant is not None:
        of = {"tenant": reach.tenant.slug}
    elif reach.organisation is not None:
        of = {"organisation": reach.organisation.slug}
    return urlencode({**of, "kind": line.given.wanted.kind.value, "name": line.name})


def _block(request: AuthenticatedRequest, form: BlockForm, now: datetime) -> HttpResponse:
    wanted = [line.wanted for line in form.lines if line.wanted is not None]
    try:
        outcomes, change = block_sources(form.reach, wanted, actor=request.user, now=now)
    except NOT_PUBLISHED as error:
        form.add_error(None, f"Nothing was blocked. {error.message}")
        return _ask(request, form)
    if change is not None and len(form.lines) == 1:
        return redirect("policies:change", change.pk)
    results = results_of(form.lines, outcomes)
    context = {"rows": results, "counts": Counter(line.state for line in results), "reach": str(form.reach)}
    return render(request, "policies/blocklist_result.html", context | progress_of(change, now))


def progress_of(change: Change | None, now: datetime) -> dict[str, Any]:
    """Return what a page needs to show how far a change has come, where there is one."""
    if change is None:
        return {}
    # Who edits a list sees all the tenants that it is for.
    applied = read_applied(concerned(change), now)
    return {"change": change, "failure": change.failure, "applied": applied, "as_of": now}
