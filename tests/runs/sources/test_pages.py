"""The radar and a source's page: who sees what of whom, numbers that are their rows, and blocking."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from guardops.guard.events import Outcome, Source
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from policies.models import BlockedSource
from runs.models import SourceDay
from tests.factories import make_member, make_operator, make_run_event, store_runs
from tests.runs.sources.town import add_runs, make_town, trap

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def send(tenant: Tenant, at: datetime, *names: str, stopped: bool) -> None:
    """Store a run through ingest that used these domains."""
    how = {"outcome": Outcome.HALTED, "halt_reason": "source_cap"} if stopped else {}
    used = [Source(kind="domain", name=name, calls=2) for name in names]
    store_runs(tenant, make_run_event(ended_at=at, sources=used, **how), received_at=at)


def signed_in(client: Client, user: object) -> Client:
    client.force_login(user)  # type: ignore[arg-type]
    return client


def test_member_reads_a_source_of_several_tenants_and_nothing_of_whose_they_are(
    client: Client, now: datetime
) -> None:
    [mine, _, _] = tenants = make_town(1, 2)
    for tenant in tenants[1:]:
        trap(tenant, now, stopped=40)
    trap(mine, now, stopped=6)
    response = signed_in(client, make_member(mine)).get("/sources/")
    page = response.content.decode()

    [it] = response.context["rows"]
    assert (it.row.name, it.row.tenants, it.row.state) == ("trap.example", 3, "suggested")
    assert (it.row.mine.stopped, it.row.by_tenant.keys()) == (6, {mine.pk})
    assert not any(name in page for other in tenants[1:] for name in (other.slug, other.name, ">86<"))
    detail = client.get(it.page).content.decode()
    assert not any(other.slug in detail or other.name in detail for other in tenants[1:])


def test_member_whose_tenant_never_met_it_reads_only_that_several_tenants_did(
    client: Client, now: datetime
) -> None:
    [mine, *others] = make_town(1, 3, 1)
    for tenant in others:
        trap(tenant, now)
    add_runs(mine, 3, now, stopped=True, sources=[])
    [it] = signed_in(client, make_member(mine)).get("/sources/").context["rows"]

    assert (it.row.tenants, it.row.mine.stopped, it.row.mine.cost) == (4, 0, 0)


@pytest.mark.parametrize("met_by", [1, 2])
def test_source_of_fewer_than_three_tenants_is_told_to_no_other(
    client: Client, now: datetime, met_by: int
) -> None:
    [mine, *others] = make_town(1, 1, 1)
    for tenant in others[:met_by]:
        trap(tenant, now)
    trap_free = signed_in(client, make_member(mine))

    assert "trap.example" not in trap_free.get("/sources/").content.decode()
    assert trap_free.get("/sources/domain/trap.example/").status_code == 404
    assert b"".join(trap_free.get("/sources/export.csv")).count(b"\n") == 1


@pytest.mark.parametrize(("met_by", "told"), [(1, "today"), (2, "before")])
def test_when_others_met_a_source_first_is_told_only_where_it_crosses_tenants(
    client: Client, now: datetime, met_by: int, told: str
) -> None:
    [mine, *others] = make_town(1, 1, 1)
    today = now.date()
    before = today - timedelta(days=9)
    SourceDay.objects.create(
        tenant_id=others[0].pk, day=before, kind="domain", name="trap.example", stopped=1
    )
    for tenant in (mine, *others[:met_by]):
        trap(tenant, now)
    [it] = signed_in(client, make_member(mine)).get("/sources/").context["rows"]
    row = client.get(it.page).context["row"]

    seen = {"today": (today, True), "before": (before, False)}[told]
    assert (it.row.first_seen, it.row.is_new) == (row.first_seen, row.is_new) == seen


def test_operator_reads_whose_runs_they_are(client: Client, now: datetime) -> None:
    tenants = make_town(2, 1)
    for tenant in tenants:
        trap(tenant, now)
    page = signed_in(client, make_operator()).get("/sources/domain/trap.example/").content.decode()

    assert all(tenant.name in page for tenant in tenants)


@pytest.mark.parametrize("stopped", [True, False])
def test_number_of_runs_leads_to_exactly_its_runs(client: Client, now: datetime, stopped: bool) -> None:
    [tenant] = make_town(1)
    for _ in range(3):
        send(tenant, now, "mirror.example", "other.example", stopped=True)
    for _ in range(2):
        send(tenant, now, "mirror.example", stopped=False)
    send(tenant, now, "other.example", stopped=False)
    found = signed_in(client, make_member(tenant)).get("/sources/").context["rows"]
    it = next(it for it in found if it.row.name == "mirror.example")
    listing = client.get(it.stopped if stopped else it.completed).context["listing"]

    assert (it.row.mine.stopped, it.row.mine.completed) == (3, 2)
    assert listing.total.number == len(listing.page.runs) == (3 if stopped else 2)
    assert client.get(it.page).context["runs"]


@pytest.mark.parametrize("name", ["a/b", "line\nbreak", "⟦x⟧", "..?", "50%", "\u202egpj", "a" * 128])
def test_page_opens_for_whatever_a_tool_is_called(client: Client, now: datetime, name: str) -> None:
    [tenant] = make_town(1)
    add_runs(tenant, 1, now, stopped=True, sources=[{"kind": "tool", "name": name, "calls": 1}])
    [it] = signed_in(client, make_member(tenant)).get("/sources/").context["rows"]

    assert client.get(it.page).context["row"].name == name
    assert client.get(it.stopped).status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        *(
            "/sources/?days=99",
            "/sources/?tenant=none",
            "/sources/?kind=x",
            "/sources/?q=%00",
            "/sources/?page=x",
        ),
        *("/sources/export.csv?days=x", "/sources/domain/x.example/?days=0"),
    ],
)
def test_nonsense_is_said_and_breaks_nothing(client: Client, address: str) -> None:
    [tenant] = make_town(1)
    assert signed_in(client, make_member(tenant)).get(address).status_code in (400, 404)


@pytest.mark.parametrize("name", ["%00", quote("\ud800", errors="surrogatepass"), "x" * 3_000])
def test_page_of_a_name_that_nothing_can_have_is_not_found(client: Client, name: str) -> None:
    [tenant] = make_town(1)
    assert signed_in(client, make_member(tenant)).get(f"/sources/domain/{name}/").status_code == 404


def test_file_holds_the_rows_of_the_page(client: Client, now: datetime) -> None:
    [tenant] = make_town(1)
    add_runs(tenant, 6, now, stopped=True, sources=[{"kind": "tool", "name": "=cmd()", "calls": 1}])
    add_runs(tenant, 6, now, stopped=True, sources=[{"kind": "domain", "name": "a.example", "calls": 1}])
    answer = signed_in(client, make_member(tenant)).get("/sources/export.csv?kind=tool")
    [row] = csv.DictReader(io.StringIO(b"".join(answer).decode()))

    assert (row["source"], row["stopped_runs"], row["stopped_share"]) == ("'=cmd()", "6", "0.5")


def test_admin_blocks_for_several_tenants_with_one_form(client: Client, now: datetime) -> None:
    tenants = make_town(2)
    for tenant in tenants:
        trap(tenant, now)
    add_runs(
        tenants[0], 4, now, stopped=False, sources=[{"kind": "domain", "name": "trap.example", "calls": 1}]
    )
    admin = make_member(tenants[0].organisation, Role.ADMIN)
    page = signed_in(client, admin).get("/sources/domain/trap.example/")
    form = {"kind": "domain", "name": "trap.example", "lasting": "7d", "reason": "tarpit"}
    places = [place.name for place, chosen in page.context["blocking"].rows if chosen]
    answer = client.post(reverse("runs:source-block"), form | {"places": places})

    assert "4 completed runs of 1 tenant" in " ".join(unescape(page.content.decode()).split())
    assert answer.context["counts"] == {"blocked": 2}
    blocked = BlockedSource.objects.filter(name="trap.example", removed_at=None)
    assert {block.tenant_id for block in blocked} == {tenant.pk for tenant in tenants}
    assert {(block.origin, block.evidence) for block in blocked} == {
        ("source", "/sources/domain/trap.example/")
    }
    assert client.get("/sources/").context["rows"][0].row.state == "blocked"


def test_tenant_that_somebody_only_sees_is_refused_and_nothing_is_blocked(
    client: Client, now: datetime
) -> None:
    mine, other = make_town(2)
    person = make_member(mine, Role.ADMIN)
    from guardops.tenants.actors import SYSTEM
    from guardops.tenants.people import set_membership

    set_membership(
        user=person, organisation=other.organisation, tenant=other, role=Role.REVIEWER, actor=SYSTEM
    )
    form = {
        "kind": "domain",
        "name": "trap.example",
        "places": [f"tenant:{mine.slug}", f"tenant:{other.slug}"],
    }

    assert signed_in(client, person).post(reverse("runs:source-block"), form).status_code == 403
    assert not BlockedSource.objects.exists()


def test_address_or_public_suffix_is_not_offered_for_blocking(client: Client, now: datetime) -> None:
    [tenant] = make_town(1)
    for name in ("192.0.2.7", "co.uk"):
        add_runs(tenant, 6, now, stopped=True, sources=[{"kind": "domain", "name": name, "calls": 1}])
    at = signed_in(client, make_member(tenant, Role.ADMIN))

    assert [it.block for it in at.get("/sources/").context["rows"]] == ["", ""]
    form = {"kind": "domain", "name": "co.uk", "places": [f"tenant:{tenant.slug}"]}
    assert at.post(reverse("runs:source-block"), form).context["counts"] == {"error": 1}


def test_look_alike_is_marked(client: Client, now: datetime) -> None:
    [tenant] = make_town(1)
    name = "xn--pple-43d.example"  # a Cyrillic letter before Latin ones
    add_runs(tenant, 1, now, stopped=True, sources=[{"kind": "domain", "name": name, "calls": 1}])
    page = signed_in(client, make_member(tenant)).get("/sources/").content.decode()

    assert name in page
    assert "Mixed script" in page


def test_overview_names_what_stands_out_and_changes_when_that_does(client: Client, now: datetime) -> None:
    tenants = make_town(2, 1)
    for tenant in tenants:
        add_runs(tenant, 5, now, stopped=False, sources=[])
    at = signed_in(client, make_member(tenants[0]))
    before = at.get("/")
    for tenant in tenants:
        trap(tenant, now)
    after = at.get("/")

    assert (before.context["sources"], "No source stands out" in before.content.decode()) == ([], True)
    assert [it.row.name for it in after.context["sources"]] == ["trap.example"]
    assert before.context["poll"] != after.context["poll"]


def test_counts_that_are_behind_say_so_and_are_not_waited_for(
    client: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.sources.counts.LONGEST_TAIL", 10)
    [tenant] = make_town(1)
    add_runs(tenant, 11, now, stopped=True, sources=[{"kind": "tool", "name": "fetch", "calls": 1}])
    page = signed_in(client, make_member(tenant)).get("/sources/")

    assert page.context["radar"].rows == []
    assert "11 runs are not in these numbers yet" in page.content.decode()


def test_run_leads_to_the_pages_of_its_sources(client: Client, now: datetime) -> None:
    [tenant] = make_town(1)
    send(tenant, now, "mirror.example", stopped=True)
    at = signed_in(client, make_member(tenant))
    run = at.get("/runs/").context["listing"].page.runs[0]
    page = at.get(reverse("runs:detail", args=[run.run_id])).content.decode()

    assert 'href="/sources/domain/mirror.example/"' in page
