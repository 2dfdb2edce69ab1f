"""The newest bundle of each tenant in memory, and the requests that wait for the next one.

Used on the loop alone. A notification is only a hint: the bundle is read after it, and every few seconds
anyway, so that a lost one costs seconds and never an edit. The first edit of a tenant goes out at once; later
ones within a quarter of a second are read together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from django.db import Error as DatabaseError

from .reading import Held

log = logging.getLogger(__name__)

MERGE_SECONDS = 0.25
SWEEP_SECONDS = 2.5
DRAIN_SECONDS = 5.0
IDLE_SECONDS = 900.0
"""How long a bundle that nobody asks for stays in memory."""
WAKE_AT_ONCE = 500
"""Waits that end in one turn of the loop: some twenty milliseconds of answers."""

Read = Callable[[Collection[int]], Awaitable[Mapping[int, Held]]]


class Woken(Enum):
    """Why a wait ended."""

    NEWS = auto()
    TIME = auto()
    DRAINED = auto()
    KEY_DEAD = auto()
    GONE = auto()
    """Whoever waited has hung up."""


@dataclass(slots=True, eq=False)
class _Room:
    """A tenant's bundle and who waits for the next one."""

    held: Held | None = None
    waits: set[asyncio.Future[Woken]] = field(default_factory=set)
    read_at: float = float("-inf")
    asked_at: float = 0.0
    timer: asyncio.TimerHandle | None = None


