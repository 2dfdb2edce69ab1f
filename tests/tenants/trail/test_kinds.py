from __future__ import annotations

import pytest
from django.apps import apps
from django.db.models import Q
from pghistory.models import Event

from guardops.tenants.models import Tenant
from guardops.tenants.trail.kinds import Kind, kinds, register

NEVER = ("password", "digest", "secret", "token")
PUBLIC = {"DecisionEvent.artifact_digest"}  # of the work that a person looked at: no secret's


def audit_models() -> set[type[Event]]:
    return {
        model
        for model in apps.get_models()
        if issubclass(model, Event) and not model._meta.proxy and model._meta.app_label != "pghistory"
    }


def test_every_audited_model_is_shown_by_the_trail() -> None:
    assert audit_models() == {kind.event for kind in kinds()}


def test_no_audited_model_keeps_a_secret() -> None:
    fields = {f"{m.__name__}.{field.name}" for m in audit_models() for field in m._meta.concrete_fields}
    assert {name for name in fields if any(word in name for word in NEVER)} <= PUBLIC


def test_a_model_is_not_registered_twice() -> None:
    again = Kind("again", "the tenant", Tenant, lambda row, _: row.slug, lambda ids: Q())
    with pytest.raises(ValueError, match="again"):
        register(again)
