"""A policy's page: what holds and where that comes from, all its versions, the difference of any two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants.forms.fields import VisibleCharField
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.differences import Difference, differences, own_values
from policies.drafts import Draft, document_of, open_draft, versions_of
from policies.errors import BundleTooLarge, InvalidPolicy, PolicyChanged
from policies.models.policy import MAX_NOTE
from policies.publish.policies import Saved, roll_back, save_policy

from .editing import to_saved
from .places import asked_params, may_edit, place_or_404, place_query, place_to_edit, title_of

if TYPE_CHECKING:
    from datetime import datetime

    from guardops.tenants.models import User

VERSIONS_PER_PAGE = 50
_MOST = 2**31 - 1


class CompareForm(forms.Form):
    """Which two versions to compare; 0 is before the first one."""

    from_version = forms.IntegerField(label="From", min_value=0, max_value=_MOST)
    to_version = forms.IntegerField(label="to", min_value=0, max_value=_MOST)


class RollBackForm(forms.Form):
    """Which version to publish anew, why, and which one stood when that was asked."""

    to = forms.IntegerField(min_value=0, max_value=_MOST)
    seen = forms.IntegerField(min_value=1, max_value=_MOST)
    note = VisibleCharField(required=False, max_length=MAX_NOTE)


@never_cache
@require_safe
def versions(request: AuthenticatedRequest) -> HttpResponse:
    place = place_or_404(request.user, request.GET)
    draft = open_draft(place, timezone.now())
    listed = Paginator(versions_of(place), VERSIONS_PER_PAGE).get_page(request.GET.get("page"))
    compared = CompareForm(request.GET) if "from_version" in request.GET else CompareForm()
    context = {
        "draft": draft,
        "place": place,
        "title": title_of(place),
        "query": place_query(place),
        "may_edit": may_edit(request.user, place),
        "page": listed,
        "form": compared,
        "values": own_values(draft.document, draft.inherited),
        **_compared(draft, compared),
    }
    return render(request, "policies/versions.html", context)


def _compared(draft: Draft, form: CompareForm) -> dict[str, Any]:
    """Return the differences of the two versions that are asked for; raises Http404 for one that isn't."""
    if not form.is_bound or not form.is_valid():
        return {}
    old, new = form.cleaned_data["from_version"], form.cleaned_data["to_version"]
    return {"old": old, "new": new, "changes": _between(draft, old, new)}


def _between(draft: Draft, old: int, new: int) -> list[Difference]:
    documents = [document_of(draft.place, number) for number in (old, new)]
    if None in documents:
        raise Http404("No such version.")
    before, after = (document or {} for document in documents)
    return differences(before, after, draft.inherited)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rollback(request: AuthenticatedRequest) -> HttpResponse:
    """Show what going back to a version changes, and publish its document as the next one."""
    now = timezone.now()
    draft = open_draft(place_to_edit(request.user, asked_params(request)), now)
    last = {"seen": draft.number, "to": draft.number - 1}
    form = RollBackForm(request.POST if request.method == "POST" else last | request.GET.dict())
    if not form.is_valid():
        if form.errors.keys() <= {"note"}:
            return _ask(request, draft, form)
        raise Http404("No such version.")
    changes = _between(draft, draft.number, form.cleaned_data["to"])
    if request.method != "POST":
        return _ask(request, draft, form, changes=changes)
    try:
        saved = _roll_back(draft, form, request.user, now)
    except PolicyChanged as error:
        messages.warning(request, error.message)
        return redirect(f"{reverse('policies:versions')}?{place_query(draft.place)}")
    except (InvalidPolicy, BundleTooLarge) as error:
        form.add_error(None, f"Guards would not take this version any more: {error.message}")
        return _ask(request, draft, form, changes=changes)
    return _after(request, draft, saved)


def _ask(request: AuthenticatedRequest, draft: Draft, form: RollBackForm, **more: Any) -> HttpResponse:
    context = {
        "draft": draft,
        "place": draft.place,
        "title": title_of(draft.place),
        "query": place_query(draft.place),
        "form": form,
        "to": form.cleaned_data["to"],
        "next": draft.number + 1,
    }
    return render(request, "policies/rollback.html", context | more)


def _roll_back(draft: Draft, form: RollBackForm, actor: User, now: datetime) -> Saved | None:
    asked = form.cleaned_data
    if asked["to"] == 0:
        note = asked["note"] or "Back to what is inherited."
        return save_policy(draft.place, {}, seen=asked["seen"], actor=actor, now=now, note=note)
    return roll_back(draft.place, asked["to"], seen=asked["seen"], actor=actor, now=now, note=asked["note"])


def _after(request: AuthenticatedRequest, draft: Draft, saved: Saved | None) -> HttpResponse:
    if saved is None:
        messages.success(request, "That is what is in force already, so no version was made.")
        return redirect(f"{reverse('policies:versions')}?{place_query(draft.place)}")
    return to_saved(draft, saved.version.number, saved.change.pk)
