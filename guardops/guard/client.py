"""Keeps a process's policy the newest: pulls the tenant's bundle from a thread of its own.

The tool path only reads ``snapshot``, which is swapped whole. The thread is a daemon, one a process, and made
anew in a forked child, which then is a guard of its own. It asks again at once while the server holds its
requests, and backs off while the server is away; a bundle that proves nothing is reported and not asked for
again, and the last good one stays in force, in memory and on disk.
"""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition, Thread
from weakref import WeakSet

import httpx

from guardops.guard.bundle import Bundle, BundleError, read_bundle
from guardops.guard.bundle_file import BundleFile
from guardops.guard.events import PolicySource
from guardops.guard.pull import Ask, Puller, PullFailed, Reply
from guardops.guard.snapshot import NOTHING, Snapshot

_log = logging.getLogger("guardops.guard")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the client asks, in seconds."""

    wait: float = 30.0
    start: float = 3.0
    burst: int = 2
    """After so many new bundles in a row it asks once in ``between``."""
    between: float = 5.0
    denied: float = 300.0
    first_wait: float = 1.0
    longest_wait: float = 60.0


class PolicyClient:
    """The policy of one process, from one server with one key."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        tenant: str = "",
        folder: Path | None = None,
        pace: Pace | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``tenant`` names one of several that the key covers; ``folder`` is where the last good bundle is
        kept, None for nowhere."""
        self._tenant = tenant
        self._file = BundleFile(folder, url, key, tenant) if folder else None
        self._pace = pace or Pace()
        self._clock = clock
        self._now = now
        self._jitter = jitter
        self._puller = Puller(url, key, tenant=tenant, guard=lambda: self.guard, transport=transport)
        self.snapshot: Snapshot = NOTHING
        self._start_afresh()
        _clients.add(self)

    def _start_afresh(self) -> None:
        self.guard = str(uuid.uuid4())
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False
        self._answered = False
        self._failures = 0
        self._reject = ""
        self._burst = float(self._pace.burst)
        self._burst_at = self._clock()

    def begin(self) -> Snapshot:
        """Start asking, and return what holds: the server's bundle within three seconds, else the one on
        disk, else nothing, which stands for the built-in limits."""
        self._wake()
        with self._changed:
            self._changed.wait_for(lambda: self._answered, self._pace.start)
        if self.snapshot.bundle is None and self._file is not None and (kept := self._file.read()):
            bundle, confirmed_at = kept
            self._offer(Snapshot(bundle, PolicySource.FILE, confirmed_at))
        return self.snapshot

    def _offer(self, found: Snapshot) -> None:
        """Take what was on disk, unless the server has answered in the meantime."""
        with self._changed:
            if self.snapshot.bundle is None:
                self.snapshot = found

    # -- the thread --------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._changed:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = Thread(target=self._work, name="guardops-policy", daemon=True)
            with suppress(RuntimeError):  # the interpreter ends
                self._thread.start()

    def _work(self) -> None:
        while not self._closed:
            try:
                wait = self.tick()
            except Exception:
                _log.exception("The policy client met an error and goes on.")
                wait = self._pace.longest_wait
            with self._changed:
                self._answered = True
                self._changed.notify_all()
                if not self._closed and wait > 0:
                    self._changed.wait(wait)
        self._puller.close()

    def tick(self) -> float:
        """Ask once, put what came in force, and return the seconds until the next time."""
        began = self._clock()
        held = self.snapshot
        # Whoever has refused a bundle waits for the next: asked for no wait, the server says 304 at once.
        first = held.src is not PolicySource.SERVER and not self._reject
        ask = Ask(
            wait=0.0 if first else self._pace.wait,
            etag=held.bundle.etag if held.bundle else "",
            applied=held.applied(self._now()),
            reject=self._reject,
        )
        try:
            reply = self._puller.pull(ask)
        except PullFailed as error:
            return self._back_off(error)
        self._failures = 0
        if reply.body is None:
            return self._confirmed(reply, ask, self._clock() - began)
        return self._received(reply)

    def _confirmed(self, reply: Reply, ask: Ask, took: float) -> float:
        held = self.snapshot
        confirmed = held.bundle is not None and not self._reject
        if held.bundle is not None and confirmed:
            self.snapshot = Snapshot(held.bundle, PolicySource.SERVER, self._now())
            if self._file is not None:
                self._file.confirm()
        honoured = reply.long_poll and (took >= ask.wait * 0.9 if ask.wait else confirmed)
        return 0.0 if honoured else self._spread(reply.poll_after)

    def _received(self, reply: Reply) -> float:
        assert reply.body is not None
        try:
            bundle = self._proven(reply.body)
        except BundleError as error:
            if not reply.name:
                return self._back_off(PullFailed(f"a body that proves nothing: {error}"))
            if not self._reject:
                _log.warning("Bundle %s is not put in force: %s.", reply.name, error)
            self._reject = f"{reply.name};{error.code}"
            return self._after_news()
        self._reject = ""
        if (held := self.snapshot.bundle) is not None:
            held.blocklist.joined(bundle.blocklist)  # for the runs that began under it: not in their way
        self.snapshot = Snapshot(bundle, PolicySource.SERVER, self._now())
        if self._file is not None:
            self._file.write(reply.body)
        return self._after_news()

    def _proven(self, body: bytes) -> Bundle:
        held = self.snapshot.bundle
        expected = self._tenant or (held.tenant if held else "")
        bundle = read_bundle(body, tenant=expected or None)
        if held is not None and bundle.epoch == held.epoch:
            if bundle.revision < held.revision:
                raise BundleError("older_revision", f"revision {held.revision} is in force")
            if bundle.revision == held.revision and bundle.content_hash != held.content_hash:
                raise BundleError("changed_revision", f"revision {held.revision} had another content")
        return bundle

    # -- when to ask again -------------------------------------------------------------------------------

    def _after_news(self) -> float:
        """At once, at most twice in a burst, then once in five seconds."""
        now = self._clock()
        self._burst = min(self._pace.burst, self._burst + (now - self._burst_at) / self._pace.between)
        self._burst_at = now
        self._burst -= 1.0
        return max(0.0, -self._burst * self._pace.between)

    def _back_off(self, error: PullFailed) -> float:
        if error.denied:
            _log.warning("The policy can't be pulled: %s. The one in force stays.", error)
            return self._spread(self._pace.denied)
        if not self._failures:
            _log.warning("The policy can't be pulled (%s); the one in force stays.", error)
        longest = min(self._pace.longest_wait, self._pace.first_wait * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return self._jitter() * longest

    def _spread(self, seconds: float) -> float:
        """Return the time within a fifth of it, so that not all guards come at one moment."""
        return seconds * (0.8 + 0.4 * self._jitter())

    # -- the process's ends ------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop asking. The thread ends by itself when its request does."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            asking = self._thread is not None and self._thread.is_alive()
        if not asking:
            self._puller.close()

    def after_fork(self) -> None:
        """In a forked child: the parent's thread and connection are the parent's, its snapshot is good."""
        was_asking = self._thread is not None and not self._closed
        self._puller.after_fork()
        self._start_afresh()
        if was_asking:
            self._wake()


_clients: WeakSet[PolicyClient] = WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client.after_fork()


os.register_at_fork(after_in_child=_after_fork)
