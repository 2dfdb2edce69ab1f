"""The page of one checkpoint: why it waits for a person, what was tried, and what each decision does."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.htmx import wants_fragment
from guardops.tenants.access import reviewers_of, visible
from runs.reports.pages import PageRequest

from .after import back_to
from .brief import Brief, tell
from .finding import find_checkpoints
from .forms import HandOverForm, NoteForm
from .offers import offers_of
from .people import for_people


@for_people
@never_cache
@require_safe
@vary_on_headers("HX-Request")
def checkpoint(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    found = find_checkpoints(seen, checkpoint_id, request.GET.get("tenant", ""))
    if len(found) > 1:
        choices = [tell(one, request.user, now) for one in found]
        return render(request, "runs/checkpoints/choose.html", {"choices": choices})
    brief = tell(found[0], request.user, now)
    if wants_fragment(request):
        return _standing(request, brief)
    return render(request, "runs/checkpoints/detail.html", page_context(request, brief))


def page_context(request: PageRequest, brief: Brief) -> dict[str, object]:
    """Return what the page of a checkpoint shows."""
    people = reviewers_of(brief.checkpoint.tenant) if brief.waits and brief.may_act else []
    return {
        "brief": brief,
        "checkpoint": brief.checkpoint,
        "tenant": brief.checkpoint.tenant,
        "packet": brief.packet,
        "offers": offers_of(brief),
        "note_form": NoteForm() if brief.may_act else None,
        "hand_over_form": HandOverForm(people=people) if people else None,
        "next": back_to(request),
        "as_of": brief.now,
    }


def _standing(request: PageRequest, brief: Brief) -> HttpResponse:
    """Tell a page that was read at the version ``seen`` how the checkpoint stands now."""
    same = request.GET.get("seen") == str(brief.checkpoint.version)
    if same and brief.waits:
        return HttpResponse(status=204)
    context = {
        "brief": brief,
        "checkpoint": brief.checkpoint,
        "tenant": brief.checkpoint.tenant,
        "moved": not same,
        "as_of": brief.now,
    }
    return render(request, "runs/checkpoints/_standing.html", context)
