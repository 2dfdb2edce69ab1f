"""A stopped task's sub-agents: those in other places hear of it by a stop order, as of any other."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from guardops.guard.decisions import DecisionAction
from policies.choices import StopScope
from policies.publish.stops import issue_stop

if TYPE_CHECKING:
    from guardops.tenants.actors import System
    from guardops.tenants.models import User
    from runs.models import Checkpoint, Decision

HOLDS = timedelta(days=1)
"""How long the order stands: longer than any sub-agent works."""


def stop_sub_agents(
    checkpoint: Checkpoint, decision: Decision, *, actor: User | System, now: datetime
) -> None:
    """Order the task's sub-agents to stop, where the decision ends the task while some are at work.

    The agent itself halts its root by the decision, but only for processes that share its state. Call it in
    the decision's transaction.
    """
    task = checkpoint.root_task_id or str(checkpoint.run_id or "")
    if decision.action != DecisionAction.STOP or not checkpoint.sub_agents or not task.strip():
        return  # an order for a task of no name would be one for nothing
    reason = "Its task was stopped in review." if decision.by_id else "Nobody decided on its task in time."
    issue_stop(
        checkpoint.tenant, StopScope.TASK, task, reason=reason, actor=actor, now=now, expires_at=now + HOLDS
    )
