"""Work that crosses processes: what a run hands over with it, and which work is not taken on.

An envelope never carries more than its sender has left: one hop fewer, the descendants that its root can
still pay for, the sooner deadline. Every hand-over adds who handed what over, so that work that goes round in
circles shows.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
from msgspec import Struct

from guardops.guard.bundle import SigningKey
from guardops.guard.cycles import ping_pong
from guardops.guard.events import ChainLink, Envelope
from guardops.guard.fingerprint import canonical_args
from guardops.guard.policy import DEFAULT_TOOL, Kind, Policy
from guardops.guard.reasons import Reason
from guardops.guard.state import RunIdentity, RunState, Ticket

MAX_LINKS = 32
"""Newest hand-overs that an envelope carries; a ping-pong shows in eight."""

_canonical = msgspec.json.Encoder(order="sorted").encode


class Refusal(Struct, frozen=True):
    """Why work is not handed over, or not taken on."""

    reason: Reason
    detail: str = ""


def package_hash(package: object) -> str:
    """Return the digest of what is handed over; injected identifiers and credentials make no other package.

    Raises :class:`guardops.guard.fingerprint.FingerprintError` for what is not JSON.
    """
    return sha256(canonical_args({"package": package}, DEFAULT_TOOL)).hexdigest()


def child_envelope(
    run: RunState, who: RunIdentity, package: object, *, ticket: Ticket | None, policy_revision: int
) -> Envelope | Refusal:
    """Return the envelope for work that a run hands over, and charge it to the root.

    The call that hands it over has paid already where it is declared as one that delegates or spawns: then
    its ``ticket`` belongs here.
    """
    paid = ticket is not None and ticket.spec.kind is not Kind.CALL
    descendants = run.budgets.descendants
    if run.hops < 1:
        return Refusal(Reason.HOP_BUDGET)
    if not paid and descendants.left < 1:
        return Refusal(Reason.DESCENDANTS_BUDGET)
    link = ChainLink(agent=name_of(who), package_hash=package_hash(package))
    if not paid:
        descendants.spend()
    return Envelope(
        root_task_id=who.root_task_id,
        parent_run_id=who.run_id,
        hops_remaining=run.hops - 1,
        descendants_budget=descendants.left + 1,  # the work that is handed over is one of them
        deadline=_deadline(run, who),
        chain=[*who.chain, link][-MAX_LINKS:],
        policy_revision=policy_revision,
    )


def sign(envelope: Envelope, key: SigningKey) -> Envelope:
    """Return the envelope with the tenant's signature: HMAC-SHA256 over its canonical form, 64 hex digits."""
    named = msgspec.structs.replace(envelope, kid=key.kid, signature=None)
    return msgspec.structs.replace(named, signature=_signature(named, key.secret))


def receive(
    envelope: Envelope, *, agent: str, now: datetime, keys: Sequence[SigningKey] = ()
) -> Refusal | None:
    """Return why the agent called ``agent`` doesn't take the work on at ``now`` (UTC), or None.

    Where the tenant has ``keys``, an envelope that none of them signed is refused as a start without a grant.
    """
    if keys and (wrong := _forged(envelope, keys, now)):
        return Refusal(Reason.REQUEUE_REFUSED, wrong)
    if envelope.hops_remaining is not None and envelope.hops_remaining < 1:
        return Refusal(Reason.HOP_BUDGET)
    if envelope.deadline is not None and now >= _utc(envelope.deadline):
        return Refusal(Reason.DEADLINE)
    if envelope.descendants_budget is not None and envelope.descendants_budget < 1:
        return Refusal(Reason.DESCENDANTS_BUDGET)
    if ping_pong(_edges(envelope.chain, agent)):
        return Refusal(Reason.LINEAGE_PING_PONG)
    return None


def within(policy: Policy, envelope: Envelope) -> Policy:
    """Return the policy of who takes the work on, with the tighter limit of its own and the envelope's."""
    limits = policy.limits
    hops, descendants = envelope.hops_remaining, envelope.descendants_budget
    if hops is not None:
        limits = replace(limits, hops=min(limits.hops, hops))
    if descendants is not None:
        limits = replace(limits, descendants=min(limits.descendants, max(0, descendants - 1)))
    return policy if limits is policy.limits else replace(policy, limits=limits)


def seconds_left(envelope: Envelope, started_at: datetime) -> float | None:
    """Return the seconds from a run's start to the envelope's deadline; None where it has none."""
    if envelope.deadline is None:
        return None
    return (_utc(envelope.deadline) - started_at).total_seconds()


def name_of(who: RunIdentity) -> str:
    """Return what a run is called in a chain: its agent, or its job type where it names none."""
    return who.agent or who.job_type


def _edges(chain: Sequence[ChainLink], last_taker: str) -> list[tuple[str, str, str]]:
    """Return who handed what to whom, oldest first."""
    takers = [*(link.agent for link in chain[1:]), last_taker]
    return [(link.agent, link.package_hash, taker) for link, taker in zip(chain, takers, strict=False)]


def _deadline(run: RunState, who: RunIdentity) -> datetime:
    seconds = run.limits.max_seconds - run.carried_seconds
    if run.deadline is not None:
        seconds = min(seconds, run.deadline)
    return (who.started_at + timedelta(seconds=seconds)).astimezone(UTC)


def _forged(envelope: Envelope, keys: Sequence[SigningKey], now: datetime) -> str:
    """Return what is wrong with a signature, or an empty text."""
    key = next((key for key in keys if key.kid == envelope.kid), None)
    if envelope.signature is None or key is None:
        return "not signed by a key of the tenant"
    if key.not_after is not None and now >= _utc(key.not_after):
        return "signed with a key that has expired"
    signed, given = _signature(envelope, key.secret).encode(), envelope.signature.encode(errors="replace")
    return "" if hmac.compare_digest(signed, given) else "the signature is wrong"


def _signature(envelope: Envelope, secret: str) -> str:
    content = _canonical(msgspec.structs.replace(envelope, signature=None))
    return hmac.new(secret.encode(), content, sha256).hexdigest()


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # at either end of the calendar an offset makes no difference
        return moment.replace(tzinfo=UTC)
