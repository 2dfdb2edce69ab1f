"""Every route of this app × every role: a new route fails until it stands in the table below."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import URLPattern, reverse

from guardops.tenants import urls
from guardops.tenants.models import ApiKey
from tests.factories import make_key

from .conftest import Cast

ROLES = [
    "anonymous",
    "nobody",
    "viewer",
    "reviewer",
    "admin",
    "organisation_admin",
    "foreign_admin",
    "operator",
]
OPEN = {"login", "logout"}
# Answers to (GET, POST without a body) by role; anonymous people are sent to the login page everywhere.
LIST = dict.fromkeys(ROLES, (403, 405)) | dict.fromkeys(
    ["admin", "organisation_admin", "foreign_admin"], (200, 405)
)
FORM = dict.fromkeys(ROLES, (403, 403)) | dict.fromkeys(
    ["admin", "organisation_admin", "foreign_admin"], (200, 200)
)
OF_ONE_TENANT = {
    "nobody": (404, 404),
    "viewer": (403, 403),
    "reviewer": (403, 403),
    "admin": (200, 302),
    "organisation_admin": (200, 302),
    "foreign_admin": (404, 404),
    "operator": (403, 403),
}
EXPECTED = {"keys": LIST, "key-create": FORM, "key-revoke": OF_ONE_TENANT}
ROUTES = [pattern for pattern in urls.urlpatterns if isinstance(pattern, URLPattern)]


def test_every_route_is_walked() -> None:
    assert {route.name for route in ROUTES} == OPEN | set(EXPECTED)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_role_gets_what_it_may(client: Client, cast: Cast, name: str, role: str) -> None:
    key, _ = make_key(cast.tenant)
    address = reverse(f"tenants:{name}", args=[key.pk] if name == "key-revoke" else [])
    if role == "anonymous":
        answers = [client.get(address), client.post(address)]
        assert {answer["Location"] for answer in answers} == {f"/login/?next={address}"}
    else:
        client.force_login(getattr(cast, role))
        answered = client.get(address).status_code, client.post(address).status_code
        wanted = EXPECTED[name][role]
        # Where GET alone is served, a POST is refused for its method before anybody is asked for a role.
        assert answered == wanted
    changed = ApiKey.objects.exclude(revoked_at=None).exists() or ApiKey.objects.count() != 1
    assert changed == (name == "key-revoke" and role in {"admin", "organisation_admin"})
