"""Deciding a checkpoint, and taking the decision back while nobody has got it.

A decision is a plain form: in a dialog of the checkpoint's page, or with scripts off on a page of its own.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from guardops.guard.decisions import DecisionAction
from guardops.shown import visible_text
from runs.checkpoints.choice import Choice, says_the_same
from runs.checkpoints.decide import decide, undo
from runs.checkpoints.errors import CheckpointChanged, InvalidDecision
from runs.models import Checkpoint, CheckpointNote, Decision
from runs.reports.pages import PageRequest

from .after import after_deciding, back_to
from .brief import Brief, tell
from .finding import address_of, find_to_act
from .forms import NoteForm, UndoForm
from .offers import Offer, offer_of
from .people import for_people


@for_people
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def decide_checkpoint(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint, now = find_to_act(request, checkpoint_id), timezone.now()
    brief = tell(checkpoint, request.user, now)
    sent = request.POST if request.method == "POST" else None
    action = _action(request)
    if action is None or (sent is None and not brief.waits):
        return redirect(address_of(checkpoint))
    offer = offer_of(brief, action, sent)
    if sent is None or not offer.form.is_valid():
        return _ask(request, brief, offer)
    version = offer.form.cleaned_data["version"]
    try:
        decide(checkpoint, offer.form.choice(), actor=request.user, now=now, version=version)
    except InvalidDecision as error:
        offer.form.refuse(error)
        return _ask(request, brief, offer)
    except CheckpointChanged as told:
        if not _is_own(told, request, version, offer.form.choice()):
            return _lost(request, offer, told)
    if offer.is_final:
        messages.success(request, f"{offer.words.done}. It went out at once.")
    return redirect(after_deciding(request, request.user, checkpoint, now))


def _is_own(told: CheckpointChanged, request: PageRequest, version: int, choice: Choice) -> bool:
    """Say whether this very form was sent before: a second tap is no race, a second thought is one."""
    made = told.current.decided
    if made is None or made.by_id != request.user.pk or made.version != version:
        return False
    noted = CheckpointNote.objects.filter(checkpoint=told.current.pk, by=request.user, text=choice.note)
    return says_the_same(made, choice) and (not choice.note or noted.exists())


def _action(request: PageRequest) -> DecisionAction | None:
    try:
        return DecisionAction(request.POST.get("action") or request.GET.get("action", ""))
    except ValueError:
        return None


def _ask(request: PageRequest, brief: Brief, offer: Offer) -> HttpResponse:
    return render(request, "runs/checkpoints/decide.html", _context(request, brief, offer))


def _lost(request: PageRequest, offer: Offer, told: CheckpointChanged) -> HttpResponse:
    """Say who was faster and when, and keep what was written: to decide anew, or as a note."""
    brief = tell(told.current, request.user, timezone.now())
    again = request.POST.copy()
    again["version"] = str(told.current.version)
    context = _context(request, brief, offer_of(brief, offer.action, again)) | {"change": told.change}
    if not brief.waits:
        context["note_form"] = NoteForm(initial={"text": _written(offer)})
    return render(request, "runs/checkpoints/decide.html", context, status=409)


def _written(offer: Offer) -> str:
    """Return all that somebody has typed themselves, and not what the form suggested."""
    said, typed = offer.form.cleaned_data, offer.form.changed_data
    names = [name for name in ("note", "answer", "input", "evidence", "reason") if name in typed]
    return "\n\n".join(said[name] for name in names if said[name])


def _context(request: PageRequest, brief: Brief, offer: Offer) -> dict[str, object]:
    return {
        "brief": brief,
        "checkpoint": brief.checkpoint,
        "tenant": brief.checkpoint.tenant,
        "packet": brief.packet,
        "offer": offer,
        "next": back_to(request),
        "as_of": brief.now,
    }


@for_people
@never_cache
@require_POST
def undo_decision(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint = find_to_act(request, checkpoint_id)
    decision = _decision_of(checkpoint, UndoForm(request.POST))
    try:
        undo(decision, actor=request.user, now=timezone.now())
    except InvalidDecision:
        messages.warning(request, "Too late: the decision is on its way and cannot be taken back.")
    except CheckpointChanged as told:
        by = visible_text(told.change.by)
        messages.warning(request, f"Nothing to take back: {by} {told.change.did}.")
    else:
        messages.success(request, "Taken back. Nothing was sent, and what you wrote is kept in the form.")
    return redirect(address_of(checkpoint))


def _decision_of(checkpoint: Checkpoint, form: UndoForm) -> Decision:
    """Return the decision that the form names, or without a name the one that stands; raises Http404."""
    if "decision" not in form.data:
        found: Decision | None = checkpoint.decided
    else:
        named = Decision.objects.filter(checkpoint=checkpoint.pk)
        found = named.filter(pk=form.decision_id).first() if form.is_valid() else None
    if found is None:
        raise Http404("No such decision.")
    return found
