"""Reviewing a stop: was it right? The only writer of `StopReview`.

Two reviewers may look at the same run. Each write names the review that its author was shown, by its time,
and happens only while that one still stands: who comes second is told who was first, and nothing is
overwritten unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from django.apps import apps

from guardops.tenants.actors import acting
from guardops.tenants.errors import GuardOpsError
from runs.choices import StopVerdict
from runs.models import StopReview

if TYPE_CHECKING:
    from guardops.tenants.models import User
    from runs.models import Run

_WORDS = {"insert": "marked it", "update": "changed the mark", "delete": "withdrew the mark"}


class NotStopped(GuardOpsError):
    """No guard stopped the run, nor would have in shadow mode: there is nothing to judge."""

    default_code: ClassVar[str] = "not_stopped"


@dataclass(frozen=True, slots=True)
class Change:
    """Who changed a run's review last, when, and how in words: ``marked it``, ``withdrew the mark``."""

    by: str
    at: datetime
    did: str


class ReviewChanged(GuardOpsError):
    """Somebody reviewed the run, or withdrew their review, since the page was loaded.

    ``change`` says who and when, ``current`` is the review that stands, None where none does.
    """

    default_code: ClassVar[str] = "review_changed"

    def __init__(self, change: Change | None, current: StopReview | None) -> None:
        super().__init__("Somebody reviewed this stop since you opened it. Nothing of yours was saved.")
        self.change, self.current = change, current


def judged_reason(run: Run) -> str:
    """Return why a guard stopped the run, or in shadow mode would have; empty where neither is so."""
    return run.halt_reason or run.would_halt


def current_review(run: Run) -> StopReview | None:
    """Return the review of the run that counts, with its author, in one query."""
    return StopReview.objects.select_related("by").filter(tenant=run.tenant_id, run_id=run.run_id).first()


def review_stop(
    run: Run,
    *,
    verdict: StopVerdict,
    detector: str,
    note: str,
    actor: User,
    now: datetime,
    seen: datetime | None,
) -> StopReview:
    """Record what ``actor`` thinks of a stop; ``seen`` is the ``at`` of the review they were shown, if any.

    ``detector`` is the reason judged (at most 64 characters), ``note`` at most 2,000. Raises NotStopped and
    ReviewChanged. Who may review is asked of `guardops.tenants.access`.
    """
    if not judged_reason(run):
        raise NotStopped("No guard stopped this run, so there is no stop to review.")
    values = {"verdict": verdict, "detector": detector, "note": note, "by": actor, "at": _later(now, seen)}
    key = {"tenant_id": run.tenant_id, "run_id": run.run_id}
    with acting(actor):
        if seen is None:
            # The unique key lets one of two first reviews in; the other finds it.
            _, made = StopReview.objects.get_or_create(**key, defaults=values)
        else:
            # Compare-and-set on the time of the review that was shown.
            made = StopReview.objects.filter(**key, at=seen).update(**values) == 1
        if made:
            return StopReview.objects.get(**key)
    raise _changed(run)


def withdraw_review(run: Run, *, actor: User, seen: datetime) -> None:
    """Take back the review whose ``at`` is ``seen``; raises ReviewChanged where it no longer stands."""
    with acting(actor):
        # Compare-and-set, as above; the trail keeps what was deleted.
        deleted, _ = StopReview.objects.filter(tenant=run.tenant_id, run_id=run.run_id, at=seen).delete()
    if not deleted:
        raise _changed(run)


def _later(now: datetime, seen: datetime | None) -> datetime:
    """Return ``now``, or just after ``seen`` where a clock stands: each review has a time of its own."""
    return now if seen is None else max(now, seen + timedelta(microseconds=1))


def _changed(run: Run) -> ReviewChanged:
    trail = apps.get_model("runs", "StopReviewEvent")  # made by the model's decorator, so nothing to import
    changes = trail.objects.filter(tenant=run.tenant_id, run_id=run.run_id)
    last = changes.order_by("-pgh_id").first()
    change = None
    if last is not None:
        actor = (last.pgh_context or {}).get("actor", {})
        change = Change(actor.get("name", ""), last.pgh_created_at, _WORDS.get(last.pgh_label, "changed it"))
    return ReviewChanged(change, current_review(run))
