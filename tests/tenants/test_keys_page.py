from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from guardops.tenants.actors import SYSTEM
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import User
from tests.factories import NOW, make_key

from .conftest import Cast

URL = "/settings/keys/"


def page(client: Client, user: User) -> str:
    client.force_login(user)
    response = client.get(URL)
    assert response.status_code == 200
    return response.content.decode()


def test_an_admin_sees_the_keys_of_their_tenants_alone(client: Client, cast: Cast) -> None:
    own, plain = make_key(cast.tenant)
    sibling, _ = make_key(cast.sibling)
    foreign, _ = make_key(cast.foreign)
    text = page(client, cast.admin)
    assert str(own) in text
    assert str(sibling) not in text
    assert str(foreign) not in text
    assert plain.rpartition("_")[2] not in text


def test_an_admin_of_the_organisation_sees_the_keys_of_all_its_tenants(client: Client, cast: Cast) -> None:
    keys = [make_key(cast.tenant)[0], make_key(cast.sibling)[0]]
    text = page(client, cast.organisation_admin)
    assert all(str(key) in text for key in keys)


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator", "nobody"])
def test_a_role_too_low_is_told_so(client: Client, cast: Cast, who: str) -> None:
    client.force_login(getattr(cast, who))
    assert client.get(URL).status_code == 403


def test_a_key_of_more_tenants_than_ones_own_names_no_others_and_can_not_be_revoked(
    client: Client, cast: Cast
) -> None:
    key, _ = make_key(cast.tenant, cast.sibling)
    text = page(client, cast.admin)
    assert str(key) in text
    assert cast.sibling.slug not in text
    assert "of 2 in all" in text
    assert f"/settings/keys/{key.pk}/revoke/" not in text
    assert f"/settings/keys/{key.pk}/revoke/" in page(client, cast.organisation_admin)


def test_each_key_says_whether_it_works_and_those_that_do_come_first(client: Client, cast: Cast) -> None:
    with time_machine.travel(NOW, tick=False):
        live, _ = make_key(cast.tenant, name="live one", now=NOW - timedelta(days=3))
        make_key(cast.tenant, name="expired one", now=NOW - timedelta(days=2), expires_at=NOW)
        revoked, _ = make_key(cast.tenant, name="revoked one", now=NOW - timedelta(days=1))
        revoke_key(revoked, actor=SYSTEM, now=NOW)
        client.force_login(cast.admin)
        text = client.get(URL).content.decode()
    names = ["live one", "revoked one", "expired one"]
    assert sorted(names, key=text.index) == names
    assert text.count("/revoke/") == 1
    assert f"/settings/keys/{live.pk}/revoke/" in text


def test_a_hostile_name_is_shown_as_text(client: Client, cast: Cast) -> None:
    make_key(cast.tenant, name="<img src=x onerror=alert(1)>\u202e")
    text = page(client, cast.admin)
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert "U+202E" in text


def test_no_keys_yet_leads_to_the_first(client: Client, cast: Cast) -> None:
    assert "No keys yet" in page(client, cast.admin)


def test_queries_do_not_grow_with_keys(
    client: Client, cast: Cast, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(8):
        make_key(cast.tenant, cast.sibling)
    client.force_login(cast.organisation_admin)
    client.get("/connect/")  # what the navigation counts is known for ten seconds
    # session, person, admin, tenants, count, keys, theirs, heirs, the links of settings, views
    with django_assert_max_num_queries(13):
        client.get(URL)


def test_a_hundred_keys_fill_a_page(client: Client, cast: Cast) -> None:
    for number in range(101):
        make_key(cast.tenant, name=f"key {number:03}", now=NOW + timedelta(seconds=number))
    client.force_login(cast.admin)
    first, second = (client.get(URL, {"page": number}).content.decode() for number in (1, 2))
    assert "key 001" in first
    assert "key 000" not in first
    assert "key 000" in second
    assert client.get(URL, {"page": "x"}).status_code == 200


def test_the_list_is_not_stored(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    assert "no-store" in client.get(URL)["Cache-Control"]


def test_keys_are_listed_by_tenant_and_state(client: Client, cast: Cast) -> None:
    make_key(cast.tenant, name="first one")
    make_key(cast.sibling, name="second one")
    revoke_key(make_key(cast.sibling, name="third one")[0], actor=SYSTEM, now=NOW)
    client.force_login(cast.organisation_admin)
    text = client.get(URL, {"tenant": cast.sibling.slug, "state": "live"}).content.decode()
    assert "second one" in text
    assert "first one" not in text
    assert "third one" not in text


def test_a_key_of_several_tenants_keeps_them_all_when_one_is_asked_for(client: Client, cast: Cast) -> None:
    make_key(cast.tenant, cast.sibling)
    client.force_login(cast.organisation_admin)
    text = client.get(URL, {"tenant": cast.tenant.slug}).content.decode()
    assert "research, support" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [({"state": "expired"}, "No key matches"), ({"state": "lost"}, "cannot be read"), ({}, "Keys of your")],
)
def test_no_key_found_says_why(client: Client, cast: Cast, query: dict[str, str], said: str) -> None:
    make_key(cast.tenant)
    client.force_login(cast.admin)
    assert said in client.get(URL, query).content.decode()


@pytest.mark.parametrize("tenant", ["elsewhere", "made-up", "\0", "x" * 5000, "\ud800"])
def test_a_tenant_of_others_is_refused_like_none(client: Client, cast: Cast, tenant: str) -> None:
    client.force_login(cast.admin)
    response = client.get(URL, {"tenant": tenant.encode(errors="surrogatepass")})
    assert response.status_code == 200
    assert "cannot be read" in response.content.decode()


def test_the_file_holds_the_listed_keys_and_no_secret(client: Client, cast: Cast) -> None:
    key, plain = make_key(cast.tenant, name="=HYPERLINK(1)", expires_at=NOW + timedelta(days=400))
    make_key(cast.sibling, name="other")
    client.force_login(cast.organisation_admin)
    response = client.get(f"{URL}keys.csv", {"tenant": cast.tenant.slug})
    header, row = csv.reader(io.StringIO(b"".join(response).decode()))  # type: ignore[arg-type]
    found = dict(zip(header, row, strict=True))
    assert (found["name"], found["key"], found["tenants"]) == ("'=HYPERLINK(1)", str(key), "research")
    assert plain.rpartition("_")[2] not in row


def test_no_file_is_made_of_filters_that_can_not_be_read(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    assert client.get(f"{URL}keys.csv", {"state": "lost"}).status_code == 400
