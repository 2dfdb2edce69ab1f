"""The requests of guards that wait for a decision. Used on the gate's loop alone.

A notification is only a hint that a checkpoint has moved, and what time alone brings (the end of the seconds
in which a decision can be undone, expiry) notifies nobody: what waits is looked through every two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from enum import Enum, auto
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from runs.choices import CheckpointState
from runs.models import Checkpoint

SWEEP_SECONDS = 2.0
DRAIN_SECONDS = 5.0
AT_ONCE = 1_000
_SETTLED = (
    CheckpointState.DELIVERED,
    CheckpointState.CONSUMED,
    CheckpointState.EXPIRED,
    CheckpointState.UNDELIVERABLE,
)

Key = tuple[int, UUID]
"""A tenant's id, and the id of one of its checkpoints."""


class Why(Enum):
    """Why a wait ended."""

    NEWS = auto()
    TIME = auto()
    DRAINED = auto()
    KEY_DEAD = auto()
    GONE = auto()
    """Whoever waited has hung up."""


class Seat:
    """One request that waits. What happens between two waits ends the next one at once."""

    def __init__(self, key: Key, key_id: int) -> None:
        self.key = key
        self.key_id = key_id
        self._over: Why | None = None
        self._news = asyncio.Event()

    def hear(self) -> None:
        """Be told that the checkpoint may have moved."""
        self._news.set()

    def end(self, why: Why) -> None:
        """Wait no more, whatever comes."""
        self._over = self._over or why
        self._news.set()

    async def wait(self, seconds: float) -> Why:
        """Wait for news since the last wait, for so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return self._over or Why.TIME
        self._news.clear()
        return self._over or Why.NEWS


class Waits:
    """All that wait; ``most`` is how many may at one time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seats: dict[Key, set[Seat]] = {}
        self._count = 0
        self.draining = False

    @property
    def count(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self.draining or self._count >= self._most

    @asynccontextmanager
    async def seat(self, key: Key, key_id: int, hung_up: Coroutine[Any, Any, None]) -> AsyncIterator[Seat]:
        """Take a seat, until ``hung_up`` returns: before the checkpoint is read, so that no news is lost."""
        seat = Seat(key, key_id)
        self._seats.setdefault(key, set()).add(seat)
        self._count += 1
        watch = asyncio.get_running_loop().create_task(hung_up)
        watch.add_done_callback(lambda _: seat.end(Why.GONE))
        try:
            yield seat
        finally:
            watch.cancel()
            self._count -= 1
            self._seats[key].discard(seat)
            if not self._seats[key]:
                del self._seats[key]

    def hear(self, key: Key) -> None:
        """Be told that a checkpoint may have moved."""
        for seat in self._seats.get(key, ()):
            seat.hear()

    def heard(self, payload: str) -> None:
        """Be told so by a notification: ``<tenant id> <checkpoint id>``."""
        tenant_id, _, name = payload.partition(" ")
        try:
            self.hear((int(tenant_id), UUID(name)))
        except ValueError:
            return

    def hear_anything(self) -> None:
        """Be told that notifications may have been missed."""
        for key in list(self._seats):
            self.hear(key)

    def keys(self) -> list[Key]:
        """Return the checkpoints that are waited for."""
        return list(self._seats)

    def key_ids(self) -> set[int]:
        """Return the API keys whose requests wait."""
        return {seat.key_id for seats in self._seats.values() for seat in seats}

    def end_keys(self, dead: Collection[int]) -> None:
        """End the waits of API keys that are no longer good."""
        self._end(lambda seat: seat.key_id in dead, Why.KEY_DEAD)

    def drain(self) -> None:
        """Let no request wait any more; those that do are answered one after the other."""
        if self.draining:
            return
        self.draining = True
        loop = asyncio.get_running_loop()
        seats = [seat for seats in self._seats.values() for seat in seats]
        for number, seat in enumerate(seats):
            loop.call_later(DRAIN_SECONDS * number / len(seats), seat.end, Why.DRAINED)

    def _end(self, which: Callable[[Seat], bool], why: Why) -> None:
        for seats in self._seats.values():
            for seat in seats:
                if which(seat):
                    seat.end(why)


def read_moved(keys: Collection[Key], now: datetime) -> list[Key]:
    """Return those of the checkpoints of which a guard would now be told what holds."""
    wanted = list(keys)
    moved: list[Key] = []
    for first in range(0, len(wanted), AT_ONCE):
        moved += _moved(dict.fromkeys(wanted[first : first + AT_ONCE]), now)
    return moved


def _moved(keys: Mapping[Key, None], now: datetime) -> list[Key]:
    of_these = Checkpoint.objects.filter(
        tenant__in={tenant_id for tenant_id, _ in keys},
        checkpoint_id__in=[checkpoint_id for _, checkpoint_id in keys],
    )
    deliverable = Q(
        state=CheckpointState.DECIDED, decisions__undone_at=None, decisions__deliver_at__lte=Now()
    )
    expired = Q(state__in=(CheckpointState.OPEN, CheckpointState.CLAIMED), expires_at__lte=now)
    found = of_these.filter(Q(state__in=_SETTLED) | deliverable | expired)
    rows = found.values_list("tenant_id", "checkpoint_id").distinct()
    return [
        (tenant_id, checkpoint_id) for tenant_id, checkpoint_id in rows if (tenant_id, checkpoint_id) in keys
    ]
