"""Deciding several checkpoints alike: a page that names them first, then one result for each.

Every one is decided for itself, at the version that the preview showed: what somebody else changed meanwhile
is left alone and told, and undoes nothing of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from guardops.guard.decisions import DecisionAction
from guardops.tenants.access import Visible, visible
from runs.checkpoints.ceiling import Ceiling, ceiling_of
from runs.checkpoints.decide import MAX_AT_ONCE, decide_many, undo
from runs.checkpoints.errors import CheckpointChanged, InvalidDecision
from runs.checkpoints.queue import Row, reviewed_tenants, rows_of
from runs.checkpoints.words import ACTIONS
from runs.models import Checkpoint, Decision
from runs.reports.pages import PageRequest

from .bulk_form import BulkForm
from .people import for_people
from .tokens import Token, read_tokens

if TYPE_CHECKING:
    from guardops.tenants.models import User


DOES: dict[DecisionAction, str] = {
    DecisionAction.RESUME: "Each goes on as its next attempt, with what you change and what it has left.",
    DecisionAction.FORCE_ANSWER: "Each gets one turn without tools, and its answer is marked incomplete.",
    DecisionAction.STOP: "Each task ends unresolved, at once. That cannot be undone.",
}
"""What can be decided for several alike, and what it does; an answer or an approval is one run's."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of the chosen checkpoints: as its reader sees it, and why it is left out, if it is."""

    row: Row
    version: int
    why_not: str = ""

    @property
    def token(self) -> Token:
        checkpoint = self.row.checkpoint
        return Token(self.row.tenant.slug, checkpoint.checkpoint_id, self.version)

    @property
    def warning(self) -> str:
        """What to know before: somebody else works on it."""
        row = self.row
        return f"{row.claimant} works on it" if row.claimed and not row.is_mine else ""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one: the decision, or why there is none."""

    row: Row
    decision: Decision | None = None
    problem: str = ""


@for_people
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def review_bulk(request: PageRequest) -> HttpResponse:
    acts_in, now = reviewed_tenants(request.user), timezone.now()
    if not acts_in:
        raise PermissionDenied("This needs the role reviewer in a tenant.")
    action = _action(request.POST.get("action", ""))
    if "undo" in request.POST:
        return _undo_all(request, action, acts_in, now)
    tokens = read_tokens(request.POST.getlist("pick"))
    named = tokens[:MAX_AT_ONCE]
    found = chosen_of(named, visible(request.user), request.user, action, now)
    form = BulkForm(action, _least(found, action, now), request.POST if "do" in request.POST else None)
    context = _context(request, action, found) | {"form": form, "unknown": len(named) - len(found)}
    # Nothing is decided that no preview named, with the version that it showed.
    seen = found and len(tokens) == len(named) and all(token.version for token in named)
    if not (seen and form.is_valid()):
        context["too_many"] = len(tokens) > len(named)
        return render(request, "runs/checkpoints/bulk.html", context)
    told = _decide(found, form, request.user, now)
    return render(request, "runs/checkpoints/bulk_done.html", context | _results(told))


def chosen_of(
    tokens: Sequence[Token], seen: Visible, user: User, action: DecisionAction, now: datetime
) -> list[Chosen]:
    """Return those of the chosen that may be seen, in the order they were chosen in."""
    ids = {tenant.slug: tenant.pk for tenant in seen.tenants}
    named = {(ids[token.slug], token.checkpoint_id): token for token in tokens if token.slug in ids}
    found = Checkpoint.objects.filter(_any_of(named)).select_related("tenant", "claimed_by", "last_by")
    rows = {
        (row.checkpoint.tenant_id, row.checkpoint.checkpoint_id): row for row in rows_of(found, user, now)
    }
    return [
        Chosen(rows[key], token.version or rows[key].checkpoint.version, why_not(rows[key], action))
        for key, token in named.items()
        if key in rows
    ]


def why_not(row: Row, action: DecisionAction) -> str:
    """Return why a checkpoint can't be decided together with others; empty where it can."""
    if not row.is_reviewer:
        return f"You may read {row.tenant.slug}, but not decide there."
    if not row.waits:
        return f"{row.last}."
    if not row.can_decide:
        return "Its time is over."
    if row.checkpoint.uncertain and action is not DecisionAction.STOP:
        return "A write of it may have happened: open it and say so first."
    return ""


