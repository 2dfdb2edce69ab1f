"""What a resume may add to the budget of its task, and what the task has left."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from guardops.guard.checkpoints import Amounts

from .packet import Packet, read_packet
from .rules import review_rules

if TYPE_CHECKING:
    from runs.models import Checkpoint

_MICRO = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that one resume may add (0: nothing), by the job type's policy; ``left`` comes on top.

    ``left`` is what the guard said when it handed over; what has no figure there is not limited.
    """

    steps: int = 0
    seconds: int = 0
    cost: Decimal = Decimal(0)
    left: Amounts = field(default_factory=Amounts)

    def __bool__(self) -> bool:
        return bool(self.steps or self.seconds or self.cost)


def ceiling_of(checkpoint: Checkpoint, now: datetime, packet: Packet | None = None) -> Ceiling:
    """Return what the tenant's newest policy lets a resume of this checkpoint add."""
    most = review_rules(checkpoint.tenant_id, checkpoint.job_type, now).resume_max
    return Ceiling(
        steps=most.get("steps", 0),
        seconds=most.get("seconds", 0),
        cost=most.get("cost", 0) * _MICRO,
        left=(packet or read_packet(checkpoint)).remaining,
    )
