"""The hub alone: what it reads, and whom it wakes. How it hears and who asks is shown at the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

import pytest
from django.db import OperationalError

from policies.pull import hub as hub_module
from policies.pull.hub import Hub, Woken
from policies.pull.reading import Held

Test = Callable[[Hub, "Database"], Coroutine[Any, Any, None]]


def held(tenant_id: int, revision: int, epoch: str = "e") -> Held:
    etag = f'"{epoch}.{revision}.0"'
    return Held(tenant_id, f"tenant-{tenant_id}", epoch, revision, f"sha256:{revision}", etag, b"")


class Database:
    """Bundles by tenant, and what was asked for."""

    def __init__(self) -> None:
        self.bundles: dict[int, Held] = {}
        self.asked: list[list[int]] = []
        self.away = False

    async def read(self, tenant_ids: Collection[int]) -> Mapping[int, Held]:
        self.asked.append(list(tenant_ids))
        found = {tenant: self.bundles[tenant] for tenant in tenant_ids if tenant in self.bundles}
        await asyncio.sleep(0.01)
        if self.away:
            raise OperationalError("away")
        return found


def run(test: Test) -> None:
    async def main() -> None:
        database = Database()
        await test(Hub(database.read, most_waits=10_000), database)

    asyncio.run(main())


def wait(hub: Hub, tenant_id: int, seconds: float = 10.0) -> asyncio.Task[Woken]:
    return asyncio.get_running_loop().create_task(hub.wait([tenant_id], 1, seconds, asyncio.sleep(60)))


def test_bundle_that_many_ask_for_at_once_is_read_once() -> None:
    async def test(hub: Hub, database: Database) -> None:
        database.bundles = {1: held(1, 1), 2: held(2, 1)}
        found = await asyncio.gather(hub.get([1]), *(hub.get([1, 2]) for _ in range(50)))
        assert [sorted(bundles) for bundles in found[1:]] == [[1, 2]] * 50
        assert database.asked == [[1], [2]]

    run(test)


def test_database_that_is_away_is_told_to_all_who_ask_and_asked_again_by_the_next() -> None:
    async def test(hub: Hub, database: Database) -> None:
        database.bundles, database.away = {1: held(1, 1)}, True
        failed = await asyncio.gather(hub.get([1]), hub.get([1]), return_exceptions=True)
        assert [type(error) for error in failed] == [OperationalError] * 2
        database.away = False
        assert (await hub.get([1]))[1].revision == 1

    run(test)


def test_who_is_cancelled_takes_nothing_from_the_others() -> None:
    async def test(hub: Hub, database: Database) -> None:
        database.bundles = {1: held(1, 1)}
        first, second = (asyncio.get_running_loop().create_task(hub.get([1])) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)[1].revision == 1

    run(test)


def test_tenant_that_is_gone_is_left_out_and_not_remembered() -> None:
    async def test(hub: Hub, database: Database) -> None:
        assert await hub.get([7]) == {}
        assert hub.peek(7) is None
        assert hub.revisions() == {}

    run(test)


def test_news_wake_every_wait_and_let_others_work_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "WAKE_AT_ONCE", 10)

    async def test(hub: Hub, database: Database) -> None:
        database.bundles = {1: held(1, 1)}
        await hub.get([1])
        waits = [wait(hub, 1) for _ in range(95)]
        await asyncio.sleep(0)
        database.bundles = {1: held(1, 2)}
        hub.hear(1)
        turns = set()
        while not all(task.done() for task in waits):
            await asyncio.sleep(0)
            turns.add(sum(task.done() for task in waits))
        assert {task.result() for task in waits} == {Woken.NEWS}
        assert len(turns) > 5
        assert hub.waits == 0

    run(test)


def test_first_edit_is_read_at_once_and_those_after_it_together() -> None:
    async def test(hub: Hub, database: Database) -> None:
        database.bundles = {1: held(1, 1)}
        await hub.get([1])
        await asyncio.sleep(hub_module.MERGE_SECONDS)
        for revision in range(2, 7):
            database.bundles = {1: held(1, revision)}
            hub.hear(1)
        while hub.revisions() != {1: 6}:
            await asyncio.sleep(0)
        await asyncio.sleep(2 * hub_module.MERGE_SECONDS)
        assert database.asked == [[1]] * 3

    run(test)


def test_older_revision_that_comes_late_is_not_taken_without_a_new_epoch() -> None:
    async def test(hub: Hub, database: Database) -> None:
        database.bundles = {1: held(1, 5)}
        await hub.get([1])
        database.bundles = {1: held(1, 4)}
        hub.hear_anything()
        await asyncio.sleep(0.05)
        assert hub.revisions() == {1: 5}
        database.bundles = {1: held(1, 1, "restored")}
        hub.hear_anything()
        await asyncio.sleep(0.05)
        assert hub.revisions() == {1: 1}

    run(test)
