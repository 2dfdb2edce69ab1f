"""What is done to one row of the queue without leaving it: claim, release, take a decision back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from guardops.htmx import wants_fragment
from guardops.shown import visible_text
from guardops.tenants.access import require_role, visible
from guardops.tenants.choices import Role
from runs.checkpoints.claims import claim, release
from runs.checkpoints.decide import undo
from runs.checkpoints.errors import CheckpointChanged, InvalidDecision
from runs.checkpoints.moving import changed
from runs.checkpoints.queue import Row, in_rows, rows_of
from runs.models import Checkpoint
from runs.reports.pages import PageRequest

from .finding import find_checkpoints
from .people import for_people
from .queue import back_of
from .tokens import read_token

if TYPE_CHECKING:
    from guardops.tenants.models import User


@for_people
@never_cache
@require_POST
def review_act(request: PageRequest) -> HttpResponse:
    act, text = next(((name, request.POST[name]) for name in _ACTS if name in request.POST), ("", ""))
    token = read_token(text)
    if token is None:
        raise Http404("No such checkpoint.")
    [checkpoint] = find_checkpoints(visible(request.user), token.checkpoint_id, token.slug)
    require_role(request.user, checkpoint.tenant, Role.REVIEWER)
    now, problem = timezone.now(), ""
    try:
        _ACTS[act](checkpoint, request.user, now)
    except (CheckpointChanged, InvalidDecision) as error:
        problem = error.message
    query = QueryDict(request.POST.get("query", ""))
    if wants_fragment(request):
        row = _row(checkpoint, request.user, now)
        context = {"row": row, "problem": problem, "as_of": now, "back": back_of(query)}
        columns = {name: name in request.POST for name in ("many", "bulk")}
        return render(request, "runs/checkpoints/_row.html", context | columns)
    if problem:
        messages.warning(request, visible_text(problem))
    return redirect(f"{reverse('runs:review-queue')}?{query.urlencode()}")


def _undo(checkpoint: Checkpoint, actor: User, now: datetime) -> Checkpoint:
    decision = checkpoint.decided
    if decision is None:
        raise changed(checkpoint.pk)
    return undo(decision, actor=actor, now=now)


def _claim(checkpoint: Checkpoint, actor: User, now: datetime) -> Checkpoint:
    return claim(checkpoint, actor=actor, now=now)


def _release(checkpoint: Checkpoint, actor: User, now: datetime) -> Checkpoint:
    return release(checkpoint, actor=actor, now=now)


_ACTS = {"claim": _claim, "release": _release, "undo": _undo}


def _row(checkpoint: Checkpoint, reader: User, now: datetime) -> Row:
    [row] = rows_of(in_rows(Checkpoint.objects.filter(pk=checkpoint.pk)), reader, now)
    return row
