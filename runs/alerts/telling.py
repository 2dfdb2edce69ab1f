"""Who is told of what: which transitions go to the outbox, and what a silence keeps from it."""

from __future__ import annotations

from datetime import datetime

from runs.choices import Transition
from runs.models import Incident, Silence
from runs.notify.outbox import enqueue_incident

LOUD = frozenset({Transition.OPENED, Transition.WORSE, Transition.UNSILENCED})
"""They ask for somebody's attention. Reopening only of those who were not told that it began."""
_SOFT = frozenset({Transition.ACKNOWLEDGED, Transition.RESOLVED})


def tell(incident: Incident, transition: Transition, *, now: datetime) -> bool:
    """Hand a transition to the outbox, in the transaction that makes it; False where a silence keeps it back.

    That it is acknowledged or over goes on to those alone who were told that it began.
    """
    calls = transition in LOUD or transition == Transition.REOPENED
    if calls and is_silenced(incident, now):
        return False
    if calls or transition in _SOFT:
        enqueue_incident(incident, transition, now=now)
    return True


def is_silenced(incident: Incident, now: datetime) -> bool:
    """Say whether a silence covers it now."""
    return Silence.objects.in_force(now).covering(incident).exists()
