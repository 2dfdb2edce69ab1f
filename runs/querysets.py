"""Questions about runs, as queryset verbs; each measure of ``runs.reports.metrics`` has one that counts it.

A verb only narrows. ``for_tenants`` comes first, ``within`` second: together they decide which partitions and
which index a query reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from django.apps import apps
from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.expressions import RawSQL

from guardops.guard.events import Answer, Outcome
from guardops.guard.reasons import Family, canonical

from .partitions import run_id_bounds

if TYPE_CHECKING:
    from .reports.metrics import Window

ALL_TENANTS = 0
"""Stands for every tenant in a scope; only an operator's scope holds it."""

COST_PARTS: dict[str, tuple[Outcome, ...]] = {
    "useful": (Outcome.COMPLETED,),
    "forced": (Outcome.COMPLETED_FORCED, Outcome.UNRESOLVED),
    "halted": (Outcome.HALTED, Outcome.ESCALATED),
    "failed": (Outcome.FAILED, Outcome.CANCELLED),
}
"""What a run's cost was spent on, by how the run ended; every outcome is in exactly one part."""


NEAR_LIMIT_PERCENT = 80
SILENT_AFTER = timedelta(minutes=5)


_USED = """\
EXISTS (SELECT FROM json_to_recordset("run"."detail" -> 'sources') AS used(kind text, name text)
    WHERE used.kind = %s AND used.name = %s)"""


class TenantsQuerySet(models.QuerySet[Any]):
    def for_tenants(self, tenant_ids: Iterable[int]) -> Self:
        """Rows of these tenants; ``ALL_TENANTS`` among them means of every one."""
        ids = tuple(tenant_ids)
        if ALL_TENANTS in ids:
            return self.all()
        return self.filter(tenant_id=ids[0]) if len(ids) == 1 else self.filter(tenant_id__in=ids)


class TaskRunsQuerySet(TenantsQuerySet):
    """What ended runs and live ones are both narrowed by."""

    def of_job(self, job_type: str) -> Self:
        return self.filter(job_type=job_type)

    def of_release(self, release: str) -> Self:
        return self.filter(release=release)

    def of_task(self, root_task_id: str) -> Self:
        """Runs of a task; a run that names no task is its own, under its run id."""
        own = as_id(root_task_id)
        found = Q(root_task_id=root_task_id)
        return self.filter(found if own is None else found | Q(run_id=own, root_task_id=""))


