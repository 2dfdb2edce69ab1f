from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidMembership
from guardops.tenants.models import Membership, MembershipEvent, User, UserEvent
from guardops.tenants.people import create_user, set_membership
from tests.factories import PASSWORD, make_operator, make_organisation, make_tenant, make_user

pytestmark = pytest.mark.django_db


def test_a_new_person_can_log_in_and_is_audited() -> None:
    operator = make_operator()
    user = create_user(username="mara", password=PASSWORD, actor=operator)
    assert user.check_password(PASSWORD)
    row = UserEvent.objects.get(pgh_obj=user)
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("insert", operator.pk)


@pytest.mark.parametrize(
    "wrong",
    [{"username": ""}, {"username": "a b"}, {"username": "x" * 151}, {"username": "taken"}]
    + [{"password": weak} for weak in ("short", "password", "3141592653589793", "newcomer-1")],
)
def test_a_name_that_is_none_and_a_weak_password_are_refused(wrong: dict[str, str]) -> None:
    make_user("taken")
    fields = {"username": "newcomer-1", "password": PASSWORD} | wrong
    with pytest.raises(ValidationError):
        create_user(**fields, actor=SYSTEM)
    assert User.objects.count() == 1


def test_a_second_role_replaces_the_first() -> None:
    tenant, user = make_tenant(), make_user()
    for role in (Role.VIEWER, Role.ADMIN):
        set_membership(user=user, organisation=tenant.organisation, tenant=tenant, role=role, actor=SYSTEM)
    assert Membership.objects.get(user=user).role == Role.ADMIN
    assert list(MembershipEvent.objects.order_by("pgh_id").values_list("pgh_label", "role")) == [
        ("insert", Role.VIEWER),
        ("update", Role.ADMIN),
    ]


def test_a_role_in_the_organisation_stands_beside_one_in_a_tenant() -> None:
    tenant, user = make_tenant(), make_user()
    for of in (tenant, None, None):
        set_membership(user=user, organisation=tenant.organisation, tenant=of, role=Role.VIEWER, actor=SYSTEM)
    assert Membership.objects.filter(user=user).count() == 2


def test_a_tenant_of_another_organisation_is_refused() -> None:
    with pytest.raises(InvalidMembership):
        set_membership(
            user=make_user(),
            organisation=make_organisation(),
            tenant=make_tenant(),
            role=Role.ADMIN,
            actor=SYSTEM,
        )
