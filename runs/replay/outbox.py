"""Sends each tenant's events in real time: what a gate that is away does not take waits for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event as Flag

from guardops.guard.events import RunHeartbeat
from guardops.guard.wire import Event

from .live import Stage
from .sender import Sender, SendFailed

TICK_S = 1.0
SAY_EVERY = timedelta(seconds=30)
TIMEOUT_S = 5.0
"""No answer within this time counts as none, so that a signal is heard soon."""
LONGEST_WAIT_S = 60.0
MOST_WAITING = 20_000
"""Events that a tenant keeps while the gate is away; signs of life go first."""
KEY_REFUSED = frozenset({401, 403})


@dataclass
class _Tenant:
    sender: Sender
    waiting: list[Event] = field(default_factory=list)
    failures: int = 0
    retry_at: datetime | None = None

    def keep(self, events: Sequence[Event]) -> None:
        self.waiting += events
        if len(self.waiting) > MOST_WAITING:
            lasting: list[Event] = [event for event in self.waiting if not isinstance(event, RunHeartbeat)]
            self.waiting = lasting[-MOST_WAITING:]


class Outbox:
    """Sends events with a key a tenant, made by ``make_key`` anew where the gate refuses it."""

    def __init__(
        self,
        url: str,
        tenants: Sequence[str],
        make_key: Callable[[str], str],
        say: Callable[[str], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.sent = 0
        self._url = url
        self._make_key = make_key
        self._say = say
        self._jitter = jitter
        self._tenants = {slug: _Tenant(self._sender(slug)) for slug in tenants}

    def keep(self, events: Mapping[str, Sequence[Event]]) -> None:
        """Take events, by tenant, that are to be sent."""
        for slug, happened in events.items():
            self._tenants[slug].keep(happened)

    def flush(self, now: datetime, *, last: bool = False) -> None:
        """Send what waits, but for tenants that are to be tried later; the ``last`` time of all of them."""
        for slug, tenant in self._tenants.items():
            if tenant.waiting and (last or tenant.retry_at is None or tenant.retry_at <= now):
                self._send(slug, tenant, now)

    def close(self) -> None:
        for tenant in self._tenants.values():
            tenant.sender.close()

    def _sender(self, slug: str) -> Sender:
        return Sender(self._url, self._make_key(slug), attempts=1, timeout_s=TIMEOUT_S)

    def _send(self, slug: str, tenant: _Tenant, now: datetime) -> None:
        settled = 0

        def on_sent(count: int) -> None:
            nonlocal settled
            settled += count

        try:
            tenant.sender.send(list(tenant.waiting), on_sent)
        except SendFailed as error:
            self._wait(slug, tenant, error, now)
        else:
            if tenant.failures:
                self._say(f"{slug}: the gate is back.")
            tenant.failures, tenant.retry_at = 0, None
        del tenant.waiting[:settled]
        self.sent += settled

    def _wait(self, slug: str, tenant: _Tenant, error: SendFailed, now: datetime) -> None:
        """Back off with full jitter, up to a minute."""
        if not tenant.failures:
            self._say(f"{slug}: {error} It is tried again.")
        tenant.failures += 1
        longest = min(LONGEST_WAIT_S, 2.0 ** min(tenant.failures, 10))
        tenant.retry_at = now + timedelta(seconds=1 + longest * self._jitter())
        if error.status in KEY_REFUSED:
            tenant.sender.close()
            tenant.sender = self._sender(slug)


def send_on(
    stage: Stage,
    outbox: Outbox,
    stop: Flag,
    clock: Callable[[], datetime],
    say: Callable[[str], None],
    decide: Callable[[datetime], object] = lambda now: None,
) -> None:
    """Send what happens on ``stage`` until ``stop`` is set; then end what is live and try once to say so.

    ``decide`` is called each time round: it brings the stage what people decided.
    """
    said_at = clock()
    while not stop.is_set():
        now = clock()
        decide(now)
        outbox.keep(stage.look(now))
        outbox.flush(now)
        if now - said_at >= SAY_EVERY:
            say(f"{outbox.sent:,} events sent, {stage.live} runs under way.")
            said_at = now
        stop.wait(TICK_S)
    outbox.keep(stage.close(clock()))
    outbox.flush(clock(), last=True)
    outbox.close()
