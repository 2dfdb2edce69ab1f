"""The list of blocked sources: who sees what of it, filters, pages, files."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from guardops.tenants.choices import Role
from guardops.tenants.models import User
from policies.choices import BlockAction, Origin, SourceKind
from policies.models import BlockedSource
from policies.publish.sources import Reach, Wanted, block_sources, remove_sources
from tests.factories import make_member, make_operator, make_user
from tests.hostile.payloads import PAYLOADS
from tests.policies.conftest import House

from .conftest import text_of

BLOCKLIST, CSV, PROPOSED, ADD = (
    reverse(f"policies:{name}")
    for name in ("blocklist", "blocklist-csv", "blocklist-proposed", "blocklist-add")
)
EVERYBODY = Reach()


def block(house: House, *names: str, reach: Reach | None = None, **fields: Any) -> list[BlockedSource]:
    outcomes, _ = block_sources(
        reach or Reach(house.organisation, house.tenant),
        [Wanted(name, **fields) for name in names],
        actor=house.admin,
        now=datetime.now(UTC),
    )
    return [outcome.source for outcome in outcomes if outcome.source]


def as_(client: Client, user: User) -> Client:
    client.force_login(user)
    return client


def rows(client: Client, **params: str) -> list[dict[str, str]]:
    response: Any = client.get(CSV, params)
    return list(csv.DictReader(io.StringIO(b"".join(response).decode())))


def names(client: Client, **params: str) -> set[str]:
    """Return the names that the page lists, which are those of its file."""
    text = text_of(client.get(BLOCKLIST, params))
    found = {row["name"] for row in rows(client, **params)}
    assert all(name in text for name in found)
    return found


def test_member_sees_their_tenants_entries_and_those_above(client: Client, house: House) -> None:
    block(house, "mine.example")
    block(house, "siblings.example", reach=Reach(house.organisation, house.sibling))
    block(house, "foreign.example", reach=Reach(house.foreign.organisation, house.foreign))
    block(house, "shared.example", reach=Reach(house.organisation))
    block(house, "all.example", reach=EVERYBODY)
    viewer = as_(client, make_member(house.tenant))
    assert names(viewer) == {"mine.example", "shared.example", "all.example"}
    assert "Remove" not in text_of(viewer.get(BLOCKLIST)).split("</nav>")[-1]


def test_why_is_shown_to_those_who_read_at_that_level(client: Client, house: House) -> None:
    told = {"note": "seen at elsewhere", "evidence": "/runs/?tenant=elsewhere"}
    block(house, "shared.example", reach=Reach(house.organisation), **told)
    block(house, "all.example", reach=EVERYBODY, **told)
    assert "elsewhere" not in text_of(as_(client, make_member(house.tenant)).get(BLOCKLIST))
    assert [row["added_by"] for row in rows(client)] == ["", ""]
    assert [row["note"] for row in rows(as_(client, house.admin))] == ["", "seen at elsewhere"]
    assert [row["note"] for row in rows(as_(client, make_operator()))] == ["seen at elsewhere"] * 2


def test_filters_narrow_the_page_and_the_file_alike(browser: Client, house: House) -> None:
    block(house, "mirror.example", reason="tarpit")
    block(house, "bücher.example", origin=Origin.PROPOSED)
    block(house, "fetch", kind=SourceKind.TOOL, reach=Reach(house.organisation, house.sibling))
    assert names(browser, tenant="support") == {"fetch"}
    assert names(browser, kind="domain") == {"mirror.example", "xn--bcher-kva.example"}
    assert names(browser, origin="proposed", tenant="research") == {"xn--bcher-kva.example"}
    assert names(browser, q="TARPIT") == {"mirror.example"}
    assert names(browser, q="bücher.example") == {"xn--bcher-kva.example"}
    assert "No source matches these filters" in text_of(browser.get(BLOCKLIST, {"q": "nothing"}))


def test_removed_and_expired_entries_stand_in_their_tab(browser: Client, house: House) -> None:
    [gone] = block(house, "gone.example")
    remove_sources(
        Reach(house.organisation, house.tenant), [gone.pk], actor=house.admin, now=datetime.now(UTC)
    )
    block(house, "over.example", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    block(house, "still.example")
    assert names(browser) == {"still.example"}
    assert names(browser, tab="removed") == {"gone.example", "over.example"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "No source is blocked"),
        ({"tab": "removed"}, "Nothing was removed yet"),
        ({"kind": "planet"}, "These filters cannot be read"),
        ({"tenant": "elsewhere"}, "These filters cannot be read"),
    ],
)
def test_empty_list_says_why_it_is_empty(
    browser: Client, house: House, params: dict[str, str], said: str
) -> None:
    assert said in text_of(browser.get(BLOCKLIST, params))


def test_somebody_without_a_tenant_is_told_so(client: Client, house: House) -> None:
    nobody = as_(client, make_user())
    for address in (BLOCKLIST, PROPOSED):
        assert "not a member of any tenant" in text_of(nobody.get(address))


@pytest.mark.parametrize("text", ["\0", "\ud800".encode("utf-8", "surrogatepass"), "9" * 5_000, "1" * 40])
def test_nonsense_in_an_address_is_answered(browser: Client, house: House, text: str) -> None:
    for address in (BLOCKLIST, CSV, PROPOSED, ADD):
        for name in ("q", "tenant", "kind", "tab", "page", "name", "place"):
            assert browser.get(address, {name: text}).status_code in (200, 400)


def test_look_alike_shows_both_spellings_and_a_badge(browser: Client, house: House) -> None:
    block(house, "g\u043e\u043egle.example")
    text = text_of(browser.get(BLOCKLIST))
    assert "xn--ggle-55da.example" in text
    assert "g\u043e\u043egle.example" in text
    assert "Mixed script" in text


def test_page_asks_as_many_questions_for_many_entries_as_for_one(
    browser: Client, house: House, django_assert_max_num_queries: Any
) -> None:
    block(house, *(f"m{number}.example" for number in range(60)))
    block(house, *(f"w{number}.example" for number in range(60)), reach=Reach(house.organisation))
    with django_assert_max_num_queries(16):
        response = browser.get(BLOCKLIST)
    assert "120 in force" in text_of(response)
    assert text_of(response).count("<tr") == 101


def test_file_is_safe_and_comes_back_as_it_was(browser: Client, house: House) -> None:
    tools = [
        Wanted(f"tool-{most}", SourceKind.TOOL, False, BlockAction.LIMIT, most, payload[:300], payload)
        for most, payload in enumerate(PAYLOADS)
    ]
    block_sources(
        Reach(house.organisation, house.tenant),
        [*tools, Wanted("=cmd", SourceKind.TOOL)],
        actor=house.admin,
        now=datetime.now(UTC),
    )
    response: Any = browser.get(CSV)
    file = b"".join(response).decode()
    cells = [cell for row in csv.reader(io.StringIO(file)) for cell in row]
    assert not any(cell[:1] in set("=+-@|%\t\r") for cell in cells)
    form = {"place": "tenant:support", "table": file, "step": "confirm", **HOW}
    page = text_of(browser.post(ADD, form))
    assert "61 sources blocked for" in page
    assert kept(house.sibling.pk) == kept(house.tenant.pk)


HOW = {"kind": "domain", "match": "registrable", "action": "block"}


def kept(tenant_id: int) -> list[tuple[Any, ...]]:
    fields = ("kind", "name", "exact", "action", "most", "reason", "note", "origin", "evidence", "expires_at")
    return list(BlockedSource.objects.filter(tenant=tenant_id).order_by("name").values_list(*fields))


def test_view_of_the_list_can_be_saved(browser: Client, house: House) -> None:
    address = reverse("tenants:saved-views", args=["blocklist"])
    browser.post(address, {"name": "Tools", "query": "kind=tool&tenant=elsewhere&q=x"})
    view = apps.get_model("tenants", "SavedView").objects.get()
    assert (view.name, view.query) == ("Tools", "kind=tool&q=x")


def test_proposed_tab_asks_runs_for_what_guards_propose(client: Client, house: House) -> None:
    member = as_(client, make_member(house.tenant, Role.VIEWER))
    text = text_of(member.get(PROPOSED))
    assert f'hx-get="{reverse("runs:sources-proposed")}?tenant=research"' in text
    assert ADD not in text
