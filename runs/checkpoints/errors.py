"""Why something can't be done with a checkpoint; each has a stable ``code``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from guardops.tenants.errors import GuardOpsError

if TYPE_CHECKING:
    from runs.models import Checkpoint


@dataclass(frozen=True, slots=True)
class Change:
    """Who changed a checkpoint last, when, and how in words that go on after the name: ``claimed it``."""

    by: str
    at: datetime
    did: str


class CheckpointChanged(GuardOpsError):
    """Somebody, or the clock, was faster; nothing was changed.

    ``change`` says who, when and what; ``current`` is the checkpoint as it is now, with its decision in
    ``current.decided`` where one stands.
    """

    default_code: ClassVar[str] = "checkpoint_changed"

    def __init__(self, change: Change, current: Checkpoint) -> None:
        super().__init__(f"{change.by} {change.did} before you. Nothing of yours was carried out.")
        self.change, self.current = change, current


class InvalidDecision(GuardOpsError):
    """A decision that can't be made so; ``field`` is what to mend.

    The codes: ``no_change``, ``no_reason``, ``above_ceiling``, ``not_reconciled``, ``no_answer``,
    ``not_offered``, ``invalid_source``, ``invalid_text``, ``too_late``.
    """

    default_code: ClassVar[str] = "invalid_decision"

    def __init__(self, code: str, field: str, message: str) -> None:
        super().__init__(message, code=code)
        self.field = field


class NotAReviewer(GuardOpsError):
    """A checkpoint can only be handed to somebody who may decide it."""

    default_code: ClassVar[str] = "not_a_reviewer"


class UnknownCheckpoint(GuardOpsError):
    """The tenant has no such checkpoint, or none yet; or the checkpoint has no such decision."""

    default_code: ClassVar[str] = "unknown_checkpoint"


class AlreadyConsumed(GuardOpsError):
    """Another attempt has the grant; ``attempt_id`` says which, ``at`` since when."""

    default_code: ClassVar[str] = "already_consumed"

    def __init__(self, attempt_id: UUID, at: datetime) -> None:
        super().__init__(f"The attempt {attempt_id} has had this decision since {at.isoformat()}.")
        self.attempt_id, self.at = attempt_id, at


class WrongArtifact(GuardOpsError):
    """The work has changed since the person looked at it."""

    default_code: ClassVar[str] = "wrong_artifact"


class NotDelivered(GuardOpsError):
    """The decision can still be undone, or was not handed out."""

    default_code: ClassVar[str] = "not_delivered"


class DecisionExpired(GuardOpsError):
    """Nobody consumed the decision in time."""

    default_code: ClassVar[str] = "decision_expired"
