"""The guard of one process: what every guarded run of it shares."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from guardops.guard.answers import Check, Verdict
from guardops.guard.guarded_run import RunGuard, TicketError
from guardops.guard.ids import uuid7
from guardops.guard.policy import Policy
from guardops.guard.state import RunIdentity, Ticket
from guardops.guard.stores import MemoryStore, Store

__all__ = ["Check", "Guard", "RunGuard", "Ticket", "TicketError", "Verdict"]


class Guard:
    """The guard of one process: a policy, a store, and the edge's clock and jitter."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.policy = policy or Policy()
        self.store = store or MemoryStore()
        self._jitter = jitter
        self._now = now

    def run(
        self,
        *,
        job_type: str,
        run_id: UUID | None = None,
        root_task_id: str | None = None,
        agent: str = "",
        release: str = "",
        prompt_version: str = "",
        external_id: str | None = None,
        parent_run_id: UUID | None = None,
        attempt: int = 1,
        clock: Callable[[], float] | None = None,
        started_at: datetime | None = None,
        deadline: float | None = None,
        policy: Policy | None = None,
        resumed: bool = False,
    ) -> RunGuard:
        """Start a run.

        ``clock`` gives the seconds since the run's start, ``started_at`` its wall-clock time (UTC); both
        default to now. Runs with one ``root_task_id`` share budgets, the one nudge, and a halt. A run id
        that was stopped starts again only with ``resumed``; else its calls are refused (``requeue_refused``).
        """
        moment = started_at or self._now()
        identifier = run_id or uuid7(int(moment.timestamp() * 1_000), secrets.randbits(74))
        who = RunIdentity(
            job_type=job_type,
            run_id=identifier,
            root_task_id=root_task_id or str(identifier),
            started_at=moment,
            external_id=external_id,
            parent_run_id=parent_run_id,
            attempt=attempt,
            agent=agent,
            release=release,
            prompt_version=prompt_version,
        )
        clock = clock or _stopwatch()
        return RunGuard(
            who, policy or self.policy, self.store, clock, self._jitter, deadline, resumed=resumed
        )


def _stopwatch() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start
