"""A replay in parts: the newest day first, as many as fit a second, and a signed token that goes on from it.

The token holds the counts so far and the runs to list. It is bound to whoever asks and to what is asked, so
that nobody is shown another's; where the policies changed meanwhile, the replay begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

from django.core import signing

from .counting import Listed, Stratum, count_fates, list_fates
from .replay import Fate, Tally

DAY = timedelta(days=1)
BUDGET_S = 0.7
"""Seconds after which an answer goes out with what is counted so far."""
MOST_LISTED = 50

_SALT = "runs.policy-replay"
_LIFE = timedelta(hours=1)


@dataclass(slots=True)
class Replaying:
    """How far a replay of the ``days`` before ``end`` has come: ``done`` of them."""

    end: datetime
    days: int
    done: int = 0
    tally: Tally = field(default_factory=Tally)
    listed: list[Listed] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.done >= self.days

    @property
    def start(self) -> datetime:
        return self.end - self.days * DAY

    def go_on(self, strata: Sequence[Stratum], clock: Callable[[], float]) -> None:
        """Count on, at least one day, until all are done or the time is over."""
        began = clock()
        while not self.finished:
            self._count_day(strata, self.end - self.done * DAY)
            self.done += 1
            if clock() - began >= BUDGET_S:
                return

    def _count_day(self, strata: Sequence[Stratum], end: datetime) -> None:
        for stratum in strata:
            tally = count_fates(stratum, end - DAY, end)
            self.tally = self.tally.plus(tally)
            full = len(self.listed) == MOST_LISTED and self.listed[-1].fate == Fate.FALSE_STOP
            if (tally.stopped or tally.no_longer) and not full:
                self.listed += list_fates(stratum, end - DAY, end, MOST_LISTED)
        # Stable, and days come newest first.
        self.listed = sorted(self.listed, key=lambda listed: listed.fate)[:MOST_LISTED]


def fingerprint_of(user_id: int, strata: Sequence[Stratum], days: int) -> str:
    """Return what a token is bound to."""
    return blake2b(repr((user_id, strata, days)).encode(), digest_size=12).hexdigest()


def to_token(replaying: Replaying, fingerprint: str) -> str:
    tally = replaying.tally
    state = {
        "for": fingerprint,
        "end": int(replaying.end.timestamp()),
        "days": replaying.days,
        "done": replaying.done,
        "tally": [str(number) for number in tally.numbers],
        "caps": {name: [str(number) for number in cap.numbers] for name, cap in tally.caps.items()},
        "listed": [[one.fate, one.tenant_id, one.run_id.hex] for one in replaying.listed],
    }
    return signing.dumps(state, salt=_SALT, compress=True)


def from_token(token: str, fingerprint: str) -> Replaying | None:
    """Return the replay that a token goes on with; None for one that isn't ours, is old, or is another's."""
    try:
        state: dict[str, Any] = signing.loads(token, salt=_SALT, max_age=_LIFE)
    except (signing.BadSignature, ValueError):
        return None
    if state["for"] != fingerprint:
        return None
    return Replaying(
        datetime.fromtimestamp(state["end"], UTC),
        state["days"],
        state["done"],
        Tally.read(state["tally"], state["caps"]),
        [Listed(fate, tenant_id, UUID(run_id)) for fate, tenant_id, run_id in state["listed"]],
    )