class RunQuerySet(TaskRunsQuerySet):
    def within(self, window: Window) -> RunQuerySet:
        """Runs placed in the window."""
        return self.between(window.start, window.end)

    def between(self, start: datetime, end: datetime) -> RunQuerySet:
        """Runs placed in [start, end), with the range of ids that implies, so that partitions prune."""
        low, high = run_id_bounds(start, end)
        return self.filter(at__gte=start, at__lt=end, run_id__gte=low, run_id__lt=high)

    def delegated(self) -> RunQuerySet:
        """Runs that another run started: a task's descendants."""
        return self.exclude(parent_run_id=None)

    def ended_as(self, outcomes: Iterable[str]) -> RunQuerySet:
        return self.filter(outcome__in=tuple(outcomes))

    def halted(self) -> RunQuerySet:
        """Runs that ended halted or escalated: the halted share."""
        return self.ended_as(COST_PARTS["halted"])

    def forced(self) -> RunQuerySet:
        """Runs that ended with a forced answer: the forced share."""
        return self.ended_as([Outcome.COMPLETED_FORCED])

    def stopped(self) -> RunQuerySet:
        """Runs with a guard's halt reason, whatever they ended as: halts by reason."""
        return self.exclude(halt_reason="")

    def reviewable(self) -> RunQuerySet:
        """Runs with a stop to review: a guard stopped them, or in shadow mode would have."""
        return self.exclude(halt_reason="", would_halt="")

    def only_watched(self) -> RunQuerySet:
        """Runs that no guard stopped, and that would have been stopped but for shadow mode."""
        return self.filter(halt_reason="").exclude(would_halt="")

    def would_stop_for(self, reason: str) -> RunQuerySet:
        """Of those, the ones that would have been stopped for a code or one of its aliases."""
        return self.filter(halt_reason="", would_halt=canonical(reason))

    def judged_for(self, detector: str) -> RunQuerySet:
        """Runs whose stop somebody has reviewed, with this as the reason that was judged."""
        reviews = apps.get_model("runs", "StopReview").objects.filter(
            tenant=OuterRef("tenant_id"), run_id=OuterRef("run_id"), detector=detector
        )
        return self.filter(Exists(reviews))

    def of_family(self, family: str) -> RunQuerySet:
        return self.filter(family=family)

    def stopped_for(self, reason: str) -> RunQuerySet:
        """Runs stopped for a code or one of its aliases; ``other`` means every code the catalogue lacks."""
        if reason == Family.OTHER:
            return self.of_family(Family.OTHER)
        return self.filter(halt_reason=canonical(reason))

    def looped(self) -> RunQuerySet:
        """Runs that the loop rate counts."""
        return self.filter(looped=True)

    def blocked(self) -> RunQuerySet:
        """Runs with a blocked fingerprint."""
        return self.filter(blocked__gt=0)

    def with_duplicates(self) -> RunQuerySet:
        return self.filter(duplicates__gt=0)

    def provider_failures(self) -> RunQuerySet:
        """Runs that a provider's failure ended: shown beside the loop rate, never in it."""
        return self.filter(provider_failure=True)

    def completing(self) -> RunQuerySet:
        """Runs that completed their task, one a task: completed tasks."""
        return self.filter(completes=True)

    def eligible(self) -> RunQuerySet:
        """First attempts of root runs whose task counts: eligible tasks."""
        return self.filter(eligible=True)

    def answered(self) -> RunQuerySet:
        return self.exclude(answer=Answer.NONE)

    def of_cost_part(self, part: str) -> RunQuerySet:
        """Runs whose cost is in this part of the cost per completed task."""
        return self.ended_as(COST_PARTS[part])

    def from_attempt(self, attempt: int) -> RunQuerySet:
        """Runs of this attempt or a later one; from 2 on their cost is the part of later attempts."""
        return self.filter(attempt__gte=attempt)

    def counted_in(self, step_unit: str) -> RunQuerySet:
        return self.filter(step_unit=step_unit)

    def with_steps_from(self, low: int) -> RunQuerySet:
        return self.filter(steps__gte=low)

    def with_steps_to(self, high: int) -> RunQuerySet:
        return self.filter(steps__lte=high)

    def near_cap(self) -> RunQuerySet:
        """Runs that took 90 % of the cap on their steps or more."""
        return self.filter(steps__gte=F("step_cap") - F("step_cap") / 10)

    def stopped_with(self, kind: str, name: str) -> RunQuerySet:
        """Runs that a guard stopped and that used a source."""
        sources = apps.get_model("runs", "RunSource").objects
        used = sources.filter(
            tenant_id=OuterRef("tenant_id"), kind=kind, name=name, run_id=OuterRef("run_id")
        )
        return self.stopped().filter(Exists(used))

    def that_used(self, kind: str, name: str) -> RunQuerySet:
        """Runs that used a source: each is looked into, so hand it a short range or few tenants."""
        return self.filter(RawSQL(_USED, [kind, name], models.BooleanField()))

    def matching(self, text: str) -> RunQuerySet:
        """Runs whose id, root task or agent is ``text`` or begins with it (ids from eight hex digits on)."""
        found = Q(root_task_id__startswith=text) | Q(agent__startswith=text)
        ids = ids_beginning(text)
        if ids is not None:
            found |= Q(run_id__range=ids)
        return self.filter(found)

    def without_detail(self) -> RunQuerySet:
        """Leave the json column unread: lists never show it."""
        return self.defer("detail", "body_digest")


class LiveRunQuerySet(TaskRunsQuerySet):
    def under_pressure(self) -> Self:
        """Runs that have used 80 % of one of their limits or more."""
        return self.filter(pressure__gte=NEAR_LIMIT_PERCENT)

    def silent(self, now: datetime) -> Self:
        """Runs without a sign of life for five minutes: started, and never ended."""
        return self.filter(last_at__lt=now - SILENT_AFTER)


class RefusedWorkQuerySet(TenantsQuerySet):
    def between(self, start: datetime, end: datetime) -> Self:
        """Refusals placed in [start, end)."""
        return self.filter(at__gte=start, at__lt=end)

    def of_task(self, root_task_id: str) -> Self:
        return self.filter(root_task_id=root_task_id)


def as_id(text: str) -> UUID | None:
    """Return the id that ``text`` writes in full, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None


def ids_beginning(text: str) -> tuple[UUID, UUID] | None:
    """Return the lowest and highest id that begins with ``text``; None where it is no prefix of an id."""
    digits = text.replace("-", "").lower()
    if not 8 <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
