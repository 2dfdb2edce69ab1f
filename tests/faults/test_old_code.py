"""A rolling upgrade: the schema is this version's, while processes of the release before still work on it."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from guardops.local import ports
from guardops.tenants.choices import Role, Scope
from policies.models import BlockedSource
from runs.models import Rollup, Run
from runs.rollup.state import read_lag
from tests.factories import PASSWORD, make_key, make_member, make_tenant
from tests.gate_process import CHECKOUT, FoldProcess, GateProcess, ManagedProcess
from tests.local.waiting import until

from .posting import Posting, agents, make_post

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

BEFORE = "80718e4"
"""The last commit of the release before this one."""


class Before(ManagedProcess):
    """A process of the release before."""

    tree: Path

    def start(self) -> None:
        command = [self._command[0], str(self.tree / "manage.py"), *self._command[2:]]
        self.process = subprocess.Popen(
            command, cwd=self.tree, env=self._environment, pass_fds=self._pass_fds
        )


class GateBefore(Before, GateProcess):
    pass


class FoldBefore(Before, FoldProcess):
    pass


class WebBefore(Before):
    def __init__(self, database_url: str) -> None:
        self.door: socket.socket = ports.listen("127.0.0.1", 0)
        fd = self.door.fileno()
        super().__init__(database_url, "web", "--fd", str(fd), pass_fds=(fd,))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the release before, as its commit has it."""
    tree = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "archive", BEFORE], cwd=CHECKOUT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this checkout does not know the commit {BEFORE}")
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return tree


@pytest.fixture(autouse=True)
def _from_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Before, "tree", tree, raising=False)


def sign_in(client: httpx.Client, username: str) -> None:
    client.post("/login/", data={"username": username, "password": PASSWORD, **token(client.get("/login/"))})


def token(page: httpx.Response) -> dict[str, str]:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    return {"csrfmiddlewaretoken": found[1]}


def test_gate_and_fold_of_the_release_before_work_on_this_schema(database_url: str) -> None:
    tenant = make_tenant()
    key = make_key(tenant, scopes=[Scope.EVENTS_WRITE, Scope.BUNDLE_READ], now=datetime.now(UTC))[1]
    posts = [make_post(place) for place in range(20)]
    with GateBefore(database_url) as gate, FoldBefore(database_url):
        Posting(gate, key, clients=2).post_all(posts)
        until(lambda: not read_lag(datetime.now(UTC)) and Rollup.objects.exists())
        bundle = httpx.get(f"{gate.url}/api/v1/bundle", headers={"Authorization": f"Bearer {key}"})
    with GateProcess(database_url) as gate, FoldProcess(database_url):
        Posting(gate, key, clients=2).post_all(later := [make_post(place) for place in range(20, 30)])
        until(lambda: _counted() == 90)

    assert bundle.status_code == 200
    assert sorted(Run.objects.values_list("agent", flat=True)) == sorted(agents([*posts, *later]))


def _counted() -> int:
    rows = Rollup.objects.filter(tenant_id=0, cut=0, grain=0).values_list("runs", flat=True)
    return sum(rows)


def test_pages_of_the_release_before_read_and_write_this_schema(database_url: str) -> None:
    tenant = make_tenant()
    admin = make_member(tenant, Role.ADMIN)
    with WebBefore(database_url) as web, closing(web.door):
        address = f"http://127.0.0.1:{web.door.getsockname()[1]}"
        with httpx.Client(base_url=address, follow_redirects=True, timeout=30) as client:
            sign_in(client, admin.username)
            pages = ["/", "/runs/", "/policies/", "/guards/", "/settings/keys/", "/settings/audit/"]
            answers = {page: client.get(page).status_code for page in pages}
            asked = {"place": f"tenant:{tenant.slug}", "names": "trap.example", "step": "confirm"}
            asked |= {"kind": "domain", "match": "registrable", "action": "block"}
            form = client.get("/blocklist/add/")
            blocked = client.post("/blocklist/add/", data=asked | token(form))

    assert answers == dict.fromkeys(pages, 200)
    assert blocked.status_code == 200
    assert BlockedSource.objects.get().name == "trap.example"
