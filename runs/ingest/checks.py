"""What a decoded event must hold beyond its types, so that what passes can be stored and shown. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import msgspec

from guardops.guard.checkpoints import Amounts, CheckpointOpened, PendingCall
from guardops.guard.events import (
    MAX_COST,
    MAX_DETAIL_BYTES,
    Envelope,
    LedgerRow,
    RunEnded,
    RunHeartbeat,
    RunStarted,
    Step,
    WorkRefused,
)
from guardops.guard.wire import Event

from .decode import Rejected, check_shape

# Times outside are no clock's: pages in every zone can show what is inside.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_MICRO = Decimal("0.000001")
# Refuses what has more than six places, or eight digits before them, instead of rounding it.
_MONEY = Context(prec=14, traps=[Inexact, InvalidOperation])
_SCALARS = frozenset({str, bool, int, float, type(None)})
_encode = msgspec.json.Encoder().encode


def check(event: Event) -> None:
    """Raise Rejected for what the columns can't hold; puts times in UTC and money to six places.

    So two events that mean the same are the same, and have the same digest.
    """
    if isinstance(event, RunEnded):
        _check_ended(event)
    elif isinstance(event, RunStarted):
        _check_started(event)
    elif isinstance(event, RunHeartbeat):
        _check_heartbeat(event)
    elif isinstance(event, CheckpointOpened):
        _check_checkpoint(event)
    else:
        _check_refused(event)


def _check_ended(event: RunEnded) -> None:
    _check_identity(event)
    event.cost = _money(event.cost)
    if not _is_plain(event.started_at):
        event.started_at = _utc(event.started_at, "started_at")
    if not _is_plain(event.ended_at):
        event.ended_at = _utc(event.ended_at, "ended_at")
    if event.tokens.cached > event.tokens.input:
        raise Rejected("Cached tokens are part of the input.", code="out_of_range", field="tokens.cached")
    _check_history(event.ledger, event.last_steps)
    if event.limits:
        _plain(event.limits, "limits")
    if event.halt_detail is not None:
        _small(event.halt_detail, "halt_detail")


def _check_started(event: RunStarted) -> None:
    _check_identity(event)
    event.started_at = _utc(event.started_at, "started_at")
    _check_envelope(event.envelope)
    _small(event.limits, "limits")


def _check_heartbeat(event: RunHeartbeat) -> None:
    _check_identity(event)
    event.cost = _money(event.cost)
    if event.at is not None:
        event.at = _utc(event.at, "at")


def _check_refused(event: WorkRefused) -> None:
    if event.at is not None:
        event.at = _utc(event.at, "at")
    _check_envelope(event.envelope)
    if event.detail is not None:
        _small(event.detail, "detail")


def _check_checkpoint(event: CheckpointOpened) -> None:
    _check_identity(event)
    event.opened_at = _utc(event.opened_at, "opened_at")
    event.expires_at = _utc(event.expires_at, "expires_at")
    if event.expires_at <= event.opened_at:
        raise Rejected("It expires before it was opened.", code="out_of_range", field="expires_at")
    _check_history(event.ledger, event.last_steps)
    for call in event.pending:
        _check_call(call, "pending")
    if event.refused is not None:
        _check_call(event.refused, "refused")
    _check_amounts(event.spent, "spent")
    _check_amounts(event.remaining, "remaining")
    _small(event.limits, "limits")


def _check_history(ledger: list[LedgerRow], steps: list[Step]) -> None:
    for row in ledger:
        if row.last_at is not None and not _is_plain(row.last_at):
            row.last_at = _utc(row.last_at, "ledger.last_at")
    for step in steps:
        if step.at is not None and not _is_plain(step.at):
            step.at = _utc(step.at, "last_steps.at")


def _check_call(call: PendingCall, field: str) -> None:
    if call.at is not None:
        call.at = _utc(call.at, f"{field}.at")


def _check_amounts(amounts: Amounts, field: str) -> None:
    if amounts.cost is not None:
        amounts.cost = _money(amounts.cost, f"{field}.cost")


def _check_identity(event: RunEnded | RunStarted | RunHeartbeat | CheckpointOpened) -> None:
    if (event.run_id is None) != (not event.external_id):
        return
    if event.run_id is None:
        raise Rejected("Give a run_id or an external_id.", code="missing_field", field="run_id")
    raise Rejected("Give a run_id or an external_id, not both.", code="invalid", field="external_id")


def _check_envelope(envelope: Envelope | None) -> None:
    if envelope is not None and envelope.deadline is not None:
        envelope.deadline = _utc(envelope.deadline, "envelope.deadline")


def _money(cost: Decimal, field: str = "cost") -> Decimal:
    try:
        exact = cost.quantize(_MICRO, context=_MONEY)
        if 0 <= exact <= MAX_COST:
            return exact
    except Inexact:
        raise Rejected("Money has at most six places.", code="out_of_range", field=field) from None
    except InvalidOperation:  # NaN, infinity, too many digits
        pass
    raise Rejected(f"Money is from 0 to {MAX_COST}.", code="out_of_range", field=field)


def _is_plain(time: datetime) -> bool:
    return time.tzinfo is UTC and EARLIEST <= time < LATEST


def _utc(time: datetime, field: str) -> datetime:
    try:
        time = time.astimezone(UTC)
    except OverflowError:
        time = datetime.min.replace(tzinfo=UTC)
    if not EARLIEST <= time < LATEST:
        raise Rejected("A time is from 1970 to 2199.", code="out_of_range", field=field)
    return time


def _small(data: dict[str, Any], field: str) -> None:
    _plain(data, field)
    if len(_encode(data)) > MAX_DETAIL_BYTES:
        raise Rejected("This takes at most 4 KB.", code="too_large", field=field)


def _plain(data: dict[str, Any], field: str) -> None:
    """Check the shape of free JSON; most has no inner one."""
    if not _SCALARS.issuperset(map(type, data.values())):
        check_shape(data, field)
