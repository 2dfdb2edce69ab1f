"""Setting a rule for a tenant, one of its job types, or the installation. The only writer of `Rule`.

Each write names the version that its author was shown (0: none stood) and happens only on that one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from django.db import IntegrityError, transaction

from guardops.tenants.actors import acting
from guardops.tenants.errors import EditedMeanwhile, GuardOpsError
from runs.choices import Severity
from runs.models import Rule

from .rules import Spec, written

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant, User


class InvalidRule(GuardOpsError):
    """A rule can't be set so: ``unknown``, ``out_of_range``, ``misplaced``."""

    default_code: ClassVar[str] = "invalid_rule"


def set_rule(
    spec: Spec,
    tenant: Tenant | None,
    job_type: str = "",
    *,
    enabled: bool,
    severity: Severity,
    values: Mapping[str, float],
    actor: User,
    now: datetime,
    version: int,
) -> Rule:
    """Set a rule; values that are the default's are not kept, so that a better default reaches them.

    Raises InvalidRule, and EditedMeanwhile where another version stands than ``version``.
    """
    _check(spec, tenant, job_type, values)
    defaults = {each.name: each.default for each in spec.parameters}
    kept = {name: value for name, value in values.items() if value != defaults[name]}
    of = {"rule": spec.kind, "tenant": tenant, "job_type": job_type}
    fields = {
        "enabled": enabled,
        "severity": severity,
        "parameters": kept,
        "version": version + 1,
        "at": now,
        "by": actor,
    }
    with acting(actor):
        if version == 0:
            try:
                with transaction.atomic():  # the unique key lets one of two first ones in
                    return Rule.objects.create(**of, **fields)
            except IntegrityError as error:
                raise _edited() from error
        # Compare-and-set on the version that was shown.
        if not Rule.objects.filter(**of, version=version).update(**fields):
            raise _edited()
        return Rule.objects.get(**of)


def unset_rule(row: Rule, *, actor: User, version: int) -> None:
    """Let the defaults hold again; raises EditedMeanwhile where another version stands."""
    with acting(actor):
        deleted, _ = Rule.objects.filter(pk=row.pk, version=version).delete()
    if not deleted:
        raise _edited()


def _check(spec: Spec, tenant: Tenant | None, job_type: str, values: Mapping[str, float]) -> None:
    if not spec.stands_in(tenant.pk if tenant else None) or (job_type and not spec.per_job):
        raise InvalidRule("This rule is not set there.", code="misplaced")
    limits = {each.name: each for each in spec.parameters}
    if set(values) != set(limits):
        raise InvalidRule("Give every limit of the rule, and no other.", code="unknown")
    for name, value in values.items():
        limit = limits[name]
        if not math.isfinite(value) or not limit.low <= value <= limit.high:
            raise InvalidRule(
                f"{limit.label}: {written(limit.low)} to {written(limit.high)}.", code="out_of_range"
            )


def _edited() -> EditedMeanwhile:
    return EditedMeanwhile("Somebody else has changed this rule since you opened it.")
