"""What a run's guard answers: before a tool call, after its result, and around a model turn."""

from __future__ import annotations

from msgspec import Struct

from guardops.guard.events import Action
from guardops.guard.reasons import Reason
from guardops.guard.state import Ticket


class Check(Struct, frozen=True):
    """The answer before a tool call. The call may run when, and only when, there is a ticket."""

    action: Action
    reason: Reason | None = None
    ticket: Ticket | None = None
    not_before: float | None = None
    """With ``wait``: when the call may be proposed again, in seconds since the run's start."""
    message: str = ""
    """What to tell the agent instead of a result."""
    leader: int | None = None
    """With ``duplicate_in_flight`` on a read: the number of the ticket whose result may be shared."""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.ticket is not None


class Verdict(Struct, frozen=True):
    """The answer after a result or a model turn."""

    action: Action
    reason: Reason | None = None
    message: str = ""


CONTINUE = Verdict(Action.CONTINUE)
