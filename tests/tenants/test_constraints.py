"""What the database holds by itself, whoever writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from guardops.tenants.choices import Role
from guardops.tenants.models import ApiKey, ApiKeyTenant, Membership, Organisation, Tenant
from tests.factories import NOW, make_key, make_organisation, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefix": "SHOUTING"},
        {"prefix": "short"},
        {"digest": b"short"},
        {"digest": bytes(33)},
        {"scopes": []},
        {"scopes": ["root"]},
        {"expires_at": NOW - timedelta(seconds=1)},
    ],
)
def test_a_key_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    key, _ = make_key(make_tenant())
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(**wrong)


@pytest.mark.parametrize("revision", [-1, 2**53 + 1])
def test_a_revision_out_of_range_is_refused(revision: int) -> None:
    tenant = make_tenant()
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.filter(pk=tenant.pk).update(bundle_revision=revision)


@pytest.mark.parametrize("slug", ["", "Upper", "sp ace", "a/b", "-dash", "ünï"])
@pytest.mark.parametrize("model", [Organisation, Tenant])
def test_a_slug_that_is_none_is_refused(model: type[Organisation | Tenant], slug: str) -> None:
    tenant = make_tenant()
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.filter(pk__in=[tenant.pk, tenant.organisation_id]).update(slug=slug)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=make_user(), organisation=make_organisation(), role="owner")


def test_two_roles_of_a_person_in_an_organisation_are_refused() -> None:
    user, organisation = make_user(), make_organisation()
    Membership.objects.create(user=user, organisation=organisation, role=Role.VIEWER)
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=user, organisation=organisation, role=Role.ADMIN)


def test_a_membership_in_another_organisations_tenant_is_refused() -> None:
    with pytest.raises(IntegrityError, match="membership_one_organisation"), transaction.atomic():
        Membership.objects.create(
            user=make_user(), organisation=make_organisation(), tenant=make_tenant(), role=Role.VIEWER
        )


@pytest.mark.parametrize("of_key", [True, False])
def test_a_key_for_another_organisations_tenant_is_refused(of_key: bool) -> None:
    key, _ = make_key(make_tenant())
    foreign = make_tenant()
    organisation = key.organisation if of_key else foreign.organisation
    with pytest.raises(IntegrityError, match="one_organisation"), transaction.atomic():
        ApiKeyTenant.objects.create(api_key=key, tenant=foreign, organisation=organisation)
