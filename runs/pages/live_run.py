"""What is known of a run that has not ended: how near it is to its limits, and its last sign of life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from guardops import shown
from guardops.guard import events
from runs.pages.limits import Pressure, pressures_of
from runs.pages.story import policy_source, read_detail
from runs.pages.task import TaskTree, read_task
from runs.querysets import NEAR_LIMIT_PERCENT, SILENT_AFTER

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant
    from runs.ingest.rows import Detail
    from runs.models import LiveRun


@dataclass(frozen=True, slots=True)
class LiveStory:
    """Everything on the page of a live run at ``now``."""

    run: LiveRun
    tenant: Tenant
    detail: Detail
    pressures: Sequence[Pressure]
    sources: Sequence[events.Source]
    task: TaskTree
    now: datetime

    @property
    def is_silent(self) -> bool:
        return self.now - self.run.last_at > SILENT_AFTER

    @property
    def is_pressed(self) -> bool:
        return self.run.pressure >= NEAR_LIMIT_PERCENT

    @property
    def title(self) -> str:
        """The run in one line: ``Running: 37 steps so far, 92 % of its steps used``."""
        steps = f"{self.run.steps:,} step{'' if self.run.steps == 1 else 's'}"
        if self.is_silent:
            return f"Silent for {shown.duration(self.now - self.run.last_at)} after {steps}"
        top = self.pressures[0] if self.pressures and self.pressures[0].severity else None
        return f"Running: {steps} so far" + (f", {top.percent} % of a limit used" if top else "")

    @property
    def policy_source(self) -> str:
        return policy_source(self.detail)


def tell_live(run: LiveRun, tenant: Tenant, now: datetime) -> LiveStory:
    """Return everything on the live run's page, in three more queries: those of its task."""
    detail, _ = read_detail(run.detail or {})
    try:
        sources = msgspec.convert(run.sources or [], list[events.Source], strict=False)
    except msgspec.ValidationError:
        sources = []
    return LiveStory(
        run=run,
        tenant=tenant,
        detail=detail,
        pressures=pressures_of(
            run.pressures or {},
            detail.limits,
            {"max_steps": run.steps, "max_turns": run.turns, "max_cost": run.cost},
        ),
        sources=sources,
        task=read_task(tenant, run),
        now=now,
    )
