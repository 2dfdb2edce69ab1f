"""Tells the dashboard of runs: takes their events at once, and sends them from a thread of its own.

An event is in the spool before the call that makes it returns; nothing else is done on the agent's path. The
thread is a daemon, one a process, and made anew in a forked child. It sends what waits in batches, says every
30 s how far each open run has come (the newest word of a run replaces an earlier one that could not be sent),
backs off while the gate is away, and sends what it can within a bound when the process ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

import msgspec

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.delivery import Delivery, NotNow
from guardops.guard.events import MAX_EVENT_BYTES, RunEnded, RunHeartbeat, RunStarted, WorkRefused
from guardops.guard.redaction import redact_event
from guardops.guard.spool import MAX_RECORDS, Spool
from guardops.guard.wire import Event

STARTED, ENDED = 0, 1
"""Ranks in the spool: word of a beginning goes before word of an end."""
_RANK_NAMES = {STARTED: "started", ENDED: "ended"}
_MAX_ATTRIBUTES = 20

_log = logging.getLogger("guardops.guard")
_encode = msgspec.json.Encoder().encode


class OpenRun(Protocol):
    """What a reporter asks a run that has not ended."""

    def heartbeat(self) -> RunHeartbeat:
        """Return how far the run has come."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the reporter does things, in seconds."""

    heartbeat: float = 30.0
    adopt: float = 60.0
    sync: float = 1.0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    at_exit: float = 5.0


