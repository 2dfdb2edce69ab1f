"""How far an edit has come, and who is told what of it."""

from __future__ import annotations

from django.test import Client

from guardops.tenants.choices import Role
from policies.models import Change
from tests.factories import make_member
from tests.policies.conftest import House, contradict

from .conftest import text_of


def test_tenant_that_could_not_take_an_edit_is_named_to_who_sees_it(
    browser: Client, client: Client, house: House
) -> None:
    contradict(house)
    page = f"/changes/{Change.objects.get(tenant=None).pk}/"
    assert "research: " in text_of(browser.get(page))
    client.force_login(make_member(house.sibling, Role.VIEWER, username="sid"))
    seen = text_of(client.get(page))
    assert "stays as it was for them" in seen
    assert "research: " not in seen
