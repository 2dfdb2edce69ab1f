from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import OrganisationEvent, TenantEvent
from guardops.tenants.organisations import create_organisation, create_tenant
from tests.factories import make_operator, make_organisation, make_tenant

pytestmark = pytest.mark.django_db


def test_a_new_organisation_and_tenant_name_their_maker() -> None:
    operator = make_operator()
    organisation = create_organisation(slug="acme", name="Acme", actor=operator)
    tenant = create_tenant(organisation=organisation, slug="research", name="Research", actor=operator)
    assert OrganisationEvent.objects.get(pgh_obj=organisation).pgh_context["actor"]["id"] == operator.pk
    assert TenantEvent.objects.get(pgh_obj=tenant).pgh_context["actor"]["id"] == operator.pk


@pytest.mark.parametrize("slug", ["", "a b", "Upper", "taken", "x" * 65])
def test_a_slug_that_is_taken_or_none_is_refused(slug: str) -> None:
    make_organisation("taken")
    make_tenant("taken", organisation=make_organisation())
    with pytest.raises(ValidationError):
        create_organisation(slug=slug, name="Another", actor=SYSTEM)
    with pytest.raises(ValidationError):
        create_tenant(organisation=make_organisation(), slug=slug, name="Another", actor=SYSTEM)


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError):
        create_organisation(slug="acme", name="Acme", time_zone="Mars/Olympus", actor=SYSTEM)
