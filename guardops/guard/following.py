"""What one run takes from the policy that its process keeps the newest, at its start and at every step.

A run starts under what is published for its job type, laid over what the application itself has declared:
field by field the published word goes first, and where it says nothing the declared one stays. Inside the run
only what tightens is taken over, and orders to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from guardops.guard.added import extended
from guardops.guard.bundle import BUILTIN, Bundle, JobRules, OnStale, Review, SigningKey, StopOrder
from guardops.guard.decisions import AddedBudget
from guardops.guard.events import Mode, PolicyInForce
from guardops.guard.fields import PolicyError
from guardops.guard.policy import Policy
from guardops.guard.snapshot import NOTHING, Snapshot
from guardops.guard.state import RunIdentity
from guardops.guard.tightening import tighten


class Policies(Protocol):
    """What keeps the policy of a process: :class:`guardops.guard.client.PolicyClient`."""

    @property
    def snapshot(self) -> Snapshot:
        """What is in force now; another object whenever something has changed."""
        ...

    @property
    def guard(self) -> str:
        """The name of this process among the tenant's guards."""
        ...

    def close(self) -> None:
        """Ask no more."""
        ...


class Following:
    """One run's view of the published policy. Hold the run's lock."""

    __slots__ = (
        "_added",
        "_bundle",
        "_changes_at",
        "_declared",
        "_now",
        "_policies",
        "_seen",
        "_start",
        "_version",
        "_who",
        "order",
        "policy",
        "too_old",
    )

    def __init__(
        self,
        policies: Policies,
        declared: Policy,
        who: RunIdentity,
        now: Callable[[], datetime],
        added: AddedBudget | None = None,
    ) -> None:
        self._policies = policies
        self._added = added
        self._declared = declared
        self._who = who
        self._now = now
        self._seen: Bundle | None = None
        snapshot, moment = self._catch_up(0.0), now()
        rules = self._rules(moment)
        stale = snapshot.is_stale(moment)
        self._start = snapshot.revision
        self._version = rules.version
        self.policy = rules.policy
        """What the run starts under."""
        if stale and rules.on_stale is OnStale.BUILTIN:
            self.policy = tighten(rules.policy, extended(BUILTIN, added))
        self.order = self._order_in(snapshot, moment)
        """The order under which the run must not begin."""
        self.too_old = not snapshot.admits(rules, moment)
        """Whether the policy is older than it allows a run to begin with."""

    def has_news(self, at: float) -> bool:
        """Say whether anything may have changed by ``at`` seconds since the run's start."""
        return self._policies.snapshot.bundle is not self._seen or at >= self._changes_at

    def news(self, running: Policy, at: float) -> tuple[Policy, StopOrder | None]:
        """Return what the run is held to from here on, and the order that ends it, if there is one."""
        snapshot, now = self._catch_up(at), self._now()
        return tighten(running, self._rules(now).policy), self._order_in(snapshot, now)

    def in_force(self, mode: Mode) -> PolicyInForce:
        """Return what the run's events say of its policy."""
        if self._bundle is None:
            return PolicyInForce(mode=mode)
        snapshot = self._policies.snapshot
        return PolicyInForce(
            revision_start=self._start,
            revision_end=self._bundle.revision,
            version=self._version,
            mode=mode,
            age_s=snapshot.age_s(self._now()),
            src=snapshot.src,
        )

    @property
    def revision(self) -> int:
        """The bundle that the run has caught up with; 0 for the built-in limits."""
        return self._bundle.revision if self._bundle is not None else 0

    @property
    def signing(self) -> SigningKey | None:
        """The tenant's secret that envelopes are signed with; None where there is no bundle."""
        keys = self._bundle.signing if self._bundle is not None else ()
        now = self._now()
        living = [key for key in keys if key.not_after is None or now < key.not_after]
        return max(living, key=lambda key: (key.not_after is None, key.not_after or now), default=None)

    def _catch_up(self, at: float) -> Snapshot:
        """Look at what is in force now, and return it; another tenant's says nothing to this run."""
        snapshot, now = self._policies.snapshot, self._now()
        self._seen = snapshot.bundle
        self._changes_at = math.inf
        if snapshot.bundle is None or self._who.tenant not in ("", snapshot.bundle.tenant):
            self._bundle = None
            return NOTHING
        self._bundle = snapshot.bundle
        moment = snapshot.bundle.changes_at(self._who.job_type, now)
        if moment is not None:
            self._changes_at = at + (moment - now).total_seconds()
        return snapshot

    @property
    def review(self) -> Review:
        """How the job type's escalated runs are handled."""
        return self._rules(self._now()).review

    def _rules(self, now: datetime) -> JobRules:
        """Return what the job type is held to, with what people have added for this task."""
        if self._bundle is None:
            rules = JobRules(self._declared)
        else:
            rules = rules_of(self._bundle, self._who.job_type, now, self._declared)
        if self._added is None:
            return rules
        return replace(rules, policy=extended(rules.policy, self._added))

    def _order_in(self, snapshot: Snapshot, now: datetime) -> StopOrder | None:
        who = self._who
        return snapshot.order_for(
            job_type=who.job_type,
            root_task_id=who.root_task_id,
            run_id=str(who.run_id),
            external_id=who.external_id or "",
            now=now,
        )


def rules_of(bundle: Bundle, job_type: str, now: datetime, declared: Policy) -> JobRules:
    """Return a job type's rules. Declared limits that don't go with the published ones give way, all."""
    try:
        return bundle.rules(job_type, now, declared)
    except PolicyError:
        return bundle.rules(job_type, now, replace(declared, limits=BUILTIN.limits))
