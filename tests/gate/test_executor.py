from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection

from guardops.gate import executor
from guardops.gate.executor import Executor, Turns
from runs.ingest.record import TenantBusy


def test_tenant_whose_turn_is_taken_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "TURN_SECONDS", 0.01)

    async def ask_twice() -> None:
        turns = Turns()
        async with turns.take([1, 2]):
            with pytest.raises(TenantBusy):
                async with turns.take([2, 3]):
                    pytest.fail("two have the turn of tenant 2")
            async with turns.take([3]):
                pass
        async with turns.take([1, 2, 3]):
            pass

    asyncio.run(ask_twice())


def test_turns_are_forgotten_when_nobody_has_or_waits_for_one() -> None:
    async def take() -> int:
        turns = Turns()
        for tenant_id in range(100):
            async with turns.take([tenant_id]):
                pass
        return len(turns._locks)

    assert asyncio.run(take()) <= 1


def test_busy_threads_do_not_hold_up_keys() -> None:
    async def ask() -> str:
        threads, done = Executor(threads=1), threading.Event()
        busy = asyncio.ensure_future(threads.compute(done.wait, 10))
        try:
            return await asyncio.wait_for(threads.keys(lambda: "answered"), timeout=5)
        finally:
            done.set()
            await busy
            threads.shutdown()

    assert asyncio.run(ask()) == "answered"


@pytest.mark.django_db(transaction=True)
def test_connection_goes_back_after_each_piece_of_work() -> None:
    seen: list[Any] = []

    def work() -> None:
        connection.ensure_connection()
        seen.append(connection.connection)

    async def run() -> None:
        threads = Executor(threads=1)
        await threads.db(work)
        threads.shutdown()

    asyncio.run(run())
    assert seen[0].closed
