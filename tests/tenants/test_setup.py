from __future__ import annotations

import pytest

from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, OrganisationEvent, Tenant, User
from guardops.tenants.setup import first_start
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_the_first_start_makes_an_organisation_a_tenant_and_their_admin() -> None:
    login = first_start()
    assert login is not None
    admin = User.objects.get(username=login.username)
    assert admin.check_password(login.password)
    assert admin.is_operator
    assert access.role_in(admin, Tenant.objects.get(slug="main")) == Role.ADMIN
    assert OrganisationEvent.objects.get().pgh_context["actor"]["kind"] == "system"


def test_a_second_start_makes_nothing() -> None:
    first_start()
    assert first_start() is None
    assert (Organisation.objects.count(), Tenant.objects.count(), User.objects.count()) == (1, 1, 1)


def test_an_installation_with_people_gets_no_admin() -> None:
    make_user()
    assert first_start() is None
    assert not Organisation.objects.exists()


def test_the_password_is_new_each_time_and_not_in_the_repr() -> None:
    login = first_start()
    User.objects.all().delete()
    Tenant.objects.all().delete()
    Organisation.objects.all().delete()
    again = first_start()
    assert login is not None
    assert again is not None
    assert login.password != again.password
    assert login.password not in repr(login)
