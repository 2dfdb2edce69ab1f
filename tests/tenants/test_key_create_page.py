from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from guardops.tenants import keys
from guardops.tenants.choices import Role
from guardops.tenants.models import ApiKey, ApiKeyEvent
from guardops.tenants.people import set_membership
from tests.factories import NOW

from .conftest import Cast

URL = "/settings/keys/new/"


def form(cast: Cast, **changed: Any) -> dict[str, Any]:
    return {
        "name": "workers",
        "tenants": [cast.tenant.slug],
        "scopes": ["events:write"],
        "days": "",
    } | changed


def test_an_admin_gets_a_working_key_once(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    response = client.post(URL, form(cast))
    [plain] = set(re.findall(r"go_[0-9a-f]{12}_[0-9a-f]{64}", response.content.decode()))
    key = ApiKey.objects.get()
    keys.forget()
    assert keys.authenticate(f"Bearer {plain}", NOW).tenants == {"research": cast.tenant.pk}
    assert (key.name, key.scopes, key.expires_at, key.created_by) == (
        "workers",
        ["events:write"],
        None,
        cast.admin,
    )
    assert plain not in client.get("/settings/keys/").content.decode()


def test_the_answer_with_the_key_is_kept_nowhere(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    response = client.post(URL, form(cast))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    plain = response.context["plain"]
    assert plain not in str(dict(client.session.items()))
    assert plain not in str([message.message for message in response.context["messages"]])


def test_the_trail_names_who_made_it_and_the_request(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    response = client.post(URL, form(cast))
    context = ApiKeyEvent.objects.get().pgh_context
    assert context["actor"]["id"] == cast.admin.pk
    assert context["request_id"] == response["X-Request-ID"]


def test_a_key_may_expire(client: Client, cast: Cast) -> None:
    with time_machine.travel(NOW, tick=False):
        client.force_login(cast.admin)
        client.post(URL, form(cast, days="90"))
    assert ApiKey.objects.get().expires_at == NOW + timedelta(days=90)


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator", "nobody"])
def test_a_role_too_low_makes_none(client: Client, cast: Cast, who: str) -> None:
    client.force_login(getattr(cast, who))
    assert client.get(URL).status_code == 403
    assert client.post(URL, form(cast)).status_code == 403
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("slug", ["support", "elsewhere", "no-such"])
def test_a_tenant_of_others_is_no_choice_and_tells_nothing(client: Client, cast: Cast, slug: str) -> None:
    client.force_login(cast.admin)
    response = client.post(URL, form(cast, tenants=[cast.tenant.slug, slug]))
    assert response.context["form"].errors["tenants"] == [
        f"Select a valid choice. {slug} is not one of the available choices."
    ]
    assert not ApiKey.objects.exists()
    assert f'value="{slug}"' not in client.get(URL).content.decode()


def test_tenants_of_two_organisations_are_refused(client: Client, cast: Cast) -> None:
    set_membership(
        user=cast.admin,
        organisation=cast.foreign.organisation,
        tenant=cast.foreign,
        role=Role.ADMIN,
        actor=cast.foreign_admin,
    )
    client.force_login(cast.admin)
    response = client.post(URL, form(cast, tenants=[cast.tenant.slug, cast.foreign.slug]))
    assert response.context["form"].errors["tenants"] == ["A key covers tenants of one organisation only."]
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 129},
        {"name": "a\0b"},
        {"tenants": []},
        {"tenants": ["a\0b"]},
        {"scopes": []},
        {"scopes": ["root"]},
        {"days": "31"},
        {"days": "1e400"},
    ],
)
def test_bad_input_gets_an_error_on_the_page(client: Client, cast: Cast, wrong: dict[str, Any]) -> None:
    client.force_login(cast.admin)
    response = client.post(URL, form(cast, **wrong))
    assert response.status_code == 200
    assert list(response.context["form"].errors) == list(wrong)
    assert not ApiKey.objects.exists()


def test_an_error_is_tied_to_its_field(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    text = client.post(URL, form(cast, name="", tenants=[])).content.decode()
    for name in ("name", "tenants"):
        assert f'id="id_{name}_error"' in text
        assert re.search(rf'aria-describedby="[^"]*\bid_{name}_error\b', text)


def test_a_link_may_choose_the_tenant(client: Client, cast: Cast) -> None:
    client.force_login(cast.organisation_admin)
    text = client.get(URL, {"tenant": "support"}).content.decode()
    assert re.search(r'value="support"[^>]*checked', text)
    assert not re.search(r'value="research"[^>]*checked', text)


def test_a_post_from_elsewhere_makes_none(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.admin)
    assert client.post(URL, form(cast)).status_code == 403
    assert not ApiKey.objects.exists()
