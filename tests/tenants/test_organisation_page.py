from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from guardops.tenants.forms.organisations import read_domain
from guardops.tenants.models import MAX_ALLOWED_DOMAINS, OrganisationEvent, Tenant
from guardops.tenants.organisations import update_organisation

from .conftest import Cast

pytestmark = pytest.mark.django_db

URL = "/settings/organisations/acme/"
FORM: dict[str, Any] = {
    "version": 1,
    "name": "Acme",
    "time_zone": "Europe/Berlin",
    "retention_days": "30",
    "allowed_domains": "example.com\n\n  Docs.Example.ORG.  \nexample.com",
}


@pytest.fixture
def admin(client: Client, cast: Cast) -> Client:
    client.force_login(cast.organisation_admin)
    return client


def test_the_settings_are_saved_and_the_trail_names_who(admin: Client, cast: Cast) -> None:
    assert admin.post(URL, FORM)["Location"] == URL
    cast.organisation.refresh_from_db()
    saved = cast.organisation
    assert (saved.name, saved.time_zone, saved.retention_days) == ("Acme", "Europe/Berlin", 30)
    assert saved.allowed_domains == ["docs.example.org", "example.com"]
    assert saved.version == 2
    row = OrganisationEvent.objects.latest("pgh_id")
    assert (row.pgh_label, row.pgh_context["actor"]["id"]) == ("update", cast.organisation_admin.pk)
    assert row.allowed_domains == saved.allowed_domains


def test_an_empty_retention_is_the_installations(admin: Client, cast: Cast) -> None:
    admin.post(URL, FORM)
    admin.post(URL, FORM | {"version": 2, "retention_days": "", "allowed_domains": ""})
    cast.organisation.refresh_from_db()
    assert (cast.organisation.retention_days, cast.organisation.allowed_domains) == (None, [])


def test_the_second_editor_sees_the_difference_and_keeps_what_was_typed(admin: Client, cast: Cast) -> None:
    admin.get(URL)
    update_organisation(
        cast.organisation,
        version=1,
        name="Acme Ltd",
        time_zone="Europe/Berlin",
        retention_days=7,
        allowed_domains=["example.net"],
        actor=cast.admin,
    )
    answer = admin.post(URL, FORM)
    assert answer.status_code == 409
    cast.organisation.refresh_from_db()
    assert cast.organisation.name == "Acme Ltd"
    assert answer.context["differences"] == [
        ("Name", "Acme Ltd", "Acme"),
        ("Keep runs for (days)", "7", "30"),
        ("Domains that are never blocked", "example.net", "docs.example.org, example.com"),
    ]
    page = answer.content.decode()
    assert f"<bdi>{cast.admin.username}</bdi> saved these settings" in page
    form = answer.context["form"]
    assert (form["name"].value(), form["version"].value()) == ("Acme", "2")

    assert admin.post(URL, FORM | {"version": form["version"].value()}).status_code == 302
    cast.organisation.refresh_from_db()
    assert cast.organisation.name == "Acme"


def test_a_third_edit_in_between_is_seen_too(admin: Client, cast: Cast) -> None:
    admin.post(URL, FORM)
    admin.post(URL, FORM | {"version": 2, "name": "Acme Ltd"})
    assert admin.post(URL, FORM | {"version": 2}).status_code == 409


def test_who_saves_the_same_second_is_told_that_it_stands(admin: Client, cast: Cast) -> None:
    admin.post(URL, FORM)
    answer = admin.post(URL, FORM, follow=True)
    assert "has just set the same" in answer.content.decode()
    cast.organisation.refresh_from_db()
    assert cast.organisation.version == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"name": "a\0b"},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": ""},
        {"time_zone": "../etc/passwd"},
        {"retention_days": "0"},
        {"retention_days": "3651"},
        {"retention_days": "-1"},
        {"retention_days": "1.5"},
        {"retention_days": "9" * 400},
        {"retention_days": "NaN"},
        {"version": ""},
        {"version": "9" * 400},
        {"version": "x"},
        {"allowed_domains": "co.uk"},
        {"allowed_domains": "a\0b.com"},
    ],
)
def test_bad_input_changes_nothing_and_is_kept(admin: Client, cast: Cast, wrong: dict[str, str]) -> None:
    answer = admin.post(URL, FORM | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    cast.organisation.refresh_from_db()
    assert (cast.organisation.version, cast.organisation.retention_days) == (1, None)
    if "name" not in wrong:
        assert answer.context["form"]["name"].value() == "Acme"


def test_each_bad_line_gets_its_own_word(admin: Client, cast: Cast) -> None:
    lines = ["example.com", "co.uk", "https://example.com/a", "*.example.com", "10.0.0.1", "localhost", "a b"]
    answer = admin.post(URL, FORM | {"allowed_domains": "\r\n".join(lines)})
    errors = answer.context["form"].errors["allowed_domains"]
    assert [error.partition(",")[0] for error in errors] == [f"Line {number}" for number in range(2, 8)]
    assert all(text in error for text, error in zip(lines[1:], errors, strict=True))
    assert answer.context["form"]["allowed_domains"].value().splitlines() == lines


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("bücher.example.com", "xn--bcher-kva.example.com"),
        ("docs.example.co.uk", "docs.example.co.uk"),
    ],
)
def test_a_domain_is_kept_in_its_one_spelling(text: str, host: str) -> None:
    assert read_domain(text) == (host, "")
    assert read_domain(host) == (host, "")


