from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404
from pytest_django import DjangoAssertNumQueries

from guardops.tenants import access
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.people import set_membership
from tests.factories import NOW, make_key, make_tenant

from .conftest import Cast


def slugs(tenants: object) -> list[str]:
    return [tenant.slug for tenant in tenants]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("viewer", ["research"]),
        ("admin", ["research"]),
        ("organisation_admin", ["research", "support"]),
        ("foreign_admin", ["elsewhere"]),
        ("operator", ["elsewhere", "research", "support"]),
        ("nobody", []),
    ],
)
def test_people_see_the_tenants_of_their_memberships(cast: Cast, who: str, seen: list[str]) -> None:
    assert slugs(access.visible_tenants(getattr(cast, who))) == seen
    assert slugs(access.visible(getattr(cast, who)).tenants) == seen


def test_who_is_not_logged_in_sees_nothing(cast: Cast) -> None:
    assert slugs(access.visible_tenants(AnonymousUser())) == []
    assert access.role_in(AnonymousUser(), cast.tenant) is None


@pytest.mark.parametrize(
    ("who", "role"),
    [
        ("viewer", Role.VIEWER),
        ("reviewer", Role.REVIEWER),
        ("admin", Role.ADMIN),
        ("organisation_admin", Role.ADMIN),
        ("operator", Role.VIEWER),
        ("foreign_admin", None),
        ("nobody", None),
    ],
)
def test_a_role_is_that_of_the_tenant_or_its_organisation(cast: Cast, who: str, role: Role | None) -> None:
    assert access.role_in(getattr(cast, who), cast.tenant) == role


def test_the_higher_of_two_roles_counts(cast: Cast) -> None:
    set_membership(user=cast.viewer, organisation=cast.organisation, role=Role.REVIEWER, actor=SYSTEM)
    assert access.role_in(cast.viewer, cast.tenant) == Role.REVIEWER
    set_membership(
        user=cast.organisation_admin,
        organisation=cast.organisation,
        tenant=cast.tenant,
        role=Role.VIEWER,
        actor=SYSTEM,
    )
    assert access.role_in(cast.organisation_admin, cast.tenant) == Role.ADMIN


def test_a_role_in_one_tenant_says_nothing_about_its_sibling(cast: Cast) -> None:
    assert access.role_in(cast.admin, cast.sibling) is None


@pytest.mark.parametrize("role", list(Role))
def test_a_stranger_is_told_that_there_is_no_such_tenant(cast: Cast, role: Role) -> None:
    with pytest.raises(Http404):
        access.require_role(cast.foreign_admin, cast.tenant, role)


def test_a_role_too_low_is_told_so_and_one_high_enough_passes(cast: Cast) -> None:
    with pytest.raises(PermissionDenied):
        access.require_role(cast.reviewer, cast.tenant, Role.ADMIN)
    access.require_role(cast.reviewer, cast.tenant, Role.REVIEWER)
    access.require_role(cast.admin, cast.tenant, Role.VIEWER)


def test_an_operator_looks_but_does_not_act(cast: Cast) -> None:
    access.require_role(cast.operator, cast.tenant, Role.VIEWER)
    with pytest.raises(PermissionDenied):
        access.require_role(cast.operator, cast.tenant, Role.REVIEWER)


@pytest.mark.parametrize("slug", ["elsewhere", "no-such", "", "a\0b", "x" * 10_000])
def test_a_slug_that_is_not_visible_is_not_found(cast: Cast, slug: str) -> None:
    with pytest.raises(Http404):
        access.tenant_or_404(cast.viewer, slug)
    with pytest.raises(Http404):
        access.visible(cast.viewer).by_slug(slug)


def test_a_visible_slug_is_found(cast: Cast) -> None:
    assert access.tenant_or_404(cast.viewer, "research") == cast.tenant
    assert access.visible(cast.viewer).by_slug("research") == cast.tenant


def test_only_operators_may_look_at_all_tenants_together(cast: Cast) -> None:
    assert access.visible(cast.operator).all_tenants
    assert not access.visible(cast.organisation_admin).all_tenants


def test_questions_cost_the_same_however_many_tenants_there_are(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        make_key(make_tenant(organisation=cast.organisation))
    with django_assert_num_queries(1):
        slugs(access.visible(cast.organisation_admin).tenants)
    with django_assert_num_queries(1):
        access.role_in(cast.organisation_admin, cast.tenant)
    with django_assert_num_queries(4):
        assert len(access.keys_to_manage(cast.organisation_admin, NOW)) == 5