def _decide(found: Sequence[Chosen], form: BulkForm, actor: User, now: datetime) -> list[Told]:
    """Decide those that can be; return what became of each of the chosen, in their order."""
    pairs = [(one.row.checkpoint, one.version) for one in found if not one.why_not]
    results = {one.checkpoint.pk: one for one in decide_many(pairs, form.choice(), actor=actor, now=now)}
    told = []
    for one in found:
        result = results.get(one.row.checkpoint.pk)
        problem = result.error.message if result and result.error else one.why_not
        told.append(Told(one.row, result.decision if result else None, problem))
    return told


def _any_of(keys: Any) -> Q:
    found = Q(pk__in=[])
    for tenant_id, checkpoint_id in keys:
        found |= Q(tenant_id=tenant_id, checkpoint_id=checkpoint_id)
    return found


def _undo_all(
    request: PageRequest, action: DecisionAction, acts_in: Sequence[int], now: datetime
) -> HttpResponse:
    """Take back what was decided together, as far as it is still here."""
    ids = _ids(request.POST.getlist("undo"))
    mine = Decision.objects.standing().filter(tenant_id__in=acts_in, by=request.user)
    found = mine.select_related("checkpoint__tenant").in_bulk(ids)
    told = []
    for decision in (found[one] for one in ids if one in found):
        problem = ""
        try:
            undo(decision, actor=request.user, now=now)
        except (CheckpointChanged, InvalidDecision) as error:
            problem = error.message
        told += [Told(Row(decision.checkpoint, request.user, True, now), problem=problem)]
    done = sum(not one.problem for one in told)
    context = _context(request, action, []) | {"told": told, "done": done, "undone": True}
    return render(request, "runs/checkpoints/bulk_done.html", context)


def _results(told: Sequence[Told]) -> dict[str, Any]:
    made = [one.decision for one in told if one.decision]
    undoable = [one for one in made if one.deliver_at > timezone.now()]
    return {
        "told": told,
        "done": len(made),
        "undoable": undoable,
        "undo_until": min((one.deliver_at for one in undoable), default=None),
    }


def _context(request: PageRequest, action: DecisionAction, found: Sequence[Chosen]) -> dict[str, Any]:
    return {
        "action": action,
        "words": ACTIONS[action],
        "does": DOES[action],
        "ready": [one for one in found if not one.why_not],
        "left": [one for one in found if one.why_not],
        "most": MAX_AT_ONCE,
        "query": QueryDict(request.POST.get("query", "")).urlencode(),
        "many": True,
    }


def _action(text: str) -> DecisionAction:
    return DecisionAction(text) if text in DOES else DecisionAction.STOP


def _ids(texts: Sequence[str]) -> list[UUID]:
    """Return the ids that the texts write, each once."""
    return list(dict.fromkeys(_read_ids(texts)))[:MAX_AT_ONCE]


def _read_ids(texts: Sequence[str]) -> Iterator[UUID]:
    for text in texts:
        try:
            yield UUID(text)
        except ValueError:
            continue


def _least(found: Sequence[Chosen], action: DecisionAction, now: datetime) -> Ceiling:
    """Return what a resume may add to each of them."""
    if action is not DecisionAction.RESUME:
        return Ceiling()
    acted_on = [one.row.checkpoint for one in found if one.row.is_reviewer]
    alike = {(checkpoint.tenant_id, checkpoint.job_type): checkpoint for checkpoint in acted_on}
    ceilings = [ceiling_of(checkpoint, now) for checkpoint in alike.values()]
    return Ceiling(
        steps=min((one.steps for one in ceilings), default=0),
        seconds=min((one.seconds for one in ceilings), default=0),
        cost=min((one.cost for one in ceilings), default=Decimal(0)),
    )
