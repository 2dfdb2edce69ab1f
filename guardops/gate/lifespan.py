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
from policies.publish.bundles import CHANNEL as BUNDLES
from policies.pull.fleet import write_signs
from policies.pull.hub import SWEEP_SECONDS
from policies.pull.listening import listen
from policies.pull.reading import read_dead_keys, read_stale
from runs.checkpoints.moving import CHANNEL as CHECKPOINTS
from runs.checkpoints.waits import SWEEP_SECONDS as SWEEP_WAITS_SECONDS
from runs.checkpoints.waits import read_moved
from runs.partitions import ensure_partitions

from .services import Services, make_services

log = logging.getLogger(__name__)

CHORE_SECONDS = 60.0
FLEET_SECONDS = 5.0


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    services = make_services(
        threads=settings.GATE_THREADS,
        events_per_second=settings.GATE_EVENTS_PER_SECOND,
        waits=settings.GATE_WAITS,
    )
    app.state.services = services
    work = [
        _do_chores(services),
        _sweep_bundles(services),
        _sweep_checkpoints(services),
        _write_fleet(services),
        _listen(services),
    ]
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    _drain_on_sigterm(services)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(DatabaseError):
            await services.executor.keys(write_signs, services.fleet.take())
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


async def _sweep_bundles(services: Services) -> None:
    """Ask every few seconds what notifications may have missed, and which waiting keys have ended."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            for tenant_id in await services.executor.keys(read_stale, services.hub.revisions()):
                services.hub.hear(tenant_id)
            if keys := services.hub.keys():
                services.hub.end_keys(await services.executor.keys(read_dead_keys, keys, datetime.now(UTC)))
        except DatabaseError as error:
            log.warning("bundles not looked after: %s", error)


async def _sweep_checkpoints(services: Services) -> None:
    """Ask every two seconds which of the checkpoints that guards wait for have something to tell them."""
    while True:
        await asyncio.sleep(SWEEP_WAITS_SECONDS)
        if not (keys := services.waits.keys()):
            continue
        try:
            now = datetime.now(UTC)
            for key in await services.executor.keys(read_moved, keys, now):
                services.waits.hear(key)
            services.waits.end_keys(
                await services.executor.keys(read_dead_keys, services.waits.key_ids(), now)
            )
        except DatabaseError as error:
            log.warning("checkpoints not looked after: %s", error)


async def _listen(services: Services) -> None:
    """Hear of new revisions and of checkpoints that have moved."""

    def missed() -> None:
        services.hub.hear_anything()
        services.waits.hear_anything()

    await listen({BUNDLES: services.hub.heard, CHECKPOINTS: services.waits.heard}, missed)


async def _write_fleet(services: Services) -> None:
    """Write down what guards say of themselves; what the database keeps back, they say again."""
    while True:
        await asyncio.sleep(FLEET_SECONDS)
        try:
            await services.executor.keys(write_signs, services.fleet.take())
        except DatabaseError as error:
            log.warning("guards not written down: %s", error)


def _drain_on_sigterm(services: Services) -> None:
    """Say from the first moment that the gate goes down; the server's own handler then ends the requests."""
    if threading.current_thread() is not threading.main_thread():
        return  # in a test; signals are the main thread's
    loop = asyncio.get_running_loop()
    before: Any = signal.getsignal(signal.SIGTERM)

    def drain(signum: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(services.drain)
        if callable(before):
            before(signum, frame)

    signal.signal(signal.SIGTERM, drain)
