"""Where the gate's database work runs: in threads of its own, in turns a tenant, never on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import copy_context
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from django.db import connection

from runs.ingest.record import TenantBusy

KEY_THREADS = 4
TURN_SECONDS = 2.0

P = ParamSpec("P")
T = TypeVar("T")


class Executor:
    """Two thread pools: one for the work of requests, a small one for keys, which no busy tenant holds up."""

    def __init__(self, threads: int) -> None:
        self._work = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._keys = ThreadPoolExecutor(KEY_THREADS, thread_name_prefix="keys")

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what needs no database."""
        return await asyncio.get_running_loop().run_in_executor(self._work, lambda: function(*args, **kwargs))

    async def db(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run database work of a request."""
        return await self._run(self._work, function, *args, **kwargs)

    async def keys(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run short reads that every request needs."""
        return await self._run(self._keys, function, *args, **kwargs)

    async def _run(
        self, pool: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def work() -> T:
            try:
                return function(*args, **kwargs)
            finally:
                connection.close()  # gives it back to the pool of connections

        # The thread's log lines and audit rows carry the request's id.
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(work))

    def shutdown(self) -> None:
        self._work.shutdown(wait=True, cancel_futures=True)
        self._keys.shutdown(wait=True, cancel_futures=True)


class Turns:
    """One request a tenant at a time gets to the database; the others wait on the loop, in no thread."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, tenant_ids: Iterable[int]) -> AsyncIterator[None]:
        """Hold the turns of all these tenants, taken in ascending order; TenantBusy after two seconds."""
        locks = [self._locks.setdefault(tenant_id, asyncio.Semaphore(1)) for tenant_id in sorted(tenant_ids)]
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    for lock in locks:
                        await stack.enter_async_context(lock)
            except TimeoutError:
                raise TenantBusy("This tenant's runs are being written by others.") from None
            yield
