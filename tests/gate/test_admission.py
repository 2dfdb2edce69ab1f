from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from guardops.gate.admission import Admission
from guardops.gate.executor import Executor
from guardops.tenants.errors import Unauthenticated
from guardops.tenants.keys import KeyHolder
from guardops.tenants.models import Tenant

from .conftest import bearer


class Counting(Executor):
    """Counts what is asked of the database."""

    asked = 0

    async def keys(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.asked += 1
        return await super().keys(function, *args, **kwargs)


def admit(headers: list[str | None]) -> tuple[list[KeyHolder | BaseException], int]:
    """Let all ask at once; return what each was told, and how often the database was asked."""

    async def main() -> tuple[list[KeyHolder | BaseException], int]:
        executor = Counting(1)
        admission = Admission(executor)
        told = await asyncio.gather(*map(admission.admit, headers), return_exceptions=True)
        executor.shutdown()
        return told, executor.asked

    return asyncio.run(main())


def test_many_who_come_at_once_with_one_key_are_looked_up_once(tenant: Tenant) -> None:
    header = bearer(tenant)["Authorization"]
    told, asked = admit([header] * 100)
    assert {holder.organisation_id for holder in told if isinstance(holder, KeyHolder)} == {
        tenant.organisation_id
    }
    assert asked == 1


def test_everybody_with_a_bad_key_is_refused(tenant: Tenant) -> None:
    told, asked = admit(["Bearer nonsense", "Bearer nonsense", None])
    assert [type(error) for error in told] == [Unauthenticated] * 3
    assert asked == 2
