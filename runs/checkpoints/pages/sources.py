"""The sources that a run used, and which of them can be blocked: an attacker may have named anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from policies.choices import SourceKind
from policies.errors import InvalidSource
from policies.names import canonical_source

if TYPE_CHECKING:
    from guardops.guard.checkpoints import AttemptedSource
    from guardops.guard.decisions import BlockedForTask


def can_be_blocked(source: AttemptedSource | BlockedForTask, *, for_task: bool = False) -> bool:
    """Say whether guards know a source of that name; an address is blocked for one task at most."""
    try:
        canonical_source(SourceKind(source.kind), source.name, exact=False)
    except InvalidSource as error:
        return for_task and error.code == "ip_address"
    return True


def all_can_be_blocked(sources: Iterable[BlockedForTask]) -> bool:
    """Say whether a resume may block them."""
    return all(can_be_blocked(source, for_task=True) for source in sources)
