"""Who is told of what: which transitions go to the outbox, and what a silence keeps from it."""

from __future__ import annotations

from datetime import datetime

from runs.choices import Transition
from runs.models import Incident, Silence

LOUD = frozenset({Transition.OPENED, Transition.WORSE, Transition.UNSILENCED})
"""They ask for somebody's attention; reopening does not, since it was told when it opened."""


def tell(incident: Incident, transition: Transition, *, now: datetime) -> bool:
    """Hand the transition to the outbox, in the caller's transaction; False where a silence keeps it.

    That it was acknowledged or is over is told to those alone who were told that it began.
    """
    if transition in LOUD:
        return not Silence.objects.in_force(now).covering(incident).exists()
    return True


def was_told(incident: Incident) -> bool:
    """Say whether somebody was told of it since it last opened."""
    told = False
    for transition, silenced in incident.steps.values_list("transition", "silenced"):
        if transition in (Transition.OPENED, Transition.REOPENED):
            told = False
        told = told or (transition in LOUD and not silenced)
    return told
