"""The page of one run: why it ended, its last steps, its ledger and sources, and the runs of its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRefresh

from guardops.guard.events import Action, PolicyInForce
from guardops.htmx import wants_fragment
from guardops.tenants.access import Visible, role_in, visible
from guardops.tenants.choices import Role
from runs.ingest.rows import Detail
from runs.models import ExternalRun, LiveRun, Run, StopReview
from runs.pages.fingerprints import Fingerprint, fingerprints_of
from runs.pages.limits import Limit, limits_in_force
from runs.pages.live_run import tell_live
from runs.pages.story import GuardLine, Line, StepLine, as_text, policy_source, read_detail, timeline
from runs.pages.task import TaskTree, read_task
from runs.reasons_text import clause, headline
from runs.reports.pages import PageRequest
from runs.review.stops import current_review, judged_reason

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant, User

_RUNGS: dict[str, str] = {
    Action.NUDGE: "nudge",
    Action.FORCE_ANSWER: "forced answer",
    Action.ESCALATE: "handed to a person",
    Action.HALT: "halt",
}


@dataclass(frozen=True, slots=True)
class Story:
    """Everything on a run's page."""

    run: Run
    tenant: Tenant
    detail: Detail
    unreadable: Sequence[str]
    title: str
    lines: Sequence[Line]
    limits: Sequence[Limit]
    fingerprints: Sequence[Fingerprint]
    task: TaskTree
    review: StopReview | None = None
    may_review: bool = False

    @property
    def loop(self) -> list[StepLine]:
        """The steps of the loop, in order, where there is one."""
        return [line for line in self.lines if isinstance(line, StepLine) and line.letter]

    @property
    def hit(self) -> Limit | None:
        """The limit that stopped the run, where the run carried it."""
        return next((limit for limit in self.limits if limit.hit), None)

    @property
    def meaning(self) -> str:
        """What the reason of the stop means, in words."""
        return clause(self.run.halt_reason or self.run.would_halt).capitalize()

    @property
    def counted_limits(self) -> list[Limit]:
        """The limits that the run is known to have used, and the one that stopped it."""
        return [limit for limit in self.limits if limit.used or limit.hit]

    @property
    def other_limits(self) -> list[Limit]:
        return [limit for limit in self.limits if not (limit.used or limit.hit)]

    @property
    def first_step(self) -> int | None:
        return min((line.step for line in self.lines if isinstance(line, StepLine)), default=None)

    @property
    def last_step(self) -> int | None:
        return max((line.step for line in self.lines if isinstance(line, StepLine)), default=None)

    @property
    def last_said(self) -> str:
        """How the last step ended, in words."""
        return next((line.said for line in reversed(self.lines) if isinstance(line, StepLine)), "")

    @property
    def beside(self) -> list[Limit]:
        """What else was counted, beside the limit that stopped the run."""
        named = {limit.name: limit for limit in self.limits if limit.used and not limit.hit}
        return [named[name] for name in ("max_steps", "max_cost", "max_seconds") if name in named]

    @property
    def hidden_steps(self) -> int:
        """How many steps ran before the last ones, which alone are kept."""
        return max((self.first_step or 1) - 1, 0)

    @property
    def ladder(self) -> str:
        """What the guard did, in order: ``nudge at 18 → halt at 24``."""
        rungs = [line for line in self.lines if isinstance(line, GuardLine) and line.action in _RUNGS]
        return " → ".join(f"{_RUNGS[line.action]} at {line.step}" for line in rungs)

    @property
    def policy_source(self) -> str:
        return policy_source(self.detail)

    @property
    def policy(self) -> PolicyInForce:
        return self.detail.policy or PolicyInForce()

    @property
    def judged(self) -> str:
        """The reason that a reviewer judges; empty where no guard stopped the run or would have."""
        return judged_reason(self.run)

    @property
    def attempts(self) -> int:
        """The highest attempt of the task that is known."""
        return max([self.run.attempt, *(attempt.attempt for attempt in self.task.attempts)])

    @property
    def truncated(self) -> list[str]:
        """What the guard cut, but for the steps, whose panel says so itself."""
        return [name for name in self.detail.truncated if name != "last_steps"]

    @property
    def halt_detail(self) -> str:
        return as_text(self.detail.halt_detail)

    @property
    def attributes(self) -> str:
        return as_text(self.detail.attributes)


@require_safe
@vary_on_headers("HX-Request")
def run_detail(request: PageRequest, run_id: UUID) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    found = find_runs(seen, run_id, request.GET.get("tenant", ""))
    if len(found) > 1:
        return render(request, "runs/detail_choose.html", {"run_id": run_id, "choices": found})
    ((run, tenant),) = found
    fragment = wants_fragment(request)
    if isinstance(run, LiveRun):
        context = {"story": tell_live(run, tenant, now), "run": run, "as_of": now}
        return render(request, "runs/_live_run.html" if fragment else "runs/live_run.html", context)
    if fragment:  # the run that this page has followed has ended
        return HttpResponseClientRefresh()
    story = tell(run, tenant, request.user)
    context = {"story": story, "run": run, "detail": story.detail, "as_of": now}
    return render(request, "runs/detail.html", context)


def find_runs(seen: Visible, run_id: UUID, slug: str) -> list[tuple[Run | LiveRun, Tenant]]:
    """Return the run of that id in each tenant ``seen`` (the same id in two tenants is two runs).

    A ``slug`` asks for one tenant's. Raises Http404 where there is none, or none that may be seen.
    """
    tenants = {tenant.pk: tenant for tenant in ([seen.by_slug(slug)] if slug else seen.tenants)}
    ended = Run.objects.for_tenants(tenants).filter(run_id=run_id).order_by("tenant_id")
    live = LiveRun.objects.for_tenants(tenants).filter(run_id=run_id).order_by("tenant_id")
    runs: list[Run | LiveRun] = [*ended, *live]
    if not runs:  # sent with this id, and stored under one that fits its time
        mapped = ExternalRun.objects.filter(tenant_id__in=tenants, external_id=f"run:{run_id}")
        ids = list(mapped.values_list("run_id", flat=True))
        runs = list(Run.objects.for_tenants(tenants).filter(run_id__in=ids)) if ids else []
    if not runs:
        raise Http404("No such run.")
    return [(run, tenants[run.tenant_id]) for run in runs]


def find_ended(seen: Visible, run_id: UUID, slug: str) -> tuple[Run, Tenant]:
    """Return the one ended run of that id among those ``seen``; raises Http404 where there is none.

    Where several tenants have one, ``slug`` must say whose.
    """
    ended = [(run, tenant) for run, tenant in find_runs(seen, run_id, slug) if isinstance(run, Run)]
    if len(ended) != 1:
        raise Http404("No such run, or more than one.")
    return ended[0]


def tell(run: Run, tenant: Tenant, reader: User) -> Story:
    """Return everything on the run's page, in few more queries: its task, and for a stop its review."""
    detail, unreadable = read_detail(run.detail)
    lines = timeline(detail, run.halt_reason or run.would_halt)
    held = role_in(reader, tenant) if judged_reason(run) else None
    return Story(
        run=run,
        tenant=tenant,
        detail=detail,
        unreadable=unreadable,
        title=headline(run),
        lines=lines,
        limits=limits_in_force(run, detail),
        fingerprints=fingerprints_of(lines, detail.ledger),
        task=read_task(tenant, run),
        review=current_review(run) if held else None,
        may_review=held is not None and held.rank >= Role.REVIEWER.rank,
    )
