"""What a running run takes over of a newer policy: the stricter side of each field.

What loosens waits for the next run. So does what makes a call's identity (its tool's class, key and volatile
fields): another fingerprint in the middle of a run would forget what has been done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from guardops.guard.events import Mode
from guardops.guard.policy import Limits, Policy, Poll, ToolSpec
from guardops.guard.rungs import stricter

_STRICTER_WHEN_HIGHER = frozenset({"window", "max_period", "backoff"})
"""A longer view sees more cycles, a longer back-off makes fewer retries; every other limit bites when low."""

_MODES = (Mode.OFF, Mode.SHADOW, Mode.ENFORCE)
_TOOL_CAPS = ("max_repeats", "max_empty", "max_retries")


def tighten(running: Policy, newest: Policy) -> Policy:
    """Return the policy of a running run after ``newest`` was published: ``running`` itself where it is as
    strict already."""
    tightened = Policy(
        limits=_limits(running.limits, newest.limits),
        tools=_tools(running, newest),
        allow_list=running.allow_list or newest.allow_list,
        blocked=running.blocked.joined(newest.blocked),
        mode=max(running.mode, newest.mode, key=_MODES.index),
        partial_ok=running.partial_ok and newest.partial_ok,
        ladder=stricter(running.ladder, newest.ladder),
    )
    return running if tightened == running else tightened


def _limits(running: Limits, newest: Limits) -> Limits:
    values = {}
    for item in fields(Limits):
        pair = getattr(running, item.name), getattr(newest, item.name)
        values[item.name] = max(pair) if item.name in _STRICTER_WHEN_HIGHER else min(pair)
    return Limits(**values)


def _tools(running: Policy, newest: Policy) -> Mapping[str, ToolSpec]:
    names = running.tools.keys() | newest.tools.keys()
    return MappingProxyType({name: _tool(name, running, newest) for name in names})


def _tool(name: str, running: Policy, newest: Policy) -> ToolSpec:
    own, other = running.tool(name), newest.tool(name)
    caps: dict[str, Any] = {
        cap: _cap(getattr(own, cap), getattr(other, cap), getattr(running.limits, cap), newest.limits, cap)
        for cap in _TOOL_CAPS
    }
    return replace(
        own,
        poll=_poll(own.poll, other.poll),
        approval=own.approval or other.approval,
        forbidden=own.forbidden or other.forbidden,
        idempotent=own.idempotent and other.idempotent,
        external=own.external or other.external,
        **caps,
    )


def _cap(own: int | None, other: int | None, usual: int, newest: Limits, name: str) -> int | None:
    """Return a tool's cap; None leaves it to the run's limit, which is tightened by itself."""
    if own is None and other is None:
        return None
    return min(usual if own is None else own, getattr(newest, name) if other is None else other)


def _poll(own: Poll | None, other: Poll | None) -> Poll | None:
    """A contract exempts from other rules, so that one newly made or ended is for new runs."""
    if own is None or other is None:
        return own
    return replace(
        own,
        interval=max(own.interval, other.interval),
        max_attempts=min(own.max_attempts, other.max_attempts),
        max_seconds=min(own.max_seconds, other.max_seconds),
    )
