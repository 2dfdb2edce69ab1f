"""What the clients of the ingest benchmark post: runs that ended, and the same with starts and heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

LAG = 500  # runs of a sender between two events of a run


@dataclass(frozen=True, slots=True)
class Sender:
    """One client's key and the events that it sends."""

    key: str
    events: list[bytes]

    def bodies(self, batch: int) -> Iterator[bytes]:
        left = iter(self.events)
        while chunk := list(islice(left, batch)):
            yield b"[" + b",".join(chunk) + b"]"


@dataclass(frozen=True, slots=True)
class Stream:
    """What the senders send, and how many runs end in it."""

    senders: list[Sender]
    runs: int


def make_stream(events: int, clients: int, tenants: int, now: datetime) -> Stream:
    import msgspec

    from guardops.tenants.actors import SYSTEM
    from guardops.tenants.choices import Scope
    from guardops.tenants.keys import create_key
    from guardops.tenants.organisations import create_organisation, create_tenant
    from tests.benchmarks.run_events import make_events

    organisation = create_organisation(slug="bench", name="Bench", actor=SYSTEM)
    keys = [
        create_key(
            organisation=organisation,
            tenants=[create_tenant(organisation=organisation, slug=f"bench-{n}", name="Bench", actor=SYSTEM)],
            name="bench",
            scopes=[Scope.EVENTS_WRITE],
            actor=SYSTEM,
            now=now,
        )[1]
        for n in range(tenants)
    ]
    encoded = list(map(msgspec.json.encode, make_events(events, now)))
    return Stream([Sender(keys[n % tenants], encoded[n::clients]) for n in range(clients)], events)


def mix(ended: Stream) -> Stream:
    """Return as many events of fewer runs, each from its start on."""
    import msgspec

    from guardops.guard.events import RunEnded
    from tests.benchmarks.run_events import interleave

    senders = []
    runs = 0
    for sender in ended.senders:
        mine = [
            msgspec.json.decode(event, type=RunEnded) for event in sender.events[: len(sender.events) // 5]
        ]
        senders.append(Sender(sender.key, list(map(msgspec.json.encode, interleave(mine, LAG)))))
        runs += len(mine)
    return Stream(senders, runs)
