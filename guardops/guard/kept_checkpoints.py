"""What a process must not forget of a run that waits for a person, and where it is kept.

An open checkpoint holds all that the next attempt begins with: who the run was, what it knew and had spent,
how its calls are told apart, and what the application itself needs to go on. It is kept until its next
attempt has ended, or the task has. At any moment one holder at most carries out what was decided.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Protocol
from uuid import UUID

import msgspec
from msgspec import Struct

from guardops.guard.decisions import AddedBudget, Decision, DecisionAction
from guardops.guard.events import Envelope, OnTimeout
from guardops.guard.state import RunIdentity
from guardops.guard.stores import Left, RootState

MAX_CONTEXT_BYTES = 4 * 1024 * 1024
KEEP = timedelta(days=35)
"""How long one is kept after it has expired: its next attempt may be at work."""


class OpenCheckpoint(Struct, kw_only=True):
    """A run that was handed to a person, as its process keeps it."""

    checkpoint_id: UUID
    place: str
    """The gate and tenant that it was told to."""
    who: RunIdentity
    reason: str
    opened_at: datetime
    expires_at: datetime
    on_timeout: OnTimeout
    artifact_digest: str
    records: list[bytes]
    """The events that told of it, to be sent again where the gate does not know of it."""
    left: Left
    """What the run knew: its counters, its ledger."""
    settled: list[int]
    """What it had spent of its budgets, in the order of ``KINDS``."""
    seconds: float
    fingerprints: Mapping[str, str] = {}
    """The calls that a decision may name, by ``name_of_call``."""
    added: AddedBudget | None = None
    """What people had added to it before."""
    deadline: datetime | None = None
    envelope: Envelope | None = None
    context: bytes = b"null"
    """What the application needs to go on, as JSON. It is sent to nobody."""
    attempt_id: UUID | None = None
    """The next attempt, chosen before the decision is consumed."""
    decision: Decision | None = None
    """What was decided, once it is proven."""
    settled_as: DecisionAction | None = None
    """What holds, once nothing else can: the decision was consumed, or nobody decided in time."""


def name_of_call(tool: str, args_hash: str) -> str:
    """Return what a call is named by in a decision."""
    return f"{args_hash} {tool}"


class Taken(Exception):
    """Somebody else on this machine carries out what was decided."""


class Checkpoints(Protocol):
    """Where open checkpoints are kept. Nothing is raised where a file can't be used, but by ``take``."""

    def add(self, one: OpenCheckpoint, root: RootState) -> None:
        """Keep a new one, with what else is changed of its root at the same time."""
        ...

    def confirm(self, one: OpenCheckpoint, root: RootState) -> None:
        """Keep a new one by other means where that answer of the root could not be committed."""
        ...

    def get(self, checkpoint_id: UUID) -> OpenCheckpoint | None:
        """Return one of them."""
        ...

    def waiting(self) -> list[OpenCheckpoint]:
        """Return those that nobody carries out at the moment, oldest first."""
        ...

    def take(self, checkpoint_id: UUID, tag: str) -> OpenCheckpoint | None:
        """Take one in hand and return it as it is now; None where it is there no more.

        Raises :class:`Taken`, and :class:`guardops.guard.stores.StoreError` where that can't be known.
        """
        ...

    def save(self, one: OpenCheckpoint, tag: str) -> None:
        """Write what has changed of one that is in hand."""
        ...

    def give_back(self, checkpoint_id: UUID, tag: str) -> None:
        """Let others have one that was in hand."""
        ...

    def remove(self, checkpoint_id: UUID, root: RootState | None = None) -> None:
        """Forget one that is over, with what else is changed of its root."""
        ...


class MemoryCheckpoints:
    """Open checkpoints for the life of one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[UUID, OpenCheckpoint] = {}
        self._holders: dict[UUID, str] = {}

    def add(self, one: OpenCheckpoint, root: RootState) -> None:
        """Keep a new one; those that nobody has asked for long after they expired are forgotten."""
        with self._lock:
            for old in [held for held in self._kept.values() if held.expires_at + KEEP < one.opened_at]:
                del self._kept[old.checkpoint_id]
            self._kept[one.checkpoint_id] = one

    def confirm(self, one: OpenCheckpoint, root: RootState) -> None:
        """Memory fails nobody."""

    def get(self, checkpoint_id: UUID) -> OpenCheckpoint | None:
        """Return one of them."""
        return self._kept.get(checkpoint_id)

    def waiting(self) -> list[OpenCheckpoint]:
        """Return those that nobody carries out at the moment, oldest first."""
        with self._lock:
            found = [one for one in self._kept.values() if one.checkpoint_id not in self._holders]
        return sorted(found, key=lambda one: one.opened_at)

    def take(self, checkpoint_id: UUID, tag: str) -> OpenCheckpoint | None:
        """Take one in hand and return it; raises :class:`Taken`."""
        with self._lock:
            if checkpoint_id not in self._kept:
                return None
            if self._holders.setdefault(checkpoint_id, tag) != tag:
                raise Taken
            return self._kept[checkpoint_id]

    def save(self, one: OpenCheckpoint, tag: str) -> None:
        """Write what has changed of one that is in hand."""
        with self._lock:
            if self._holders.get(one.checkpoint_id) == tag:
                self._kept[one.checkpoint_id] = one

    def give_back(self, checkpoint_id: UUID, tag: str) -> None:
        """Let others have one that was in hand."""
        with self._lock:
            if self._holders.get(checkpoint_id) == tag:
                del self._holders[checkpoint_id]

    def remove(self, checkpoint_id: UUID, root: RootState | None = None) -> None:
        """Forget one that is over."""
        with self._lock:
            self._kept.pop(checkpoint_id, None)
            self._holders.pop(checkpoint_id, None)

    def __contains__(self, checkpoint_id: UUID) -> bool:
        return checkpoint_id in self._kept


def new_tag() -> str:
    """Return the name of one holder."""
    return secrets.token_hex(6)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(OpenCheckpoint).decode
