from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from guardops.tenants.choices import Scope
from guardops.tenants.keys import authenticate
from guardops.tenants.models import Organisation, Tenant
from runs.replay.account import KEY_LIFE, make_key
from tests.factories import NOW, make_organisation, make_tenant

pytestmark = pytest.mark.django_db


def test_a_key_for_a_known_tenant_may_only_send_its_events() -> None:
    tenant = make_tenant("acme")
    said: list[str] = []

    plain = make_key("acme", name="replay", now=NOW, say=said.append)

    holder = authenticate(f"Bearer {plain}", NOW)
    assert holder.tenants == {"acme": tenant.pk}
    assert holder.scopes == {Scope.EVENTS_WRITE}
    assert holder.expires_at == NOW + KEY_LIFE
    assert len(said) == 1


def test_a_missing_tenant_is_made_in_the_first_organisation_and_said() -> None:
    first = make_organisation("zeta")
    make_organisation("alpha")
    said: list[str] = []

    make_key("acme", name="replay", now=NOW, say=said.append)

    assert Tenant.objects.get(slug="acme").organisation == first
    assert said[0] == "Made the tenant acme in the organisation zeta."


def test_the_first_tenant_of_all_gets_an_organisation() -> None:
    said: list[str] = []

    make_key("acme", name="replay", now=NOW, say=said.append)

    assert Organisation.objects.get().slug == "local"
    assert said[0] == "Made the organisation local."


def test_what_is_no_slug_makes_nothing() -> None:
    make_organisation("zeta")

    with pytest.raises(ValidationError):
        make_key("no slug!", name="replay", now=NOW, say=lambda text: None)

    assert not Tenant.objects.exists()
