from __future__ import annotations

import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import ApiKey
from guardops.tenants.rotation import rotate_key
from tests.factories import NOW, make_key

from .conftest import Cast

PLAIN = re.compile(r"go_[0-9a-f]{12}_[0-9a-f]{64}")


def url(key: ApiKey) -> str:
    return f"/settings/keys/{key.pk}/rotate/"


@pytest.mark.parametrize(("grace", "hours"), [("1h", 1), ("1d", 24), ("7d", 168)])
def test_an_admin_gets_the_second_key_once(client: Client, cast: Cast, grace: str, hours: int) -> None:
    key, old = make_key(cast.tenant, name="workers")
    client.force_login(cast.admin)
    with time_machine.travel(NOW, tick=False):
        response = client.post(url(key), {"grace": grace, "days": ""})
        listed = client.get("/settings/keys/").content.decode()
    [plain] = set(PLAIN.findall(response.content.decode()))
    keys.forget()
    assert keys.authenticate(f"Bearer {plain}", NOW).tenants == {"research": cast.tenant.pk}
    key.refresh_from_db()
    assert key.expires_at == NOW + timedelta(hours=hours)
    assert "no-store" in response["Cache-Control"]
    assert "Being replaced" in listed
    assert plain not in listed
    assert old not in response.content.decode()


def test_the_new_key_is_offered_the_old_ones_lifetime(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, expires_at=NOW + timedelta(days=89))
    client.force_login(cast.admin)
    assert '<option value="90" selected>' in client.get(url(key)).content.decode()


@pytest.mark.parametrize("grace", ["", "1y", "\0", "9" * 400])
def test_a_grace_that_is_not_offered_makes_nothing(client: Client, cast: Cast, grace: str) -> None:
    key, _ = make_key(cast.tenant)
    client.force_login(cast.admin)
    response = client.post(url(key), {"grace": grace})
    assert response.status_code == 200
    assert "Nothing was made yet" in response.content.decode()
    assert ApiKey.objects.count() == 1


def test_who_comes_second_is_told_that_it_was_done(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, now=NOW)
    client.force_login(cast.admin)
    with time_machine.travel(NOW, tick=False):
        rotate_key(key, grace=timedelta(hours=1), actor=SYSTEM, now=NOW)
        response = client.post(url(key), {"grace": "1d"}, follow=True)
    assert "already" in response.content.decode()
    assert ApiKey.objects.count() == 2


def test_an_admin_of_one_of_its_tenants_may_not_rotate_for_the_other(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, cast.sibling)
    client.force_login(cast.admin)
    assert client.post(url(key), {"grace": "1d"}).status_code == 403
