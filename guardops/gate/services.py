"""What the gate's handlers share for the life of the process, made when it starts."""

from __future__ import annotations

from dataclasses import dataclass

from .bodies import Bodies
from .executor import Executor, Turns
from .rates import Rates

MAX_HELD_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Services:
    executor: Executor
    bodies: Bodies
    turns: Turns
    rates: Rates
    draining: bool = False


def make_services(*, threads: int, events_per_second: float) -> Services:
    return Services(
        executor=Executor(threads),
        bodies=Bodies(MAX_HELD_BYTES),
        turns=Turns(),
        rates=Rates(events_per_second),
    )
