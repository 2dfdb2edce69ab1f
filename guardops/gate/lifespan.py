"""The life of a gate process: its threads, what it does every minute, and how it goes down."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from litestar import Litestar

from guardops.tenants.keys import write_last_used
from runs.partitions import ensure_partitions

from .services import Services, make_services

log = logging.getLogger(__name__)

CHORE_SECONDS = 60.0


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    services = make_services(threads=settings.GATE_THREADS, events_per_second=settings.GATE_EVENTS_PER_SECOND)
    app.state.services = services
    chores = asyncio.create_task(_do_chores(services))
    _drain_on_sigterm(services)
    try:
        yield
    finally:
        chores.cancel()
        with suppress(asyncio.CancelledError):
            await chores
        with suppress(DatabaseError):
            await services.executor.keys(write_last_used, datetime.now(UTC))
        services.executor.shutdown()


async def _do_chores(services: Services) -> None:
    """Make partitions of the days to come and write down which keys were used; a failure waits a minute."""
    while True:
        try:
            now = datetime.now(UTC)
            await services.executor.keys(ensure_partitions, now)
            await services.executor.keys(write_last_used, now)
        except DatabaseError as error:
            log.warning("chores put off: %s", error)
        await asyncio.sleep(CHORE_SECONDS)


def _drain_on_sigterm(services: Services) -> None:
    """Say from the first moment that the gate goes down; the server's own handler then ends the requests."""
    if threading.current_thread() is not threading.main_thread():
        return  # in a test; signals are the main thread's
    loop = asyncio.get_running_loop()
    before: Any = signal.getsignal(signal.SIGTERM)

    def drain(signum: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(setattr, services, "draining", True)
        if callable(before):
            before(signum, frame)

    signal.signal(signal.SIGTERM, drain)
