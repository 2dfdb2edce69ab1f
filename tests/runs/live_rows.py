"""Rows of live runs and of refused work, as ingest leaves them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from guardops.tenants.models import Tenant
from runs.models import LiveRun, RefusedWork
from tests.factories import make_run_id


def insert_live(tenant: Tenant, **columns: Any) -> LiveRun:
    """Insert a run of the tenant that started three minutes ago and told of itself just now."""
    now = datetime.now(UTC)
    started_at = columns.pop("started_at", now - timedelta(minutes=3))
    defaults: dict[str, Any] = {
        "tenant_id": tenant.pk,
        "run_id": make_run_id(started_at),
        "job_type": "research",
        "agent": "scout",
        "started_at": started_at,
        "received_at": started_at,
        "last_at": now,
    }
    return LiveRun.objects.create(**(defaults | columns))


def insert_refusal(tenant: Tenant, **columns: Any) -> RefusedWork:
    """Insert delegated work of the tenant that a guard refused just now."""
    now = datetime.now(UTC)
    defaults: dict[str, Any] = {
        "tenant_id": tenant.pk,
        "refusal_id": uuid4(),
        "body_digest": b"0123456789abcdef",
        "reason": "hop_budget",
        "at": now,
        "received_at": now,
    }
    return RefusedWork.objects.create(**(defaults | columns))
