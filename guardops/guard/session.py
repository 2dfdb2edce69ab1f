"""The guard of one process: what every guarded run of it shares.

:meth:`Guard.from_env` is what an agent process starts with. A plain :class:`Guard` keeps everything in memory
and tells nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Self
from uuid import UUID

from guardops.guard.agent_run import AgentRun, Edge
from guardops.guard.answers import Check, Verdict
from guardops.guard.calls import Stopped, ToolCall, ToolResult
from guardops.guard.events import Envelope
from guardops.guard.guarded_run import RunGuard, TicketError
from guardops.guard.ids import uuid7
from guardops.guard.policy import Policy
from guardops.guard.reporter import Pace, Reporter
from guardops.guard.settings import Settings
from guardops.guard.state import RunIdentity, Ticket
from guardops.guard.stores import MemoryStore, Store
from guardops.guard.texts import encodable

__all__ = [
    "AgentRun",
    "Check",
    "Guard",
    "RunGuard",
    "Stopped",
    "Ticket",
    "TicketError",
    "ToolCall",
    "ToolResult",
    "Verdict",
]

_MAX_LABEL = 128

_log = logging.getLogger("guardops.guard")


class Guard:
    """The guard of one process: a policy, a store, a reporter, and the edge's clock, sleep and jitter."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        reporter: Reporter | None = None,
        tenant: str | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.policy = policy or Policy()
        self.store = store or MemoryStore()
        self.reporter = reporter
        self.tenant = tenant
        self._jitter = jitter
        self._now = now
        self._sleep = sleep
        self._asleep = asleep

    @classmethod
    def from_env(
        cls,
        policy: Policy | None = None,
        *,
        tenant: str | None = None,
        pace: Pace | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """Return the guard that the environment describes.

        It reports to ``GUARDOPS_URL`` with the key in ``GUARDOPS_KEY``, and keeps its state and what waits to
        be sent in the folder ``GUARDOPS_STATE``. A key of several tenants needs a ``tenant``; ``pace`` says
        how often things are sent. Raises :class:`guardops.guard.settings.SettingsError`, which names the
        variable that is missing or wrong.
        """
        settings = Settings.from_env(environ, tenant)
        return cls(policy, store=settings.store(), reporter=settings.reporter(pace), tenant=tenant)

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
        tenant: str | None = None,
        envelope: Envelope | None = None,
        resumed: bool = False,
    ) -> AgentRun:
        """Start a run, and report it.

        ``clock`` gives the seconds since the run's start, ``started_at`` its wall-clock time (UTC); both
        default to now. Runs with one ``root_task_id`` share budgets, the one nudge, and a halt. A run id
        that was stopped starts again only with ``resumed``; else its calls are refused (``requeue_refused``).
        """
        if not job_type:
            raise ValueError("a run has a job type")
        moment = started_at or self._now()
        identifier = run_id or uuid7(int(moment.timestamp() * 1_000), secrets.randbits(74))
        who = RunIdentity(
            job_type=_label(job_type),
            run_id=identifier,
            root_task_id=_label(root_task_id or str(identifier)),
            started_at=moment,
            external_id=_label(external_id) if external_id else None,
            parent_run_id=parent_run_id,
            attempt=attempt,
            agent=_label(agent),
            release=_label(release),
            prompt_version=_label(prompt_version),
        )
        edge = Edge(
            self.reporter, tenant or self.tenant, _instance(os.getpid()), envelope, self._sleep, self._asleep
        )
        clock = clock or _stopwatch()
        return AgentRun(
            who, policy or self.policy, self.store, clock, self._jitter, deadline, resumed=resumed, edge=edge
        )

    def close(self, timeout: float | None = None) -> bool:
        """Send what waits, for at most ``timeout`` seconds (5), and say whether everything was sent.

        Called by itself when the process ends. What was not sent is, by the next process that starts.
        """
        return self.reporter is None or self.reporter.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _stopwatch() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start


def _label(text: str) -> str:
    return encodable(text)[:_MAX_LABEL]


@lru_cache(maxsize=1)
def _instance(pid: int) -> str:
    """Return the name of this process among the guards, another one in a forked child."""
    return secrets.token_hex(8)