class Hub:
    """``read`` gives the newest bundles; ``most_waits`` is how many requests may wait at one time."""

    def __init__(self, read: Read, *, most_waits: int) -> None:
        self._read = read
        self._most_waits = most_waits
        self._rooms: dict[int, _Room] = {}
        self._keys: dict[asyncio.Future[Woken], int] = {}
        self._arriving: dict[int, asyncio.Task[None]] = {}
        self._due: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self.draining = False

    @property
    def waits(self) -> int:
        return len(self._keys)

    @property
    def full(self) -> bool:
        return self.draining or len(self._keys) >= self._most_waits

    def peek(self, tenant_id: int) -> Held | None:
        """Return the bundle in memory, None where it has to be read."""
        room = self._rooms.get(tenant_id)
        if room is None:
            return None
        room.asked_at = _now()
        return room.held

    async def get(self, tenant_ids: Collection[int]) -> dict[int, Held]:
        """Return the bundles of those tenants that are still there; raises the database's errors.

        A bundle that is not in memory is read once for all who ask at the same time.
        """
        missing = {tenant_id for tenant_id in tenant_ids if self.peek(tenant_id) is None}
        if unread := missing - self._arriving.keys():
            task = asyncio.get_running_loop().create_task(self._fetch(unread))
            self._arriving |= dict.fromkeys(unread, task)
        if missing:
            # Not awaited one by one: who is cancelled must not cancel what others wait for.
            done, _ = await asyncio.wait({self._arriving[tenant_id] for tenant_id in missing})
            for task in done:
                task.result()
        return {tenant_id: held for tenant_id in tenant_ids if (held := self.peek(tenant_id))}

    async def _fetch(self, tenant_ids: Collection[int]) -> None:
        for tenant_id in tenant_ids:
            room = self._rooms.setdefault(tenant_id, _Room())
            room.asked_at = room.read_at = _now()
        try:
            found = await self._read(sorted(tenant_ids))
        finally:
            for tenant_id in tenant_ids:
                del self._arriving[tenant_id]
        for tenant_id in tenant_ids:
            if tenant_id in found:
                self._take(self._rooms.setdefault(tenant_id, _Room()), found[tenant_id])
            else:
                self._rooms.pop(tenant_id, None)

    async def wait(
        self, tenant_ids: Collection[int], key_id: int, seconds: float, hung_up: Coroutine[Any, Any, None]
    ) -> Woken:
        """Wait until one of the tenants has news, for so many seconds, or until ``hung_up`` returns."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Woken] = loop.create_future()
        rooms = [self._rooms.setdefault(tenant_id, _Room()) for tenant_id in tenant_ids]
        for room in rooms:
            room.waits.add(future)
        self._keys[future] = key_id
        timer = loop.call_later(seconds, _wake, future, Woken.TIME)
        watch = loop.create_task(hung_up)
        watch.add_done_callback(lambda _: _wake(future, Woken.GONE))
        try:
            return await future
        finally:
            timer.cancel()
            watch.cancel()
            del self._keys[future]
            for room in rooms:
                room.waits.discard(future)

    def hear(self, tenant_id: int) -> None:
        """Be told that a tenant may have a new revision."""
        room = self._rooms.get(tenant_id)
        if room is None or room.timer is not None:
            return
        delay = room.read_at + MERGE_SECONDS - _now()
        if delay <= 0:
            self._refresh([tenant_id])
        else:
            room.timer = asyncio.get_running_loop().call_later(delay, self._refresh, [tenant_id])

    def heard(self, payload: str) -> None:
        """Be told so by a notification, which begins with the tenant's id."""
        tenant_id, _, _ = payload.partition(" ")
        if tenant_id.isdigit():
            self.hear(int(tenant_id))

    def hear_anything(self) -> None:
        """Be told that notifications may have been missed."""
        self._refresh(self._rooms)

    def revisions(self) -> dict[int, int]:
        """Return what is held, by tenant, and forget what nobody has asked for lately."""
        idle = _now() - IDLE_SECONDS
        for tenant_id, room in list(self._rooms.items()):
            if not room.waits and room.asked_at < idle:
                self._forget(tenant_id)
        return {tenant_id: room.held.revision for tenant_id, room in self._rooms.items() if room.held}

    def keys(self) -> set[int]:
        """Return the keys whose requests wait."""
        return set(self._keys.values())

    def end_keys(self, dead: Collection[int]) -> None:
        """End the waits of keys that are no longer good."""
        for future, key_id in list(self._keys.items()):
            if key_id in dead:
                _wake(future, Woken.KEY_DEAD)

    def drain(self) -> None:
        """Let no request wait any more; those that do are answered one after the other."""
        if self.draining:
            return
        self.draining = True
        loop = asyncio.get_running_loop()
        for number, future in enumerate(list(self._keys)):
            loop.call_later(DRAIN_SECONDS * number / len(self._keys), _wake, future, Woken.DRAINED)

    def _forget(self, tenant_id: int) -> None:
        room = self._rooms.pop(tenant_id)
        if room.timer is not None:
            room.timer.cancel()

    def _refresh(self, tenant_ids: Collection[int]) -> None:
        for tenant_id in tenant_ids:
            if room := self._rooms.get(tenant_id):
                if room.timer is not None:
                    room.timer.cancel()
                room.timer, room.read_at = None, _now()
                self._due.add(tenant_id)
        if self._due and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read_due())

    async def _read_due(self) -> None:
        """Read what is due until nothing is; what the database keeps back, the next sweep asks for again."""
        while self._due:
            due, self._due = self._due, set()
            try:
                found = await self._read(sorted(due))
            except DatabaseError as error:
                log.warning("bundles not read: %s", error)
                return
            for tenant_id in due:
                room = self._rooms.get(tenant_id)
                if room is not None and tenant_id in found:
                    self._take(room, found[tenant_id])

    def _take(self, room: _Room, held: Held) -> None:
        """Put a bundle in place of the one held; the waits end where it is news."""
        before = room.held
        older = before is not None and before.epoch == held.epoch and before.revision > held.revision
        if older:  # two reads that overtook each other
            return
        room.held = held
        if before is None or before.etag != held.etag:
            _wake_all(list(room.waits))


def _wake(future: asyncio.Future[Woken], why: Woken) -> None:
    if not future.done():
        future.set_result(why)


def _wake_all(futures: list[asyncio.Future[Woken]]) -> None:
    """End waits for news, some in each turn of the loop, so that others are served in between."""
    for future in futures[:WAKE_AT_ONCE]:
        _wake(future, Woken.NEWS)
    if rest := futures[WAKE_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(_wake_all, rest)


def _now() -> float:
    return asyncio.get_running_loop().time()
