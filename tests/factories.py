"""Makes what tests start from; everything goes through the verbs that make it in production."""

from __future__ import annotations

import itertools
import secrets
import uuid
from collections.abc import Collection
from copy import copy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models.functions import Now

from guardops.guard import checkpoints, events
from guardops.guard.ids import uuid7
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role, Scope
from guardops.tenants.invitations import invite
from guardops.tenants.keys import create_key
from guardops.tenants.models import ApiKey, Invitation, Organisation, Tenant, User
from guardops.tenants.organisations import create_organisation, create_tenant
from guardops.tenants.people import create_user, set_membership
from runs.ingest.checks import check
from runs.ingest.project import project_event
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import Receipt, project
from runs.models import Checkpoint, Decision

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
PASSWORD = "correct horse battery"

_number = itertools.count(1)


def make_organisation(slug: str | None = None, **fields: Any) -> Organisation:
    slug = slug or f"org-{next(_number)}"
    return create_organisation(slug=slug, name=fields.pop("name", slug.title()), actor=SYSTEM, **fields)


def make_tenant(slug: str | None = None, *, organisation: Organisation | None = None) -> Tenant:
    slug = slug or f"tenant-{next(_number)}"
    return create_tenant(
        organisation=organisation or make_organisation(), slug=slug, name=slug.title(), actor=SYSTEM
    )


def make_user(username: str | None = None, *, is_operator: bool = False) -> User:
    return create_user(
        username=username or f"person-{next(_number)}",
        password=PASSWORD,
        is_operator=is_operator,
        actor=SYSTEM,
    )


def make_operator(username: str | None = None) -> User:
    return make_user(username, is_operator=True)


def make_member(of: Tenant | Organisation, role: Role = Role.VIEWER, *, username: str | None = None) -> User:
    """Return a new person with ``role`` in a tenant, or in a whole organisation."""
    user = make_user(username)
    tenant = of if isinstance(of, Tenant) else None
    organisation = of.organisation if isinstance(of, Tenant) else of
    set_membership(user=user, organisation=organisation, tenant=tenant, role=role, actor=SYSTEM)
    return user


def make_invitation(
    of: Tenant | Organisation,
    role: Role = Role.VIEWER,
    *,
    invitee: str = "kim",
    by: User | None = None,
    now: datetime | None = None,
) -> tuple[Invitation, str]:
    """Return an invitation and its link's token; without ``by`` a new admin of the organisation makes it."""
    tenant = of if isinstance(of, Tenant) else None
    organisation = of.organisation if isinstance(of, Tenant) else of
    return invite(
        organisation=organisation,
        tenant=tenant,
        role=role,
        invitee=invitee,
        actor=by or make_member(organisation, Role.ADMIN),
        now=now or datetime.now(UTC),
    )


def make_key(
    *tenants: Tenant,
    scopes: Collection[str] = (Scope.EVENTS_WRITE, Scope.BUNDLE_READ),
    now: datetime = NOW,
    **fields: Any,
) -> tuple[ApiKey, str]:
    """Return a key of the tenants' organisation and its plain text."""
    return create_key(
        organisation=tenants[0].organisation,
        tenants=tenants,
        name=fields.pop("name", "test key"),
        scopes=scopes,
        actor=fields.pop("actor", SYSTEM),
        now=now,
        **fields,
    )


def make_run_id(at: datetime) -> uuid.UUID:
    """Return a new UUIDv7 of that moment (milliseconds)."""
    return uuid7(round(at.timestamp() * 1000), secrets.randbits(74))


