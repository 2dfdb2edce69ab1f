from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied

from guardops.tenants.choices import Role
from guardops.tenants.models import User
from guardops.tenants.trail.scope import trail_scope
from tests.factories import make_key, make_member
from tests.tenants.conftest import Cast

from .conftest import Read, sentence

pytestmark = pytest.mark.django_db


def told(read: Read, user: User) -> str:
    return "\n".join(sentence(entry) for entry in read(user, size=500).entries)


@pytest.mark.parametrize("who", ["viewer", "reviewer", "nobody"])
def test_who_is_admin_nowhere_reads_nothing(cast: Cast, who: str) -> None:
    with pytest.raises(PermissionDenied):
        trail_scope(getattr(cast, who))


def test_an_admin_of_a_tenant_reads_what_concerns_it_alone(cast: Cast, read: Read) -> None:
    own, _ = make_key(cast.tenant)
    sibling, _ = make_key(cast.sibling)
    text = told(read, cast.admin)
    assert own.prefix in text
    assert sibling.prefix not in text
    assert "support" not in text
    assert "elsewhere" not in text
    assert cast.organisation.name not in text


def test_an_admin_of_a_tenant_reads_no_logins(cast: Cast, read: Read) -> None:
    assert "the person" not in told(read, cast.admin)


def test_an_admin_of_the_organisation_reads_all_of_it_and_of_its_people(cast: Cast, read: Read) -> None:
    make_key(cast.foreign, name="foreign key")
    text = told(read, cast.organisation_admin)
    assert f"the organisation {cast.organisation.name}" in text
    assert "the tenant support" in text
    assert f"the person {cast.viewer.username}" in text
    assert "elsewhere" not in text
    assert "foreign key" not in text
    assert f"the person {cast.foreign_admin.username}" not in text
    assert f"the person {cast.nobody.username}" not in text


def test_an_operator_reads_everything(cast: Cast, read: Read) -> None:
    text = told(read, cast.operator)
    assert "the tenant elsewhere" in text
    assert f"the person {cast.nobody.username}" in text


def test_an_admin_of_a_tenant_here_and_an_organisation_there_reads_both(cast: Cast, read: Read) -> None:
    both = make_member(cast.tenant, Role.ADMIN)
    both.memberships.create(organisation=cast.foreign.organisation, role=Role.ADMIN)
    text = told(read, both)
    assert "the tenant research" in text
    assert "the tenant elsewhere" in text
    assert "the tenant support" not in text


def test_a_role_that_was_taken_away_no_longer_reads(cast: Cast, read: Read) -> None:
    cast.admin.memberships.update(role=Role.VIEWER)
    with pytest.raises(PermissionDenied):
        trail_scope(cast.admin)
