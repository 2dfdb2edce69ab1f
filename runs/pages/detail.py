"""The page of one run: why it ended, its last steps, its ledger and sources, and the runs of its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.guard.events import Action, PolicyInForce, PolicySource
from guardops.tenants.access import Visible, visible
from runs.ingest.rows import Detail
from runs.models import ExternalRun, Run
from runs.pages.story import (
    GuardLine,
    Limit,
    Line,
    StepLine,
    as_text,
    limits_in_force,
    read_detail,
    timeline,
)
from runs.reasons_text import clause, headline

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant

TASK_RUNS = 50
"""How many runs of the same task the page lists; the runs list shows the rest."""

_RUNGS: dict[str, str] = {
    Action.NUDGE: "nudge",
    Action.FORCE_ANSWER: "forced answer",
    Action.ESCALATE: "handed to a person",
    Action.HALT: "halt",
}
_POLICY_SOURCES = {
    PolicySource.SERVER: "from the server",
    PolicySource.FILE: "from a file",
    PolicySource.BUILTIN: "built-in limits",
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
    task_id: str
    task_runs: Sequence[Run]
    more_task_runs: bool

    @property
    def loop(self) -> list[StepLine]:
        """The steps of the loop, in order, where there is one."""
        return [line for line in self.lines if isinstance(line, StepLine) and line.letter]

    @property
    def calls(self) -> dict[str, str]:
        """The tool behind each letter of the loop."""
        return {line.letter: line.tool for line in self.loop}

    @property
    def hit(self) -> Limit | None:
        """The limit that stopped the run, where the run carried it."""
        return next((limit for limit in self.limits if limit.hit), None)

    @property
    def meaning(self) -> str:
        """What the halt reason means, in words."""
        return clause(self.run.halt_reason).capitalize()

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
        policy = self.detail.policy or PolicyInForce()
        return _POLICY_SOURCES[policy.src]

    @property
    def halt_detail(self) -> str:
        return as_text(self.detail.halt_detail)

    @property
    def attributes(self) -> str:
        return as_text(self.detail.attributes)


@require_safe
def run_detail(request: HttpRequest, run_id: UUID) -> HttpResponse:
    seen = visible(request.user)
    found = find_runs(seen, run_id, request.GET.get("tenant", ""))
    if len(found) > 1:
        return render(request, "runs/detail_choose.html", {"run_id": run_id, "choices": found})
    story = tell(*found[0])
    context = {"story": story, "run": story.run, "detail": story.detail, "as_of": timezone.now()}
    return render(request, "runs/detail.html", context)


def find_runs(seen: Visible, run_id: UUID, slug: str) -> list[tuple[Run, Tenant]]:
    """Return the run of that id in each tenant ``seen`` (the same id in two tenants is two runs).

    A ``slug`` asks for one tenant's. Raises Http404 where there is none, or none that may be seen.
    """
    tenants = {tenant.pk: tenant for tenant in ([seen.by_slug(slug)] if slug else seen.tenants)}
    runs = Run.objects.for_tenants(tenants).filter(run_id=run_id).order_by("tenant_id")
    if not runs:  # sent with this id, and stored under one that fits its time
        mapped = ExternalRun.objects.filter(tenant_id__in=tenants, external_id=f"run:{run_id}")
        ids = list(mapped.values_list("run_id", flat=True))
        runs = Run.objects.for_tenants(tenants).filter(run_id__in=ids)
    found = [(run, tenants[run.tenant_id]) for run in runs]
    if not found:
        raise Http404("No such run.")
    return found


def tell(run: Run, tenant: Tenant) -> Story:
    """Return everything on the run's page, in one more query: the runs of its task."""
    detail, unreadable = read_detail(run.detail)
    task_id = run.root_task_id or str(run.run_id)
    in_task = Run.objects.for_tenants([tenant.pk]).of_task(task_id).without_detail()
    task_runs = list(in_task.order_by("started_at", "run_id")[: TASK_RUNS + 1])
    return Story(
        run=run,
        tenant=tenant,
        detail=detail,
        unreadable=unreadable,
        title=headline(run),
        lines=timeline(detail, run.halt_reason or run.would_halt),
        limits=limits_in_force(run, detail),
        task_id=task_id,
        task_runs=task_runs[:TASK_RUNS],
        more_task_runs=len(task_runs) > TASK_RUNS,
    )
