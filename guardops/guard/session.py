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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Self
from uuid import UUID

import msgspec

from guardops.guard.added import extended
from guardops.guard.agent_run import AgentRun, Edge
from guardops.guard.answers import Check, Verdict
from guardops.guard.bundle import SigningKey
from guardops.guard.calls import Stopped, ToolCall, ToolResult
from guardops.guard.deciding import Terms
from guardops.guard.decisions import DecisionAction, Refused
from guardops.guard.desk import Desk
from guardops.guard.envelope import Refusal, name_of, receive, seconds_left, within
from guardops.guard.escalation import Escalation, Means, Resolution
from guardops.guard.events import Action, Envelope, GuardInfo, OnTimeout, WorkRefused
from guardops.guard.following import Following, Policies
from guardops.guard.guarded_run import RunGuard, TicketError
from guardops.guard.ids import uuid7
from guardops.guard.kept_checkpoints import OpenCheckpoint
from guardops.guard.memory_store import MemoryStore
from guardops.guard.next_attempt import added_by, identity_after
from guardops.guard.policy import Policy
from guardops.guard.quarantine import Quarantine
from guardops.guard.reporter import Pace, Reporter
from guardops.guard.settings import Settings
from guardops.guard.state import RunIdentity, Ticket
from guardops.guard.stores import Store
from guardops.guard.summary import VERSION
from guardops.guard.texts import encodable

