"""What runs did with a source, as the blocklist asks for it: by tenant, and the reader's own alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from policies.publish.sources import Reach, Wanted, block_sources
from runs.models import SourceDay
from tests.factories import make_member, make_operator, make_organisation, make_tenant, make_user
from tests.hostile.payloads import PAYLOADS
from tests.runs.rows import fold, insert_rows, make_row

NOW = datetime.now(UTC)
USED, PROPOSED = reverse("runs:sources-used"), reverse("runs:sources-proposed")
HTMX = {"HX-Request": "true"}


@pytest.fixture
def tenants(db: None) -> Sequence[Tenant]:
    return two_tenants()


def two_tenants() -> Sequence[Tenant]:
    organisation = make_organisation("acme")
    return [make_tenant(slug, organisation=organisation) for slug in ("research", "support")]


def source(name: str, kind: str = "domain", **marks: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "calls": 2, **marks}


def insert(tenant: Tenant, *sources: dict[str, Any], at: datetime = NOW, **columns: Any) -> None:
    insert_rows([make_row(at, tenant_id=tenant.pk, detail={"sources": list(sources)}, **columns)])


def insert_stop(tenant: Tenant, *sources: dict[str, Any], at: datetime = NOW) -> None:
    insert(tenant, *sources, at=at, outcome="halted", answer="none", halt_reason="domain_cap")


def number_in(text: str) -> int:
    found = re.search(r"([\d,]+) completed run", text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


def used(client: Client, **params: str) -> int:
    """Return the fragment's count, which is the sum of the page's rows."""
    fragment = client.get(USED, params, headers=HTMX).content.decode()
    page = client.get(USED, params).content.decode()
    rows = re.findall(r'data-l="Completed runs">([\d,]+)<', page)
    assert number_in(fragment) == sum(int(row.replace(",", "")) for row in rows)
    return number_in(fragment)


def test_completed_runs_are_counted_folded_or_not(client: Client, transactional_db: None) -> None:
    kept = two_tenants()  # committed: fold counts nothing else
    for days in (0, 1, 29, 31):
        insert(kept[0], source("mirror.example"), at=NOW - timedelta(days=days))
    insert_stop(kept[0], source("mirror.example"))
    insert(kept[0], source("other.example"))
    insert(kept[1], source("mirror.example"))
    fold(NOW)
    insert(kept[0], source("mirror.example"))
    client.force_login(make_member(kept[0].organisation))
    assert used(client, name="mirror.example", tenant="research") == 4
    assert used(client, name="https://www.Mirror.example/x", organisation="acme") == 5
    assert used(client, name="never.example") == 0


def test_member_counts_the_runs_of_their_tenants_alone(client: Client, tenants: Sequence[Tenant]) -> None:
    insert(tenants[0], source("fetch", "tool"))
    insert(tenants[1], source("fetch", "tool"))
    client.force_login(make_member(tenants[0]))
    assert used(client, name="fetch", kind="tool") == used(
        client, name="fetch", kind="tool", organisation="acme"
    )
    assert used(client, name="fetch", kind="tool") == 1
    assert client.get(USED, {"name": "fetch", "tenant": "support"}).status_code == 404
    client.force_login(make_operator())
    assert used(client, name="fetch", kind="tool") == 2


def test_day_with_more_names_than_are_kept_says_at_least(client: Client, tenants: Sequence[Tenant]) -> None:
    SourceDay.objects.create(tenant_id=tenants[0].pk, day=NOW.date(), kind="domain", name="", completed=3)
    client.force_login(make_member(tenants[0]))
    assert "at least 0 completed runs" in client.get(USED, {"name": "never.example"}).content.decode()
    assert "at least" not in client.get(USED, {"name": "never", "kind": "tool"}).content.decode()


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({}, 200),
        ({"name": "co.uk"}, 400),
        ({"name": "\0"}, 400),
        ({"name": "x" * 2_000}, 400),
        ({"name": "a.example", "kind": "planet"}, 400),
    ],
)
def test_source_that_there_cannot_be_is_refused(
    client: Client, tenants: Sequence[Tenant], params: dict[str, str], status: int
) -> None:
    client.force_login(make_member(tenants[0]))
    for headers in ({}, HTMX):
        assert client.get(USED, params, headers=headers).status_code == status


def proposed(client: Client, **params: str) -> list[list[str]]:
    """Return the rows as words."""
    text = client.get(PROPOSED, params, headers=HTMX).content.decode()
    body = text.partition("<tbody")[2]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("<tr")[1:]]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells]


def test_what_stopped_runs_proposed_is_listed_by_how_many(client: Client, tenants: Sequence[Tenant]) -> None:
    marks = {"quarantined": True, "proposed": True}
    for name, times in (("mirror.example", 3), ("trap.example", 1)):
        for _ in range(times):
            insert_stop(tenants[0], source(name, **marks), source("innocent.example"))
    insert_stop(tenants[0], source("old.example", **marks), at=NOW - timedelta(days=8))
    insert_stop(tenants[1], source("theirs.example", **marks))
    insert(tenants[0], source("mirror.example"))
    client.force_login(make_member(tenants[0], Role.ADMIN))
    rows = proposed(client)
    assert [[row[0], *row[2:4]] for row in rows] == [
        ["domain mirror.example", "3", "1"],
        ["domain trap.example", "1", "0"],
    ]
    assert "Block mirror.example for Research" in rows[0][6]


def test_links_fill_in_the_form_of_the_blocklist(client: Client, tenants: Sequence[Tenant]) -> None:
    insert_stop(tenants[0], source("mirror.example", proposed=True))
    client.force_login(make_member(tenants[0], Role.ADMIN))
    text = client.get(PROPOSED).content.decode().replace("&amp;", "&")
    link = next(found for found in re.findall(r'href="(/blocklist/add/[^"]*)"', text) if "limit" in found)
    form = client.get(link).content.decode()
    assert "mirror.example</textarea>" in form
    assert '<option value="limit" selected>' in form
    assert re.search(r'name="evidence" value="/runs/[0-9a-f-]{36}/"', form)


def test_reader_without_the_role_gets_no_button(client: Client, tenants: Sequence[Tenant]) -> None:
    insert_stop(tenants[0], source("mirror.example", proposed=True))
    client.force_login(make_member(tenants[0], Role.REVIEWER))
    [row] = proposed(client)
    assert row[6] == ""


def test_what_is_blocked_or_never_can_be_says_so(client: Client, tenants: Sequence[Tenant]) -> None:
    insert_stop(tenants[0], source("mirror.example", proposed=True), source("co.uk", proposed=True))
    reach = Reach(tenants[0].organisation, tenants[0])
    block_sources(reach, [Wanted("mirror.example")], actor=SYSTEM, now=NOW)
    client.force_login(make_member(tenants[0], Role.ADMIN))
    states = {row[0]: (row[5], row[6]) for row in proposed(client)}
    assert states["domain mirror.example"] == ("On the blocklist", "")
    assert "Can’t be blocked" in states["domain co.uk"][0]
    assert states["domain co.uk"][1] == ""


def test_names_of_attackers_are_only_text(client: Client, tenants: Sequence[Tenant]) -> None:
    for payload in PAYLOADS:
        marked = {"proposed": True, "quarantined": True}
        insert_stop(tenants[0], source(payload[:253], **marked), source(payload[:128], "tool", **marked))
    client.force_login(make_member(tenants[0], Role.ADMIN))
    text = client.get(PROPOSED).content.decode()
    assert not re.search(r"<(script|img|iframe|base|object)[^>]*(4242|attacker)", text)
    assert "\u202e" not in text
    for payload in PAYLOADS:
        for kind in ("domain", "tool"):
            asked = client.get(USED, {"name": payload, "kind": kind})
            assert asked.status_code in (200, 400)
            assert "\u202e" not in asked.content.decode()


def test_nobody_has_no_sources(client: Client, tenants: Sequence[Tenant]) -> None:
    client.force_login(make_user())
    assert client.get(USED).status_code == client.get(PROPOSED).status_code == 404
