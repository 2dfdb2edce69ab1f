from __future__ import annotations

import csv
import io

import pytest
from django.test import Client

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import Tenant
from tests.factories import NOW, make_key

from .conftest import Cast

URL = "/settings/audit/"
FILE = f"{URL}audit.csv"


def file(client: Client, **query: str) -> list[dict[str, str]]:
    response = client.get(FILE, query)
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(b"".join(response).decode())))  # type: ignore[arg-type]


def test_a_change_is_told_with_its_actor_and_request(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, name="workers")
    client.force_login(cast.admin)
    client.post(f"/settings/keys/{key.pk}/revoke/", headers={"X-Request-ID": "req-42"})
    text = client.get(URL).content.decode()
    assert "Revoked the API key <strong><bdi>workers" in text
    assert cast.admin.username in text
    assert "req-42" in text


def test_filters_narrow_the_page_and_the_file_alike(client: Client, cast: Cast) -> None:
    key, _ = make_key(cast.tenant, name="workers", actor=cast.admin)
    revoke_key(key, actor=cast.admin, now=NOW)
    make_key(cast.tenant, name="others", actor=SYSTEM)
    client.force_login(cast.admin)
    query = {"kind": "key", "action": "update", "who": cast.admin.username, "tenant": cast.tenant.slug}
    text = client.get(URL, query).content.decode()
    [row] = file(client, **query)
    assert "Revoked the API key" in text
    assert "others" not in text
    assert (row["action"], row["kind"], row["actor"]) == ("update", "key", cast.admin.username)
    assert row["thing"] == f"workers (go_{key.prefix}_…)"
    assert row["changes"].startswith("revoked at: – → 2026-03-14 15:09:26")


def test_the_file_has_every_row_of_all_pages(client: Client, cast: Cast) -> None:
    for number in range(60):
        with acting(cast.admin):
            Tenant.objects.filter(pk=cast.tenant.pk).update(name=f"Name {number}")
    client.force_login(cast.admin)
    rows = file(client, kind="tenant", action="update")
    assert [row["changes"] for row in rows[:2]] == ["name: Name 58 → Name 59", "name: Name 57 → Name 58"]
    assert len(rows) == 60
    first = client.get(URL, {"kind": "tenant", "action": "update"}).content.decode()
    assert "50 shown" in first
    assert "Older" in first


def test_a_formula_in_a_name_is_defused_in_the_file(client: Client, cast: Cast) -> None:
    with acting(cast.admin):
        Tenant.objects.filter(pk=cast.tenant.pk).update(name="x")
    make_key(cast.tenant, name="=cmd|' /C calc'!A0", actor=cast.admin)
    client.force_login(cast.admin)
    [row] = file(client, kind="key", action="insert")
    assert row["thing"].startswith("'=cmd")


def test_a_hostile_name_is_shown_as_text(client: Client, cast: Cast) -> None:
    make_key(cast.tenant, name="<img src=x onerror=alert(1)>\u202e")
    client.force_login(cast.admin)
    text = client.get(URL).content.decode()
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert "U+202E" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"kind": "nonsense"}, "cannot be read"),
        ({"range": "3y"}, "cannot be read"),
        ({"after": "nowhere"}, "cannot be read"),
        ({"tenant": "elsewhere"}, "cannot be read"),
        ({"who": "\0"}, "cannot be read"),
        ({"who": "x" * 5000}, "cannot be read"),
        ({"who": "nobody-at-all"}, "No change matches"),
        ({"after": "20010101000000000000.key.1"}, "This page of the trail is empty"),
    ],
)
def test_nothing_found_says_why(client: Client, cast: Cast, query: dict[str, str], said: str) -> None:
    client.force_login(cast.admin)
    response = client.get(URL, query)
    assert response.status_code == 200
    assert said in response.content.decode()


def test_no_file_is_made_of_filters_that_can_not_be_read(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    assert client.get(FILE, {"kind": "nonsense"}).status_code == 400


def test_the_trail_is_not_stored(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    assert "no-store" in client.get(URL)["Cache-Control"]
