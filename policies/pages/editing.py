"""The editor of a policy: write, look at what it changes, publish. Two editors never overwrite each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from guardops.guard.bundle import merge
from guardops.shown import visible_text
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.differences import MODES
from policies.drafts import Draft, clashes, document_of, open_draft, reach_of, versions_of
from policies.errors import BundleTooLarge, InvalidPolicy, PolicyChanged
from policies.forms.policy import PolicyForm, limits_alone
from policies.forms.tools import with_more_rows
from policies.presets import PRESETS, preset_named
from policies.publish.policies import save_policy

from .places import asked_params, place_query, place_to_edit, title_of

if TYPE_CHECKING:
    from datetime import datetime

VERSIONS_BESIDE = 4


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: AuthenticatedRequest) -> HttpResponse:
    now = timezone.now()
    draft = open_draft(place_to_edit(request.user, asked_params(request)), now)
    if request.method != "POST":
        return _begin(request, draft, now)
    step = request.POST.get("step", "")
    sent = with_more_rows(request.POST) if step == "more" else request.POST
    form = PolicyForm(sent, draft, now=now)
    if step in ("edit", "more") or not form.is_valid():
        return _editor(request, draft, form)
    if form.cleaned_data["seen"] != draft.number:
        return _overtaken(request, draft, form, now)
    if step == "save":
        return _save(request, draft, form, now)
    return _review(request, draft, form)


def _begin(request: AuthenticatedRequest, draft: Draft, now: datetime) -> HttpResponse:
    """Open the editor, filled in with a preset or with single values where the address names some."""
    preset = preset_named(request.GET.get("preset", ""))
    asked = _asked(request.GET)
    document = merge(merge(draft.document, preset.document if preset else {}), asked)
    until = draft.current.until if draft.current and draft.document == draft.current.document else None
    form = PolicyForm(None, draft, now=now, document=document, until=until)
    saved = _saved(request, draft)
    return _editor(request, draft, form, preset=preset, filled=bool(preset or asked), **saved)


def _asked(params: QueryDict) -> dict[str, Any]:
    """Return what a link proposes: limits that are numbers, and a mode."""
    given = limits_alone(params).cleaned_data
    limits = {name: value for name, value in given.items() if value is not None}
    mode = params.get("mode", "")
    return ({"limits": limits} if limits else {}) | ({"mode": mode} if mode in MODES else {})


def _saved(request: AuthenticatedRequest, draft: Draft) -> dict[str, Any]:
    """Return what to say of the version that was published just now, where the address names it."""
    if draft.current is None or request.GET.get("saved") != str(draft.number):
        return {}
    try:
        change = UUID(request.GET.get("change", ""))
    except ValueError:
        change = None
    return {"saved": draft.current, "change": change, "before": draft.number - 1}


def _editor(request: AuthenticatedRequest, draft: Draft, form: PolicyForm, **more: Any) -> HttpResponse:
    context = _about(draft) | {
        "form": form,
        "presets": [(preset, f"?{place_query(draft.place, preset=preset.slug)}") for preset in PRESETS],
        "versions": versions_of(draft.place)[:VERSIONS_BESIDE],
        "wrong": form.is_bound and not form.is_valid() and request.POST.get("step") not in ("edit", "more"),
    }
    return render(request, "policies/edit.html", context | more, status=409 if "clashes" in more else 200)


def _about(draft: Draft) -> dict[str, Any]:
    return {
        "draft": draft,
        "place": draft.place,
        "title": title_of(draft.place),
        "query": place_query(draft.place),
    }


def _overtaken(request: AuthenticatedRequest, draft: Draft, form: PolicyForm, now: datetime) -> HttpResponse:
    """Show what somebody else published meanwhile beside what was written, which the form keeps."""
    seen = document_of(draft.place, form.cleaned_data["seen"])
    found = clashes(draft.document if seen is None else seen, draft, form.document())
    if draft.document == form.document():
        messages.success(request, "Nothing to save: somebody else has just published the same.")
        return redirect(f"{reverse('policies:versions')}?{place_query(draft.place)}")
    # Sent again, it replaces what is shown as in force, and nothing that has not been seen.
    data = request.POST.copy()
    data["seen"] = str(draft.number)
    again = PolicyForm(data, draft, now=now)
    return _editor(request, draft, again, clashes=found)


def _review(request: AuthenticatedRequest, draft: Draft, form: PolicyForm) -> HttpResponse:
    """Show what saving would change and whom that reaches, with everything written kept in the page."""
    changes = draft.differences_to(form.document())
    until = draft.current.until if draft.current else None
    context = _about(draft) | {
        "form": form,
        "changes": changes,
        "nothing": not changes and form.cleaned_data["until"] == until,
        "tighter": sum(change.tightens is True for change in changes),
        "looser": sum(change.tightens is not True for change in changes),
        "reach": reach_of(draft.place, [change.path for change in changes]),
        "next": draft.number + 1,
        "kept": _kept(request.POST),
        "replayed": place_query(draft.place, **_replayed(form)),
    }
    return render(request, "policies/review.html", context)


def _replayed(form: PolicyForm) -> dict[str, Any]:
    """Return what past runs are replayed against; an empty limit says that all were left empty."""
    document = form.document()
    limits: dict[str, Any] = document.get("limits", {"max_steps": ""})
    return limits | ({"mode": document["mode"]} if "mode" in document else {})


def _kept(sent: QueryDict) -> list[tuple[str, str]]:
    """Return what was sent, to be sent again."""
    return [
        (name, visible_text(value))
        for name, values in sent.lists()
        if name not in ("csrfmiddlewaretoken", "step")
        for value in values
    ]


def _save(request: AuthenticatedRequest, draft: Draft, form: PolicyForm, now: datetime) -> HttpResponse:
    written = form.cleaned_data
    try:
        saved = save_policy(
            draft.place,
            form.document(),
            seen=written["seen"],
            actor=request.user,
            now=now,
            note=written["note"],
            until=written["until"],
        )
    except PolicyChanged:
        return _overtaken(request, open_draft(draft.place, now), form, now)
    except (InvalidPolicy, BundleTooLarge) as error:
        form.say(error)
        return _editor(request, draft, form)
    if saved is None:
        messages.success(request, "Nothing differs from what is in force, so no version was made.")
        return redirect(f"{reverse('policies:versions')}?{place_query(draft.place)}")
    return to_saved(draft, saved.version.number, saved.change.pk)


def to_saved(draft: Draft, number: int, change: UUID) -> HttpResponseRedirect:
    """Go to the page that says how a new version reaches the guards, and takes it back."""
    query = place_query(draft.place, saved=number, change=change)
    return redirect(f"{reverse('policies:edit')}?{query}")
