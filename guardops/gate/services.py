"""What the gate's handlers share for the life of the process, made when it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from policies.pull.fleet import Fleet
from policies.pull.hub import Hub
from policies.pull.reading import Held, read_newest
from runs.checkpoints.waits import Waits

from .admission import Admission
from .bodies import Bodies
from .executor import Executor, Turns
from .rates import Rates

MAX_HELD_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Services:
    executor: Executor
    admission: Admission
    bodies: Bodies
    turns: Turns
    rates: Rates
    hub: Hub
    waits: Waits
    fleet: Fleet = field(default_factory=Fleet)
    draining: bool = False

    def drain(self) -> None:
        """Take nothing new, and let go whoever waits."""
        self.draining = True
        self.hub.drain()
        self.waits.drain()


def make_services(*, threads: int, events_per_second: float, waits: int) -> Services:
    executor = Executor(threads)

    async def newest(tenant_ids: Collection[int]) -> Mapping[int, Held]:
        return await executor.keys(read_newest, tenant_ids, datetime.now(UTC))

    return Services(
        executor=executor,
        admission=Admission(executor),
        bodies=Bodies(MAX_HELD_BYTES),
        turns=Turns(),
        rates=Rates(events_per_second),
        hub=Hub(newest, most_waits=waits),
        waits=Waits(waits),
    )
