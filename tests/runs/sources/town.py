"""Tenants of several organisations whose runs use sources."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from guardops.tenants.models import Organisation, Tenant
from tests.factories import make_tenant
from tests.runs.rows import insert_rows, make_row

STOPPED = {"outcome": "halted", "halt_reason": "source_cap"}
TRAP = {"kind": "domain", "name": "trap.example", "calls": 3}


def add_runs(tenant: Tenant, number: int, at: datetime, *, stopped: bool, sources: list[Any]) -> None:
    """Store so many runs of the tenant, a minute before ``at``."""
    how = STOPPED if stopped else {}
    row = {"tenant_id": tenant.pk, "detail": {"sources": sources}, **how}
    insert_rows([make_row(at - timedelta(minutes=1), **row) for _ in range(number)])


def make_town(*sizes: int) -> list[Tenant]:
    """Return tenants of as many organisations as there are sizes, each with so many."""
    from tests.factories import make_organisation

    owners: list[Organisation] = [make_organisation() for _ in sizes]
    return [
        make_tenant(organisation=owner)
        for owner, size in zip(owners, sizes, strict=True)
        for _ in range(size)
    ]


def trap(tenant: Tenant, at: datetime, *, stopped: int = 5, completed: int = 20) -> None:
    """Let runs of the tenant be stopped in the trap, and others complete without it."""
    add_runs(tenant, stopped, at, stopped=True, sources=[TRAP])
    if completed:
        add_runs(tenant, completed, at, stopped=False, sources=[])
