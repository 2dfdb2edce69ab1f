"""No data yet, none that match, an error, not allowed, not found: five texts, each with a next step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from django.db import OperationalError
from django.test import Client
from psycopg.errors import QueryCanceled

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from tests.factories import make_key, make_member, make_tenant, make_user
from tests.runs.live_rows import insert_live
from tests.runs.rows import insert_rows, make_row

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class State:
    """What is asked for, by whom, with or without something to list, and how the answer begins."""

    path: str
    said: str
    status: int = 200
    filled: bool = True
    who: str = "admin"


LISTS: dict[str, list[State]] = {
    "overview": [
        State("/", "No runs yet", filled=False),
        State("/?job=nothing", "No run of this job type and release ended in this time"),
        State("/?range=3y", "The request makes no sense", 400),
        State("/", "You are not a member of any tenant", who="nobody"),
        State("/?tenant=elsewhere", "There is nothing here", 404),
    ],
    "runs": [
        State("/runs/", "No run has ended yet", filled=False),
        State("/runs/?job=nothing", "No run matches these filters"),
        State("/runs/?range=3y", "These filters cannot be read"),
        State("/runs/", "You are not a member of any tenant", who="nobody"),
        State("/runs/?tenant=elsewhere", "There is nothing here", 404),
    ],
    "live": [
        State("/runs/live/", "No run is live", filled=False),
        State("/runs/live/?job=nothing", "No live run matches these filters"),
        State("/runs/live/?state=odd", "These filters cannot be read"),
        State("/runs/live/", "You are not a member of any tenant", who="nobody"),
        State("/runs/live/?tenant=elsewhere", "There is nothing here", 404),
    ],
    "keys": [
        State("/settings/keys/", "No keys yet", filled=False),
        State("/settings/keys/?state=revoked", "No key matches these filters"),
        State("/settings/keys/?tenant=elsewhere", "These filters cannot be read"),
        State("/settings/keys/", "Your role does not allow this", 403, who="viewer"),
        State("/settings/keys/0/revoke/", "There is nothing here", 404),
    ],
    "audit": [
        State("/settings/audit/?who=nobody-yet", "No change matches these filters"),
        State("/settings/audit/?range=odd", "These filters cannot be read"),
        State("/settings/audit/", "Your role does not allow this", 403, who="viewer"),
        State("/settings/audit/nothing/", "There is nothing here", 404),
    ],
    "saved views": [
        State("/views/runs/", "No view is saved yet"),
        State("/views/audit/", "No view is saved yet"),
        State("/views/nothing/", "There is nothing here", 404),
    ],
}


@pytest.fixture
def tenant() -> Tenant:
    make_tenant("elsewhere")
    return make_tenant("acme")


def person(tenant: Tenant, who: str) -> User:
    if who == "nobody":
        return make_user()
    return make_member(tenant, Role.ADMIN if who == "admin" else Role.VIEWER)


def fill(tenant: Tenant) -> None:
    insert_rows([make_row(datetime.now(UTC), tenant_id=tenant.pk)])
    insert_live(tenant)
    make_key(tenant, now=datetime.now(UTC))


@pytest.mark.parametrize("state", [state for states in LISTS.values() for state in states], ids=str)
def test_state_has_its_text_and_a_next_step(client: Client, tenant: Tenant, state: State) -> None:
    if state.filled:
        fill(tenant)
    client.force_login(person(tenant, state.who))
    response = client.get(state.path)
    page = response.content.decode()
    heading = re.search(rf"<h[12][^>]*>\s*{re.escape(state.said)}", page)

    assert response.status_code == state.status
    assert heading is not None
    after = page[heading.end() :].partition("</main>")[0]
    assert re.search(r"<(?:a class=\"btn|summary)[ \"]", after), "no next step"


@pytest.mark.parametrize("name", ["overview", "runs", "live", "keys"])
def test_list_has_five_states_that_read_differently(name: str) -> None:
    assert len({state.said for state in LISTS[name]}) == 5


def gives_up(*_: object, **__: object) -> None:
    raise OperationalError("statement timeout") from QueryCanceled()


@pytest.mark.parametrize(
    ("path", "broken", "said"),
    [
        ("/runs/", "runs.pages.list.read_page", "This took the database too long"),
        ("/", "runs.reports.pages.read_overview", "The database does not answer in time"),
        ("/runs/live/", "runs.pages.live.read_live_list", "The database does not answer in time"),
    ],
)
def test_database_that_gives_up_is_a_state_of_its_own(
    client: Client,
    tenant: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    broken: str,
    said: str,
) -> None:
    client.force_login(person(tenant, "admin"))
    client.raise_request_exception = False
    monkeypatch.setattr(broken, gives_up)
    response = client.get(path)

    assert response.status_code == 503
    assert said in response.content.decode()
    assert 'class="btn' in response.content.decode()


def test_what_is_not_allowed_says_which_role_it_takes(client: Client, tenant: Tenant) -> None:
    client.force_login(person(tenant, "viewer"))
    page = client.get("/settings/keys/").content.decode()

    assert "This needs the role admin in a tenant." in page
    assert 'href="/settings/account/"' in page
