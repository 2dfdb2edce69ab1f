from __future__ import annotations

from datetime import UTC, datetime

from guardops.guard.policy import Policy
from guardops.guard.scenarios.driver import Clock, Drive, Driver
from guardops.guard.scenarios.economy import AS_MODELLED, Rates
from guardops.guard.scenarios.script import Script
from guardops.guard.session import Guard

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


def drive(
    script: Script, tools: dict[str, dict[str, object]] | None = None, rates: Rates = AS_MODELLED
) -> Drive:
    """Drive a script under the built-in limits and the tools' specifications."""
    clock = Clock()
    policy = Policy.from_mapping({"tools": tools or {}})
    run = Guard(policy, jitter=lambda: 0.0).run(job_type="test", clock=clock, started_at=NOW)
    return Driver(run, clock, rates).drive(script)
