"""Findings as rules make them, for tests of what becomes of them."""

from __future__ import annotations

from typing import Any

from guardops.tenants.models import Tenant
from runs.alerts.incidents import Finding
from runs.choices import RuleKind, Severity


def make_finding(tenant: Tenant | None, **changes: Any) -> Finding:
    """Return a finding about a tenant, or without one about the installation."""
    fields: dict[str, Any] = {
        "tenant_id": tenant.pk if tenant else None,
        "rule": RuleKind.FORCED,
        "subject": "research",
        "job_type": "research",
        "title": "research: 40 of 200 runs ended with a forced answer (20 %).",
        "severity": Severity.WARNING,
    }
    return Finding(**(fields | changes))