__all__ = [
    "Action",
    "AgentRun",
    "Check",
    "DecisionAction",
    "Escalation",
    "Guard",
    "OnTimeout",
    "Refused",
    "Resolution",
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
    """The guard of one process: a policy, a store, a reporter, and the edge's clock, sleep and jitter.

    ``policy`` is what the application declares of itself and its tools. Where there are ``policies``, a run
    is held to what they publish for its job type, field by field; ``policy`` stands where they say nothing,
    and for runs of a tenant that they are not of. A :class:`guardops.guard.client.PolicyClient` is handed in
    once it has begun.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        reporter: Reporter | None = None,
        tenant: str | None = None,
        signing: Sequence[SigningKey] = (),
        policies: Policies | None = None,
        desk: Desk | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.policy = policy or Policy()
        self.store = store or MemoryStore()
        self.reporter = reporter
        self.tenant = tenant
        self.signing = signing
        """The tenant's secrets: with them, only work that one of them signed is taken on."""
        self.policies = policies
        self.desk = desk
        """Where people's decisions come from; without one every checkpoint expires undecided."""
        self._quarantines: dict[str | None, Quarantine] = {}
        self._jitter = jitter
        self._now = now
        self._sleep = sleep
        self._asleep = asleep
        terms = Terms(
            self.store.checkpoints, self._keys, self._again, desk is not None, now=now, jitter=jitter
        )
        self._means = Means(terms, self.store, self._begin_after, self._place, desk, sleep, asleep)

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

        It reports to ``GUARDOPS_URL`` with the key in ``GUARDOPS_KEY``, obeys the policies that are published
        there, and keeps its state, what waits to be sent and the last good policies in the folder
        ``GUARDOPS_STATE``. It waits for the gate's policies for at most three seconds; without an answer the
        kept ones hold, else the built-in limits. A key of several tenants needs a ``tenant``; ``pace`` says
        how often things are sent. Raises :class:`guardops.guard.settings.SettingsError`, which names the
        variable that is missing or wrong.
        """
        settings = Settings.from_env(environ, tenant)
        store, reporter, policies = settings.store(), settings.reporter(pace), settings.policies()
        policies.begin()
        desk = settings.desk()
        return cls(policy, store=store, reporter=reporter, tenant=tenant, policies=policies, desk=desk)

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
        Work that came in an ``envelope`` belongs to its root and is held to what it carries; where it has
        nothing left, or isn't the tenant's, no run begins: that is reported, and :class:`Stopped` raised.
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
            tenant=tenant or self.tenant or "",
        )
        if envelope is not None:
            who, deadline = self._take_on(envelope, who, deadline)
        return self._begin(
            who, policy or self.policy, envelope, clock or _stopwatch(), deadline, resumed=resumed
        )

    def _begin(
        self,
        who: RunIdentity,
        policy: Policy,
        envelope: Envelope | None,
        clock: Callable[[], float],
        deadline: float | None,
        *,
        resumed: bool = False,
        after: OpenCheckpoint | None = None,
    ) -> AgentRun:
        declared, added = policy, added_by(after) if after is not None else None
        following: Following | None = None
        if self.policies is not None:
            following = Following(self.policies, policy, who, self._now, added)
        policy = following.policy if following is not None else extended(policy, added)
        tenant = who.tenant or None
        return AgentRun(
            who,
            within(policy, envelope) if envelope is not None else policy,
            self.store,
            clock,
            self._jitter,
            deadline,
            resumed=resumed,
            following=following,
            quarantine=self._quarantines.setdefault(tenant, Quarantine()),
            after=after,
            edge=Edge(
                self.reporter,
                tenant,
                self.instance,
                envelope,
                self._sleep,
                self._asleep,
                self._means,
                declared,
            ),
        )

    # -- runs that wait for a person ---------------------------------------------------------------------

    def pending(self) -> list[Escalation]:
        """Return the runs that wait for a person, or whose next attempt died with its process, oldest first.

        Those of this gate and its tenants, that no living process has in hand.
        """
        waiting = self.store.checkpoints.waiting()
        return [Escalation(one, self._means) for one in waiting if one.place in self._places(one.who.tenant)]

    def escalation(self, checkpoint_id: UUID) -> Escalation:
        """Return one of them, as a webhook names it. Raises LookupError where this machine has none such."""
        one = self.store.checkpoints.get(checkpoint_id)
        if one is None or one.place not in self._places(one.who.tenant):
            raise LookupError(f"no run waits here for {checkpoint_id}")
        return Escalation(one, self._means)

    def _begin_after(self, after: OpenCheckpoint, policy: Policy | None) -> AgentRun:
        """Begin the attempt that a decision was consumed for."""
        assert after.attempt_id is not None
        now = self._now()
        who = identity_after(after, after.attempt_id, now)
        deadline = (after.deadline - now).total_seconds() if after.deadline is not None else None
        return self._begin(who, policy or self.policy, after.envelope, _stopwatch(), deadline, after=after)

    def _again(self, records: Sequence[bytes]) -> None:
        if self.reporter is not None:
            self.reporter.again(records)

    def _place(self, tenant: str) -> str:
        return self._places(tenant)[0]

    def _places(self, tenant: str) -> list[str]:
        """Name the gate and tenant that checkpoints belong to: the tenant's own name goes before the key's.

        A key may be replaced by another, and the tenant's name be unknown until its bundle is there.
        """
        if self.desk is None:
            return [f"nowhere {tenant}"]
        bundle = self.policies.snapshot.bundle if self.policies is not None else None
        name = tenant or (bundle.tenant if bundle is not None else "")
        names = ([f"tenant:{name}"] if name else []) + ([] if tenant else [f"key:{self.desk.whose}"])
        return [f"{self.desk.url} {name}" for name in names]

    @property
    def instance(self) -> str:
        """The name of this process among the guards, another one in a forked child."""
        return self.policies.guard if self.policies is not None else _instance(os.getpid())

    def _take_on(
        self, envelope: Envelope, who: RunIdentity, deadline: float | None
    ) -> tuple[RunIdentity, float | None]:
        """Return a run's identity and deadline under an envelope, or refuse the work."""
        refusal = receive(envelope, agent=name_of(who), now=who.started_at, keys=self._keys(who.tenant))
        if refusal is not None:
            if self.reporter is not None:
                self.reporter.refused(_refused(refusal, envelope, who, self.instance))
            raise Stopped(Action.HALT, refusal.reason, f"The work was not taken on ({refusal.reason}).")
        who = msgspec.structs.replace(
            who,
            root_task_id=_label(envelope.root_task_id),
            parent_run_id=envelope.parent_run_id,
            chain=tuple(envelope.chain),
        )
        left = seconds_left(envelope, who.started_at)
        limits = [seconds for seconds in (left, deadline) if seconds is not None]
        return who, min(limits, default=None)

    def _keys(self, tenant: str) -> list[SigningKey]:
        """Return the secrets that may have signed work of a tenant: the given ones, and its bundle's."""
        bundle = self.policies.snapshot.bundle if self.policies is not None else None
        published = bundle.signing if bundle is not None and tenant in ("", bundle.tenant) else ()
        return [*self.signing, *published]

    def close(self, timeout: float | None = None) -> bool:
        """Send what waits, for at most ``timeout`` seconds (5), and say whether everything was sent.

        Called by itself when the process ends. What was not sent is, by the next process that starts.
        """
        if self.policies is not None:
            self.policies.close()
        if self.desk is not None:
            self.desk.close()
        return self.reporter is None or self.reporter.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refused(refusal: Refusal, envelope: Envelope, who: RunIdentity, instance: str) -> WorkRefused:
    return WorkRefused(
        reason=refusal.reason.value,
        refusal_id=uuid7(int(who.started_at.timestamp() * 1_000), secrets.randbits(74)),
        tenant=who.tenant or None,
        at=who.started_at,
        job_type=who.job_type,
        agent=who.agent,
        envelope=envelope,
        detail={"why": refusal.detail} if refusal.detail else None,
        guard=GuardInfo(version=VERSION, instance=instance),
    )


def _stopwatch() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start


def _label(text: str) -> str:
    return encodable(text)[:_MAX_LABEL]


@lru_cache(maxsize=1)
def _instance(pid: int) -> str:
    """Return the name of this process among the guards, another one in a forked child."""
    return secrets.token_hex(8)
