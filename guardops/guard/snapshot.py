"""The policy that a process holds: one immutable snapshot, swapped whole, that the tool path only reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from guardops.guard.bundle import BUILTIN, Bundle, JobRules, OnStale, StopOrder, short_hash
from guardops.guard.events import PolicySource
from guardops.guard.policy import Policy


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A bundle, where it came from, and when the server last said that it is the newest (UTC)."""

    bundle: Bundle | None = None
    src: PolicySource = PolicySource.BUILTIN
    confirmed_at: datetime | None = None

    @property
    def revision(self) -> int:
        return self.bundle.revision if self.bundle else 0

    def age_s(self, now: datetime) -> int:
        """Return the seconds since the server confirmed it; 0 for the built-in limits, which don't age."""
        if self.confirmed_at is None:
            return 0
        return max(0, int((now - self.confirmed_at).total_seconds()))

    def is_stale(self, now: datetime) -> bool:
        return (
            self.bundle is not None
            and self.confirmed_at is not None
            and now - self.confirmed_at > timedelta(seconds=self.bundle.max_stale_s)
        )

    def rules(self, job_type: str, now: datetime, declared: Policy = BUILTIN) -> JobRules | None:
        """Return what the bundle holds a job type to, laid over what the application has declared.

        None where there is no bundle.
        """
        return self.bundle.rules(job_type, now, declared) if self.bundle else None

    def admits(self, rules: JobRules, now: datetime) -> bool:
        """Say whether a new run may start: not where the policy wants a fresh bundle and there is none."""
        return rules.on_stale is not OnStale.REFUSE or not self.is_stale(now)

    def order_for(
        self, *, job_type: str, root_task_id: str, run_id: str, external_id: str = "", now: datetime
    ) -> StopOrder | None:
        """Return the order that ends this run, if there is one."""
        for order in self.bundle.stops if self.bundle else ():
            if order.holds(now) and order.ends(
                job_type=job_type, root_task_id=root_task_id, run_id=run_id, external_id=external_id
            ):
                return order
        return None

    def applied(self, now: datetime) -> str:
        """Return what ``GuardOps-Applied`` says: ``42:<hash16>;src=server;age=12``, or nothing."""
        if self.bundle is None:
            return ""
        hash16 = short_hash(self.bundle.content_hash)
        return f"{self.bundle.revision}:{hash16};src={self.src.value};age={self.age_s(now)}"


NOTHING = Snapshot()