@pytest.mark.parametrize(
    "text",
    [
        "co.uk",
        "com",
        "github.io",
        "127.0.0.1",
        "0x7f.1",
        "1.2.3.4",
        "[::1]",
        "::1",
        "localhost",
        "a..b",
        "-",
        ".",
        "exa mple.com",
        "http://a.com",
        "a.com/b",
        "*.a.com",
        "x" * 300 + ".com",
        "\ud800.com",
    ],
)
def test_what_is_no_domain_of_anybodys_is_refused(text: str) -> None:
    assert read_domain(text)[1] != ""


def test_a_flood_of_lines_is_told_in_few_words(admin: Client, cast: Cast) -> None:
    answer = admin.post(URL, FORM | {"allowed_domains": "\n".join(["x y"] * 5_000)})
    assert len(answer.context["form"].errors["allowed_domains"]) == 21
    many = "\n".join(f"d{number}.example" for number in range(MAX_ALLOWED_DOMAINS + 1))
    assert "at most 500" in str(admin.post(URL, FORM | {"allowed_domains": many}).context["form"].errors)


@pytest.mark.parametrize(("who", "status"), [("admin", 403), ("viewer", 403), ("operator", 403)])
def test_a_role_too_low_is_told_so(client: Client, cast: Cast, who: str, status: int) -> None:
    client.force_login(getattr(cast, who))
    assert (client.get(URL).status_code, client.post(URL, FORM).status_code) == (status, status)


@pytest.mark.parametrize("who", ["foreign_admin", "nobody"])
def test_a_stranger_finds_nothing(client: Client, cast: Cast, who: str) -> None:
    client.force_login(getattr(cast, who))
    assert (client.get(URL).status_code, client.post(URL, FORM).status_code) == (404, 404)


def test_a_tenant_is_made_with_the_slug_that_it_keeps(admin: Client, cast: Cast) -> None:
    answer = admin.post(f"{URL}new-tenant/", {"name": "Billing", "slug": "billing"})
    assert answer["Location"] == "/settings/organisations/"
    made = Tenant.objects.get(slug="billing")
    assert (made.name, made.organisation) == ("Billing", cast.organisation)
    admin.post("/settings/tenants/billing/", {"name": "Invoices", "slug": "invoices"})
    made.refresh_from_db()
    assert (made.name, made.slug) == ("Invoices", "billing")


@pytest.mark.parametrize(
    "wrong",
    [{"slug": slug} for slug in ("", "Billing", "a b", "research", "elsewhere", "-x", "x" * 65, "a\0b", "ü")]
    + [{"name": name} for name in ("", "x" * 129, "a\0b")],
)
def test_a_tenant_that_makes_no_sense_is_not_made(admin: Client, cast: Cast, wrong: dict[str, str]) -> None:
    before = Tenant.objects.count()
    answer = admin.post(f"{URL}new-tenant/", {"name": "Billing", "slug": "billing"} | wrong)
    assert answer.status_code == 200
    assert answer.context["form"].errors
    assert Tenant.objects.count() == before


@pytest.mark.parametrize("name", ["", "   ", "x" * 129, "a\0b"])
def test_a_name_that_is_none_renames_nothing(admin: Client, cast: Cast, name: str) -> None:
    answer = admin.post("/settings/tenants/research/", {"name": name})
    assert answer.context["form"].errors
    cast.tenant.refresh_from_db()
    assert cast.tenant.name == "Research"


def test_an_admin_of_a_tenant_sees_and_renames_it_alone(client: Client, cast: Cast) -> None:
    client.force_login(cast.admin)
    page = client.get("/settings/organisations/").content.decode()
    assert "research" in page
    assert "support" not in page
    assert "new-tenant" not in page
    assert client.post("/settings/tenants/research/", {"name": "R"}).status_code == 302
    assert client.post("/settings/tenants/support/", {"name": "S"}).status_code == 404


def test_posts_from_elsewhere_change_nothing(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.organisation_admin)
    for path, form in ((URL, FORM), (f"{URL}new-tenant/", {"name": "B", "slug": "b"})):
        assert client.post(path, form).status_code == 403
    cast.organisation.refresh_from_db()
    assert cast.organisation.version == 1
