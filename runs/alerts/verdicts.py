"""What a check is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from .incidents import Finding
from .rules import Settings

Subject: TypeAlias = tuple[int | None, str]
"""A tenant, None for the installation, and what a finding's ``subject`` says."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The moment that a check judges.

    ``window`` is the end of a closed quarter-hour, or the half minute in progress. The rule has been judged
    without a gap since ``since``: what stopped arriving before may have stopped because GuardOps did.
    """

    window: datetime
    now: datetime
    since: datetime
    settings: Settings

    def watched_for(self, span: timedelta) -> bool:
        """Say whether the rule has been judged for so long."""
        return self.now - self.since >= span


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. ``holding`` is neither found nor over: it hovers at the limit.

    ``fine`` are the subjects that were looked at and found as usual, None for all: what is in none of the
    three could not be judged, because too little happens there.
    """

    findings: Sequence[Finding] = ()
    holding: AbstractSet[Subject] = field(default_factory=frozenset)
    fine: AbstractSet[Subject] | None = None


Check: TypeAlias = Callable[[Asked], Verdict | None]
"""Judges one rule everywhere; None where nothing can be said now, and every incident stays as it is."""
