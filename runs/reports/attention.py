"""What waits for somebody: incidents that nobody has acknowledged, checkpoints that nobody decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Case, Count, IntegerField, Min, Q, When

from runs.choices import IncidentState, Severity
from runs.models import Checkpoint, Incident

if TYPE_CHECKING:
    from guardops.tenants.access import Visible

NAMED = 2
"""How many incidents are named; the others are a number."""


@dataclass(frozen=True, slots=True)
class Attention:
    """What waits in the tenants that somebody sees. Times are those of the oldest checkpoint that waits."""

    incidents: list[Incident]
    """The gravest open ones, the newest of them first."""
    open_incidents: int
    acknowledged: int
    waiting: int
    over_sla: int
    claimed: int
    opened_at: datetime | None
    due_at: datetime | None

    @property
    def more_incidents(self) -> int:
        return self.open_incidents - len(self.incidents)

    @property
    def nothing(self) -> bool:
        return not (self.open_incidents or self.acknowledged or self.waiting)


def read_attention(seen: Visible, now: datetime) -> Attention:
    """Read it in three queries."""
    unresolved = Incident.objects.seen_by(seen).unresolved()
    is_open = Q(state=IncidentState.OPEN)
    counted = unresolved.aggregate(opened=Count("pk", is_open), seen=Count("pk", ~is_open))
    gravity = Case(
        *(When(severity=severity, then=place) for place, severity in enumerate(Severity)),
        output_field=IntegerField(),
    )
    gravest = unresolved.filter(is_open).select_related("tenant").order_by(gravity.desc(), "-opened_at")
    waiting = Checkpoint.objects.for_tenants(seen.ids).waiting()
    checkpoints = waiting.aggregate(
        all=Count("pk"),
        over=Count("pk", Q(due_at__lte=now)),
        claimed=Count("pk", Q(lease_until__gt=now)),
        opened_at=Min("opened_at"),
        due_at=Min("due_at"),
    )
    return Attention(
        incidents=list(gravest[:NAMED]) if counted["opened"] else [],
        open_incidents=counted["opened"],
        acknowledged=counted["seen"],
        waiting=checkpoints["all"],
        over_sla=checkpoints["over"],
        claimed=checkpoints["claimed"],
        opened_at=checkpoints["opened_at"],
        due_at=checkpoints["due_at"],
    )
