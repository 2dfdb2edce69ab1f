"""What a run says of itself as it begins, and how the application's own words on it are cut to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardops.guard.events import Envelope, GuardInfo, RunStarted
from guardops.guard.policy import Policy
from guardops.guard.state import RunIdentity
from guardops.guard.texts import encodable

MAX_ATTRIBUTES = 20


def started(
    who: RunIdentity, policy: Policy, guard: GuardInfo, envelope: Envelope | None, identity: Mapping[str, Any]
) -> RunStarted:
    """Return the event of a run that begins; ``identity`` names it as its end will."""
    return RunStarted(
        job_type=who.job_type,
        started_at=who.started_at,
        **identity,
        agent=who.agent,
        root_task_id=who.root_task_id,
        parent_run_id=who.parent_run_id,
        attempt=who.attempt,
        resumed_from=who.resumed_from,
        release=who.release,
        prompt_version=who.prompt_version,
        envelope=envelope,
        limits=policy.limits_in_force(),
        guard=guard,
    )


def short_attributes(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """Return attributes as the wire takes them: 20 at most, names cut to 64 characters, values to 256."""
    items = list(attributes.items())[:MAX_ATTRIBUTES]
    return {encodable(str(name))[:64]: encodable(str(value))[:256] for name, value in items}