class Reporter:
    """One process's word to one gate. Any thread may report."""

    def __init__(
        self,
        spool: Spool,
        delivery: Delivery,
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        threaded: bool = True,
    ) -> None:
        self._spool = spool
        self._delivery = delivery
        self._pace = pace or Pace()
        self._clock = clock
        self._jitter = jitter
        self._threaded = threaded
        self._begin()
        _reporters.add(self)
        atexit.register(self.close)

    def _begin(self) -> None:
        self._changed = Condition()
        self._thread: Thread | None = None
        self._news = False
        self._closing_by: float | None = None
        self._patient = False
        self._gave_up = False
        self._runs: WeakValueDictionary[str, OpenRun] = WeakValueDictionary()
        self._heartbeats: dict[str, RunHeartbeat] = {}
        self._failures = 0
        self._not_before = 0.0
        self._next_heartbeat = self._clock() + self._pace.heartbeat
        self._next_adoption = 0.0

    # -- what runs say -----------------------------------------------------------------------------------

    def started(self, event: RunStarted, key: str, run: OpenRun) -> None:
        """Report a run that began; until it ends it is asked how far it has come."""
        self._runs[key] = run
        self._keep(STARTED, event)

    def ended(self, event: RunEnded, key: str) -> None:
        """Report a run that is over. It outlives this process from here on."""
        self._runs.pop(key, None)
        self._heartbeats.pop(key, None)
        if self._spool.dropped and len(event.attributes) < _MAX_ATTRIBUTES:
            event = msgspec.structs.replace(
                event, attributes={**event.attributes, "spool_dropped": self._dropped()}
            )
        self._keep(ENDED, event)

    def opened(self, event: CheckpointOpened) -> None:
        """Report a run that was handed to a person."""
        self._keep(ENDED, event)

    def again(self, records: Sequence[bytes]) -> None:
        """Send what has been sent before, since the gate does not know of it."""
        for record in records:
            self._spool.append(ENDED, record)
        if self._threaded:
            self._wake()

    def _dropped(self) -> str:
        """Say what was dropped, in every event until one is told when nothing else waits."""
        counts = sorted(self._spool.dropped.items())
        if not self._spool.waiting:
            self._spool.dropped.clear()
        return ", ".join(f"{count} {_RANK_NAMES[rank]}" for rank, count in counts)

    def refused(self, event: WorkRefused) -> None:
        """Report delegated work that was not taken on."""
        self._keep(ENDED, event)

    def _keep(self, rank: int, event: Event) -> None:
        try:
            record = encoded(event)
        except (TypeError, ValueError, RecursionError):
            _log.exception("An event can't be written as JSON and is lost.")
            return
        self._spool.append(rank, record)
        if self._threaded:
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._news = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._work, name="guardops-reporter", daemon=True)
                with suppress(RuntimeError):  # the interpreter ends: the next process sends what waits
                    self._thread.start()
            self._changed.notify_all()

    # -- the thread --------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            try:
                wait = self.tick()
            except Exception:
                _log.exception("The reporter met an error and goes on.")
                wait = self._pace.longest_wait
            with self._changed:
                if self._is_over():
                    return
                if not self._news and wait > 0:
                    self._changed.wait(wait)
                self._news = False

    def _is_over(self) -> bool:
        """Whether the reporter is closing and has nothing to send, no time, or no gate to send it to."""
        if self._closing_by is None:
            return False
        return not self._spool.waiting or self._clock() >= self._closing_by or self._gave_up

    def tick(self) -> float:
        """Do what is due and return the seconds until something is."""
        now = self._clock()
        if now >= self._next_adoption:
            self._next_adoption = now + self._pace.adopt
            self._spool.adopt()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + self._pace.heartbeat
            self._hear_from_runs()
        self._spool.sync()
        if now >= self._not_before and self._send():
            return 0.0
        due = min(self._next_adoption, self._next_heartbeat)
        if self._spool.waiting or self._heartbeats:
            due = min(due, self._not_before)
        wait = max(0.0, due - self._clock())
        return min(wait, self._pace.sync) if self._spool.waiting else wait

    def _hear_from_runs(self) -> None:
        for key, run in list(self._runs.items()):
            try:
                self._heartbeats[key] = run.heartbeat()
            except Exception:
                _log.exception("A run could not be asked how far it has come.")

    def _send(self) -> bool:
        """Send one batch, and say whether there was one and it arrived."""
        is_last = self._closing_by is not None and not self._patient
        batch = self._spool.take()
        heartbeats = dict(list(self._heartbeats.items())[:MAX_RECORDS])
        records = [*(batch.records if batch else ()), *(encoded(beat) for beat in heartbeats.values())]
        try:
            for first in range(0, len(records), MAX_RECORDS):
                self._delivery.deliver(records[first : first + MAX_RECORDS])
        except NotNow as error:
            self._back_off(error)
            self._gave_up = is_last
            return False
        if self._failures:
            _log.info("The gate takes events again.")
        self._failures = 0
        if batch is not None:
            self._spool.settle(batch)
        for key, beat in heartbeats.items():
            if self._heartbeats.get(key) is beat:
                del self._heartbeats[key]
        return bool(batch or heartbeats)

    def _back_off(self, error: NotNow) -> None:
        if not self._failures:
            _log.warning("Events can't be sent (%s); they are kept in %s.", error, self._spool.folder)
        longest = min(self._pace.longest_wait, self._pace.first_wait * 2.0 ** min(self._failures, 16))
        self._failures += 1
        wait = self._jitter() * longest
        if error.wait is not None:  # all come back when they were asked to, and not all at the same moment
            wait = error.wait + self._jitter() * self._pace.first_wait
        self._not_before = self._clock() + wait

    # -- the process's ends ------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> bool:
        """Send what waits and what dead processes left, stop, and say whether everything was sent.

        It is tried for ``timeout`` seconds; without one, as when the process ends, for 5 s, and only once
        where the gate is away. What was not sent stays in the spool for the next process.
        """
        atexit.unregister(self.close)
        patient, timeout = timeout is not None, self._pace.at_exit if timeout is None else timeout
        with self._changed:
            self._patient, self._closing_by = patient, self._clock() + timeout
            self._failures, self._not_before, self._next_adoption = 0, 0.0, 0.0
        if self._threaded:
            self._wake()
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        if thread is None or not thread.is_alive():
            self._delivery.close()
        sent = not self._spool.waiting
        self._spool.close()
        return sent

    def after_fork(self) -> None:
        """In a forked child: the parent's runs, events and connection are the parent's."""
        self._spool.after_fork()
        self._delivery.after_fork()
        self._begin()


def encoded(event: Event) -> bytes:
    """Return an event as JSON that holds no secret and is no larger than the gate takes."""
    redact_event(event)
    record = _encode(event)
    if len(record) > MAX_EVENT_BYTES and isinstance(event, RunEnded):
        cut = ["attributes", "halt_detail", "interventions", "last_steps", "ledger"]
        event = msgspec.structs.replace(
            event, attributes={}, halt_detail=None, interventions=[], last_steps=[], ledger=[], truncated=cut
        )
        record = _encode(event)
    return record


_reporters: WeakSet[Reporter] = WeakSet()


def _after_fork() -> None:
    for reporter in list(_reporters):
        reporter.after_fork()


os.register_at_fork(after_in_child=_after_fork)
