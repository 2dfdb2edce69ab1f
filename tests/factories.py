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

from guardops.guard import events
from guardops.guard.ids import uuid7
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role, Scope
from guardops.tenants.invitations import invite
from guardops.tenants.keys import create_key
from guardops.tenants.models import ApiKey, Invitation, Organisation, Tenant, User
from guardops.tenants.organisations import create_organisation, create_tenant
from guardops.tenants.people import create_user, set_membership
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import Receipt, project

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
