"""Writing a note on a checkpoint."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from runs.checkpoints.notes import add_note
from runs.reports.pages import PageRequest

from .brief import tell
from .finding import address_of, find_to_act
from .forms import NoteForm
from .people import for_people


@for_people
@never_cache
@require_POST
def write_note(request: PageRequest, checkpoint_id: UUID) -> HttpResponse:
    checkpoint, now = find_to_act(request, checkpoint_id), timezone.now()
    form = NoteForm(request.POST)
    if not form.is_valid():
        context = {
            "brief": tell(checkpoint, request.user, now),
            "checkpoint": checkpoint,
            "tenant": checkpoint.tenant,
            "note_form": form,
            "as_of": now,
        }
        return render(request, "runs/checkpoints/note.html", context)
    add_note(checkpoint, form.cleaned_data["text"], actor=request.user, now=now)
    messages.success(request, "Noted.")
    return redirect(f"{address_of(checkpoint)}#notes")
