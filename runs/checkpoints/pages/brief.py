"""All that the page of a checkpoint tells: what stopped the run, what was tried, what may be decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from guardops.guard.checkpoints import AttemptedSource, PendingCall
from guardops.guard.events import LedgerRow
from guardops.tenants.access import role_in
from guardops.tenants.choices import Role
from runs.checkpoints.ceiling import Ceiling, ceiling_of
from runs.checkpoints.errors import Change
from runs.checkpoints.moving import change_of
from runs.checkpoints.packet import Packet, read_packet
from runs.checkpoints.words import (
    Said,
    Sla,
    is_claimed,
    is_waiting,
    sla_of,
    state_of,
    timeout_words,
    title_of,
)
from runs.choices import CheckpointState
from runs.ingest.rows import Detail
from runs.models import Checkpoint, CheckpointNote, Decision, Run, StopReview
from runs.pages.limits import pressure_on
from runs.pages.story import Line, timeline
from runs.review.stops import current_review, judged_reason

from .attempts import Attempt, read_attempts, read_run
from .receipts import Receipt, receipts_of
from .sources import can_be_blocked

if TYPE_CHECKING:
    from guardops.tenants.models import User

SHOWN = 8
"""How many of the last lines stand open; all that were kept are one click away."""
SHOWN_ON_PHONES = 4
SHORT_QUESTION = 200
"""How many characters of the question stand under the title; the rest opens beneath."""


@dataclass(frozen=True)
class Brief:
    """A checkpoint as its reader sees it at ``now``."""

    checkpoint: Checkpoint
    packet: Packet
    reader: User
    role: Role | None
    now: datetime

    @property
    def title(self) -> str:
        return title_of(self.checkpoint.reason, self.packet.limits)

    @property
    def question(self) -> str:
        """What it was asked, as far as the first screen has room for it."""
        whole: str = self.checkpoint.question
        return f"{whole[:SHORT_QUESTION]}…" if len(whole) > SHORT_QUESTION else whole

    @property
    def state(self) -> Said:
        return state_of(self.checkpoint, self.now)

    @property
    def sla(self) -> Sla:
        return sla_of(self.checkpoint, self.now)

    @property
    def waits(self) -> bool:
        """Whether it can still be decided."""
        return is_waiting(self.checkpoint) and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the time to decide is over, though nothing may have come of it yet."""
        return is_waiting(self.checkpoint) and self.checkpoint.expires_at <= self.now

    @property
    def may_act(self) -> bool:
        return self.role is not None and self.role.rank >= Role.REVIEWER.rank

    @property
    def may_block(self) -> bool:
        return self.role is Role.ADMIN

    @property
    def claimed(self) -> bool:
        return is_claimed(self.checkpoint, self.now)

    @property
    def is_mine(self) -> bool:
        return self.claimed and self.checkpoint.claimed_by_id == self.reader.pk

    @property
    def on_timeout(self) -> str:
        return timeout_words(self.checkpoint.on_timeout)

    @property
    def last(self) -> Change:
        return change_of(self.checkpoint)

    @cached_property
    def lines(self) -> Sequence[Line]:
        kept = Detail(last_steps=self.packet.last_steps, interventions=self.packet.interventions)
        return timeline(kept, self.checkpoint.reason)

    @property
    def earlier_lines(self) -> Sequence[Line]:
        return self.lines[:-SHOWN]

    @property
    def last_lines(self) -> Sequence[tuple[Line, bool]]:
        """The last lines, each with whether a phone shows it only on demand."""
        shown = self.lines[-SHOWN:]
        return [(line, len(shown) - at > SHOWN_ON_PHONES) for at, line in enumerate(shown)]

    @property
    def hides_lines(self) -> bool:
        return len(self.lines) > SHOWN_ON_PHONES

    @property
    def spent(self) -> str:
        """What it cost, and of how much: ``$1.84 of $3.00``; empty where no limit is known."""
        used = pressure_on("max_cost", self.checkpoint.cost, self.packet.limits)
        return used.used if used else ""

    @property
    def steps(self) -> str:
        used = pressure_on("max_steps", self.checkpoint.steps, self.packet.limits)
        return used.used if used else f"{self.checkpoint.steps:,}"

    @property
    def budget(self) -> Sequence[Budget]:
        """What it has used and has left, of what was counted."""
        pairs = [Budget(name, *_pair(self.packet, name)) for name in _AMOUNTS]
        return [one for one in pairs if one.used is not None or one.left is not None]

    @cached_property
    def ceiling(self) -> Ceiling:
        """What a resume may add."""
        return ceiling_of(self.checkpoint, self.now, self.packet)

    @cached_property
    def sources(self) -> Sequence[tuple[AttemptedSource, bool]]:
        """The sources, each with whether it can be blocked."""
        return [(source, can_be_blocked(source)) for source in self.packet.sources]

    @property
    def under_way(self) -> Sequence[PendingCall]:
        """Calls that had not ended and of which a person need not say anything."""
        return [call for call in self.packet.pending if not call.uncertain]

    @property
    def ledger(self) -> Sequence[LedgerRow]:
        """The ledger, what matters for the decision first."""
        return sorted(
            self.packet.ledger,
            key=lambda row: (not row.uncertain, not row.in_flight, not row.blocked, -row.count),
        )

    @property
    def blocked(self) -> int:
        return sum(row.blocked for row in self.packet.ledger)

    @cached_property
    def run(self) -> Run | None:
        return read_run(self.checkpoint)

    @cached_property
    def review(self) -> StopReview | None:
        """What somebody thinks of the stop."""
        return current_review(self.run) if self.run else None

    @property
    def may_review(self) -> bool:
        return self.may_act and self.run is not None and bool(judged_reason(self.run))

    @cached_property
    def attempts(self) -> Sequence[Attempt]:
        return read_attempts(self.checkpoint)

    @cached_property
    def notes(self) -> Sequence[CheckpointNote]:
        notes = CheckpointNote.objects.filter(checkpoint=self.checkpoint.pk)
        return list(notes.select_related("by").order_by("at", "id"))

    @property
    def is_moving(self) -> bool:
        """Whether something may still become of it without this page."""
        state, made = self.checkpoint.state, self.checkpoint.decided
        if state == CheckpointState.EXPIRED:
            return made is not None and made.consumed_at is None and made.expires_at > self.now
        return state not in (CheckpointState.CONSUMED, CheckpointState.UNDELIVERABLE)

    @property
    def poll(self) -> str:
        """When an open page asks again; not while the button that takes a decision back may have focus."""
        if self.waits:
            return "every 10s"
        if self.receipt is not None and self.receipt.can_undo:
            return f"load delay:{self.receipt.milliseconds_left + 500}ms"
        return "every 3s"

    @property
    def receipt(self) -> Receipt | None:
        """The decision that stands, and how far it has come."""
        made: Decision | None = self.checkpoint.decided
        return Receipt(made, self.checkpoint, self.now) if made else None

    @cached_property
    def undone(self) -> Sequence[Receipt]:
        """Decisions that were taken back."""
        return receipts_of(self.checkpoint, self.now)


@dataclass(frozen=True, slots=True)
class Budget:
    """One of the budgets: what is used of it and what is left, None where that is not known."""

    name: str
    used: int | Decimal | None
    left: int | Decimal | None

    @property
    def is_money(self) -> bool:
        return self.name == "cost"


_AMOUNTS = ("steps", "turns", "seconds", "tokens", "cost")


def _pair(packet: Packet, name: str) -> tuple[int | Decimal | None, int | Decimal | None]:
    return getattr(packet.spent, name), getattr(packet.remaining, name)


def tell(checkpoint: Checkpoint, reader: User, now: datetime) -> Brief:
    """Return everything on a checkpoint's page; most is read only when it is asked for."""
    role = role_in(reader, checkpoint.tenant)
    return Brief(checkpoint, read_packet(checkpoint), reader, role, now)
