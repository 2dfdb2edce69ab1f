"""Saved views of lists: each person's own, of what the list itself understands."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest
from django.db import connection
from django.test import Client

from guardops.tenants.choices import Role
from guardops.tenants.models import SavedView, Tenant, User
from guardops.tenants.saved_views import MAX_VIEWS, InvalidView, delete_view, rename_view, save_view
from tests.factories import make_member, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def person(tenant: Tenant) -> User:
    return make_member(tenant)


@pytest.fixture
def browser(client: Client, person: User) -> Client:
    client.force_login(person)
    return client


Save = Callable[..., SavedView]


@pytest.fixture
def save(person: User) -> Save:
    def save(name: str = "Loops", query: str = "looped=1", *, owner: User = person) -> SavedView:
        return save_view(owner=owner, page="runs", name=name, query=query)

    return save


def queries(user: User) -> dict[str, str]:
    return dict(user.saved_views.values_list("name", "query"))


def test_view_is_saved_from_the_address_and_opens_there(browser: Client, person: User) -> None:
    saved = browser.post("/views/runs/", {"name": " Loops ", "query": "range=7d&looped=1&sort=-cost"})

    assert queries(person) == {"Loops": "range=7d&looped=1&sort=-cost"}
    assert saved["Location"] == "/runs/?range=7d&looped=1&sort=-cost"
    assert "Saved as “Loops”" in browser.get(saved["Location"]).content.decode()


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("looped=1&evil=%3Cscript%3E", "looped=1"),
        ("looped=yes&job=a", "job=a"),
        ("range=3y&job=a", "job=a"),
        ("from=never&to=2026-03-01&job=a", "job=a"),
        ("steps_min=9&steps_max=3", "steps_min=9"),
        ("job=a&job=b&q=c", "q=c"),
        ("after=abc&before=def&job=a", "job=a"),
        ("tenant=elsewhere&job=a", "job=a"),
        ("tenant=acme&job=%C3%BC%00&q=", "tenant=acme"),
        ("outcome=halted&outcome=failed&outcome=", "outcome=halted&outcome=failed"),
        ("//evil.example/?x=1", ""),
        ("", ""),
    ],
)
def test_what_the_list_does_not_understand_is_dropped(
    browser: Client, person: User, query: str, kept: str
) -> None:
    make_tenant("elsewhere")
    browser.post("/views/runs/", {"name": "View", "query": query})

    assert queries(person) == {"View": kept}
    assert "cannot be read" not in browser.get(f"/runs/?{kept}").content.decode()


@pytest.mark.parametrize(
    ("page", "query", "kept", "address"),
    [
        ("live", "state=silent&tenant=acme&size=0&x=1&after=1", "state=silent&tenant=acme", "/runs/live/"),
        ("live", "state=odd&tenant=elsewhere", "", "/runs/live/"),
        ("audit", "range=7d&who=mara&kind=nothing&after=1", "range=7d&who=mara", "/settings/audit/"),
        ("keys", "state=revoked&tenant=elsewhere&page=2", "state=revoked", "/settings/keys/"),
    ],
)
def test_each_list_keeps_what_it_understands(
    client: Client, tenant: Tenant, page: str, query: str, kept: str, address: str
) -> None:
    make_tenant("elsewhere")
    admin = make_member(tenant, Role.ADMIN)
    client.force_login(admin)
    saved = client.post(f"/views/{page}/", {"name": "Mine", "query": query})

    assert queries(admin) == {"Mine": kept}
    assert saved["Location"] == (f"{address}?{kept}" if kept else address)
    assert 'aria-current="true">' in client.get(saved["Location"]).content.decode()


@pytest.mark.parametrize("page", ["audit", "keys"])
def test_view_of_a_list_that_somebody_may_not_see_is_refused(
    browser: Client, person: User, page: str
) -> None:
    assert browser.post(f"/views/{page}/", {"name": "Mine", "query": ""}).status_code == 403
    assert queries(person) == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "Give the view a name"),
        ("  ", "Give the view a name"),
        ("x" * 65, "at most 64"),
        ("a\0b", "Null"),
    ],
)
def test_name_that_can_be_none_is_said_and_nothing_lost(
    browser: Client, person: User, name: str, said: str
) -> None:
    response = browser.post("/views/runs/", {"name": name, "query": "looped=1"})
    page = response.content.decode()

    assert (response.status_code, queries(person)) == (200, {})
    assert said in page
    assert 'name="query" value="looped=1"' in page


def test_name_that_is_taken_is_said(browser: Client, person: User, save: Save) -> None:
    save("Loops", "blocked=1")
    page = browser.post("/views/runs/", {"name": "Loops", "query": "looped=1"}).content.decode()

    assert "You have a view of this name already" in page
    assert queries(person) == {"Loops": "blocked=1"}


def test_query_that_is_too_long_is_said(browser: Client, person: User) -> None:
    query = "&".join(["outcome=halted"] * 180)
    assert "too long to save" in browser.post("/views/runs/", {"name": "A", "query": query}).content.decode()
    assert queries(person) == {}


def test_fifty_views_of_a_list_are_enough(person: User, save: Save) -> None:
    for number in range(MAX_VIEWS):
        save(f"View {number}")
    with pytest.raises(InvalidView, match="delete one first") as refused:
        save("One more")

    assert refused.value.code == "too_many"
    assert save_view(owner=person, page="other", name="One more", query="").page == "other"


def test_bar_of_the_list_offers_views_and_marks_the_open_one(browser: Client, save: Save) -> None:
    save("Dear", "sort=-cost")
    save("Loops <b>", "looped=1&range=7d")
    page = browser.get("/runs/?range=7d&looped=1").content.decode()

    assert 'href="/runs/?sort=-cost"' in page
    assert 'href="/runs/?looped=1&amp;range=7d" aria-current="true"' in page
    assert "Loops <b>" not in page


def test_view_is_renamed(browser: Client, person: User, save: Save) -> None:
    view = save("Loops")
    browser.post(f"/views/runs/{view.pk}/rename/", {f"{view.pk}-name": "Circles"})

    assert queries(person) == {"Circles": "looped=1"}


def test_name_taken_by_another_view_is_said_where_it_was_typed(
    browser: Client, person: User, save: Save
) -> None:
    view = save("Loops")
    save("Circles")
    page = browser.post(f"/views/runs/{view.pk}/rename/", {f"{view.pk}-name": "Circles"}).content.decode()

    assert "You have a view of this name already" in page
    assert set(queries(person)) == {"Loops", "Circles"}


def test_view_is_deleted(browser: Client, person: User, save: Save) -> None:
    view = save("Loops")
    deleted = browser.post(f"/views/runs/{view.pk}/delete/")

    assert queries(person) == {}
    assert "No view is saved yet" in browser.get(deleted["Location"]).content.decode()


@pytest.mark.parametrize("verb", ["rename", "delete"])
def test_view_of_somebody_else_is_not_found(browser: Client, tenant: Tenant, save: Save, verb: str) -> None:
    view = save("Theirs", owner=make_member(tenant))
    response = browser.post(f"/views/runs/{view.pk}/{verb}/", {f"{view.pk}-name": "Mine"})

    assert response.status_code == 404
    view.refresh_from_db()
    assert view.name == "Theirs"
    assert "Theirs" not in browser.get("/views/runs/").content.decode()
    assert "Theirs" not in browser.get("/runs/").content.decode()


@pytest.mark.parametrize("verb", ["rename", "delete"])
def test_view_of_another_list_is_not_found(browser: Client, person: User, verb: str) -> None:
    view = save_view(owner=person, page="other", name="Mine", query="")
    assert browser.post(f"/views/runs/{view.pk}/{verb}/").status_code == 404


def test_list_that_there_is_not_is_not_found(browser: Client) -> None:
    assert browser.get("/views/nothing/").status_code == 404
    assert browser.post("/views/nothing/", {"name": "a"}).status_code == 404


def test_hostile_name_is_shown_as_text(browser: Client, save: Save) -> None:
    save("<script>\u202e", "job=%3Cb%3E")
    for path in ("/views/runs/", "/runs/", "/runs/?job=%3Cb%3E"):
        page = browser.get(path).content.decode()
        assert "<script>\u202e" not in page
        assert "\u202e" not in page


@pytest.mark.django_db(transaction=True)
def test_two_tabs_at_once_take_a_name_once(person: User) -> None:
    outcomes: list[str] = []

    def save() -> None:
        try:
            save_view(owner=person, page="runs", name="Same", query="")
            outcomes.append("saved")
        except InvalidView as refused:
            outcomes.append(refused.code)
        finally:
            connection.close()

    tabs = [Thread(target=save) for _ in range(4)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()

    assert sorted(outcomes) == ["saved", "taken", "taken", "taken"]


def test_view_keeps_its_own_name(save: Save, person: User) -> None:
    view = save("Loops")
    rename_view(view, "Loops")
    assert queries(person) == {"Loops": "looped=1"}
    delete_view(view)
    assert queries(person) == {}
