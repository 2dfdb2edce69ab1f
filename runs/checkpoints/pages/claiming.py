"""Claiming a checkpoint, prolonging the claim while its page is open, giving it back or to somebody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseStopPolling

from guardops.htmx import wants_fragment
from guardops.shown import visible_text
from guardops.tenants.access import reviewers_of
from runs.checkpoints import claims
from runs.checkpoints.errors import CheckpointChanged, NotAReviewer
from runs.models import Checkpoint
from runs.reports.pages import PageRequest

from .after import back_to
from .finding import address_of, find_to_act
from .forms import HandOverForm
from .people import for_people


@for_people
@never_cache
@require_POST
def claim(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint = find_to_act(request, checkpoint_id)
    return _done(request, checkpoint, "Yours for half an hour, and while its page is open.", claims.claim)


@for_people
@never_cache
@require_POST
def release(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint = find_to_act(request, checkpoint_id)
    return _done(request, checkpoint, "Released: anybody may claim it.", claims.release)


@for_people
@never_cache
@require_POST
def renew(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    """Prolong one's claim; an open page that has none any more stops asking."""
    checkpoint = find_to_act(request, checkpoint_id)
    mine = claims.renew(checkpoint, actor=request.user, now=timezone.now())
    if wants_fragment(request):
        return HttpResponse(status=204) if mine else HttpResponseStopPolling()
    if not mine:
        messages.warning(request, "You have no claim on this any more.")
    return redirect(address_of(checkpoint))


@for_people
@never_cache
@require_POST
def hand_over(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint = find_to_act(request, checkpoint_id)
    form = HandOverForm(request.POST, people=reviewers_of(checkpoint.tenant))
    if not form.is_valid():
        messages.warning(request, "Nothing was handed over: choose somebody who may decide here.")
        return redirect(address_of(checkpoint))
    told = f"Handed over to {visible_text(form.chosen.get_username())}."
    return _done(request, checkpoint, told, claims.hand_over, to=form.chosen)


def _done(
    request: PageRequest, checkpoint: Checkpoint, told: str, verb: Callable[..., Checkpoint], **options: Any
) -> HttpResponse:
    """Carry out what was asked, say what became of it, and go back."""
    try:
        verb(checkpoint, actor=request.user, now=timezone.now(), **options)
        messages.success(request, told)
    except CheckpointChanged as error:
        messages.warning(request, f"Nothing was changed: {visible_text(error.change.by)} {error.change.did}.")
    except NotAReviewer as error:
        messages.warning(request, error.message)
    return redirect(back_to(request) or address_of(checkpoint))
