from __future__ import annotations

import pytest
from django.test import Client

from guardops.tenants.actors import SYSTEM
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import ApiKey, ApiKeyEvent
from tests.factories import NOW, make_key

from .conftest import Cast


def url(key: ApiKey) -> str:
    return f"/settings/keys/{key.pk}/revoke/"


def test_an_admin_is_asked_first_and_then_revokes(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, name="workers")
    client.force_login(cast.admin)
    assert "workers" in client.get(url(key)).content.decode()
    key.refresh_from_db()
    assert key.revoked_at is None
    response = client.post(url(key), follow=True)
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert response.redirect_chain == [("/settings/keys/", 302)]
    assert "is revoked" in response.content.decode()


def test_the_trail_names_who_revoked(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant)
    client.force_login(cast.organisation_admin)
    client.post(url(key))
    row = ApiKeyEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("update", cast.organisation_admin.pk)


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator"])
def test_a_role_too_low_is_told_so(client: Client, cast: Cast, who: str) -> None:
    key, _ = make_key(cast.tenant)
    client.force_login(getattr(cast, who))
    assert (client.get(url(key)).status_code, client.post(url(key)).status_code) == (403, 403)
    assert ApiKey.objects.filter(revoked_at=None).count() == 1


@pytest.mark.parametrize("who", ["foreign_admin", "nobody"])
def test_a_stranger_finds_nothing(client: Client, cast: Cast, who: str) -> None:
    key, _ = make_key(cast.tenant)
    client.force_login(getattr(cast, who))
    assert (client.get(url(key)).status_code, client.post(url(key)).status_code) == (404, 404)
    assert ApiKey.objects.filter(revoked_at=None).count() == 1


def test_an_admin_of_one_of_its_tenants_may_not_revoke_for_the_other(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, cast.sibling)
    client.force_login(cast.admin)
    assert client.post(url(key)).status_code == 403
    client.force_login(cast.organisation_admin)
    assert client.post(url(key)).status_code == 302


def test_who_comes_second_is_told_that_it_was_done(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant)
    revoke_key(key, actor=SYSTEM, now=NOW)
    client.force_login(cast.admin)
    assert "has been revoked already" in client.post(url(key), follow=True).content.decode()
    key.refresh_from_db()
    assert key.revoked_at == NOW


@pytest.mark.parametrize("number", ["0", str(2**63), "9" * 400])
def test_a_number_of_no_key_is_not_found(client: Client, cast: Cast, number: str) -> None:
    client.force_login(cast.admin)
    assert client.get(f"/settings/keys/{number}/revoke/").status_code == 404


def test_a_post_from_elsewhere_revokes_nothing(cast: Cast) -> None:
    key, _ = make_key(cast.tenant)
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.admin)
    assert client.post(url(key)).status_code == 403
    assert ApiKey.objects.filter(revoked_at=None).exists()
