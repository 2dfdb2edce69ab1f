"""Who sends a request: known from memory, or looked up once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from guardops.tenants.keys import KeyHolder, authenticate, remembered

from .executor import Executor


class Admission:
    """Looks keys up. Used on the loop alone.

    A thousand guards that wait with one key ask again in one moment, when the memory of it has long expired:
    one of them goes to the database.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asking: dict[str | None, asyncio.Task[KeyHolder]] = {}

    async def admit(self, header: str | None) -> KeyHolder:
        """Return who sent an ``Authorization`` header; raises Unauthenticated and the database's errors."""
        holder = remembered(header, datetime.now(UTC))
        if holder is not None:
            return holder
        task = self._asking.get(header)
        if task is None:
            task = self._asking[header] = asyncio.get_running_loop().create_task(self._ask(header))
        await asyncio.wait([task])  # not awaited itself: who is cancelled must not cancel it for the others
        return task.result()

    async def _ask(self, header: str | None) -> KeyHolder:
        try:
            return await self._executor.keys(authenticate, header, datetime.now(UTC))
        finally:
            del self._asking[header]