def make_run_event(**overrides: Any) -> events.RunEnded:
    """Return a plain completed run that ended at ``NOW``; an ``ended_at`` moves its start and id along."""
    ended_at: datetime = overrides.get("ended_at", NOW)
    started_at: datetime = overrides.get("started_at", ended_at - timedelta(seconds=40))
    fields: dict[str, Any] = {
        "run_id": make_run_id(started_at),
        "job_type": "research",
        "agent": "researcher",
        "release": "2026.3",
        "outcome": events.Outcome.COMPLETED,
        "answer": events.Answer.FULL,
        "started_at": started_at,
        "ended_at": ended_at,
        "steps": 5,
        "turns": 6,
        "tool_calls": 5,
        "tokens": events.TokenCounts(input=12_000, output=900, cached=4_000),
        "cost": Decimal("0.042"),
        "cost_basis": events.CostBasis.PROVIDER,
        "limits": {"steps": 40, "seconds": 900, "repeats": 3},
        "guard": events.GuardInfo(version="0.1.0", adapter="plain"),
    }
    return events.RunEnded(**(fields | overrides))


def store_runs(tenant: Tenant, *runs: events.RunEnded, received_at: datetime = NOW) -> Recorded:
    """Store runs as the gate does, which receives all of them at ``received_at``."""
    receipt = Receipt(received_at)
    rows = [
        project(copy(run), receipt, index=index, tenant_id=tenant.pk, sanitized=False)
        for index, run in enumerate(runs)
    ]
    return record_runs(rows)


def make_checkpoint_event(**overrides: Any) -> checkpoints.CheckpointOpened:
    """Return a run that read page after page of one source; handed over at ``opened_at``, for four hours."""
    opened_at: datetime = overrides.get("opened_at", NOW)
    run_id = overrides.get("run_id", make_run_id(opened_at - timedelta(seconds=95)))
    step = events.Step(
        step=14, tool="fetch", args='{"url":"https://mirror.example/p/14"}', args_hash="ab" * 8
    )
    fields: dict[str, Any] = {
        "checkpoint_id": uuid7(round(opened_at.timestamp() * 1000), secrets.randbits(74)),
        "run_id": run_id,
        "job_type": "research",
        "reason": "no_progress",
        "opened_at": opened_at,
        "expires_at": opened_at + timedelta(hours=4),
        "artifact": checkpoints.Artifact(digest="sha256:" + "5a" * 32, text="Page 14 of 999. Next: /p/15"),
        "agent": "researcher",
        "release": "2026.3",
        "question": "Is the price list on mirror.example complete without its later pages?",
        "unresolved": ["the price of the large plan"],
        "last_steps": [step],
        "sources": [
            checkpoints.AttemptedSource(kind=events.SourceKind.DOMAIN, name="mirror.example", calls=14),
            checkpoints.AttemptedSource(kind=events.SourceKind.DOMAIN, name="acme.test", calls=1),
        ],
        "calls": [checkpoints.CallCount(tool="fetch", calls=14, refused=1)],
        "spent": checkpoints.Amounts(steps=14, turns=15, seconds=95, tokens=41_000, cost=Decimal("0.31")),
        "remaining": checkpoints.Amounts(steps=26, turns=25, seconds=805, cost=Decimal("1.69")),
        "limits": {"max_steps": 40, "max_seconds": 900},
        "guard": events.GuardInfo(version="0.1.0", adapter="plain"),
    }
    return checkpoints.CheckpointOpened(**(fields | overrides))


def make_checkpoint(tenant: Tenant, *, received_at: datetime | None = None, **overrides: Any) -> Checkpoint:
    """Return a checkpoint of `make_checkpoint_event`, taken in as the gate does, when it was opened."""
    event = make_checkpoint_event(**overrides)
    check(event)
    receipt = Receipt(received_at or event.opened_at)
    checkpoint_id = event.checkpoint_id
    row = project_event(event, receipt, index=0, tenant_id=tenant.pk, sanitized=False)
    recorded = record_runs([row])
    assert recorded.accepted == 1, recorded
    found: Checkpoint = Checkpoint.objects.select_related("tenant").get(
        tenant=tenant, checkpoint_id=checkpoint_id
    )
    return found


def let_undo_time_pass(decision: Decision) -> Decision:
    """Move a decision's time of delivery into the past, as ten seconds would, by the database's clock."""
    Decision.objects.filter(pk=decision.pk).update(deliver_at=Now() - timedelta(seconds=1))
    decision.refresh_from_db()
    return decision
