"""From an empty tenant to its first run: a fresh key, the call with it filled in, a line that turns green."""

from __future__ import annotations

import re
import shlex
from typing import Any

import httpx

from guardops.tenants.models import Tenant, User
from runs.models import Run
from tests.browser.conftest import Desks, Look
from tests.browser.test_every_page import complaints, faults
from tests.gate_process import GateProcess

PHONE = Look("dark", 360)


def run_curl(call: str) -> str:
    """Do what a shell and curl would do with the call, where there may be no curl; return the answer."""
    command, url, *options = shlex.split(call.replace("\\\n", " "))
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(value.split(": ", 1) for option, value in given if option == "-H")
    [body] = [value for option, value in given if option == "-d"]
    assert (command, {option for option, _ in given}) == ("curl", {"-H", "-d"})
    return httpx.post(url, headers=headers, content=body, timeout=20).raise_for_status().text


def test_the_call_that_the_page_shows_turns_it_green(
    desk: Desks, tenant: Tenant, person: User, database_url: str, settings: Any
) -> None:
    with GateProcess(database_url) as gate:
        settings.GATE_URL = gate.url
        at = desk(person, PHONE)
        at.open("/").get_by_role("link", name="Connect an agent").click()
        at.page.get_by_role("button", name="Make a key and fill it in").click()
        at.page.get_by_role("link", name="curl").click()
        at.page.get_by_text("Waiting for the first event of acme").wait_for()
        assert (faults(at), complaints(at), at.sideways_scroll()) == ([], [], 0)
        call = at.page.locator("#snippet-sample").inner_text()
        answer = run_curl(call)
        at.page.locator("#connect-status.note-ok").wait_for()
    assert '"accepted":1' in answer
    assert (faults(at), complaints(at)) == ([], [])
    link = at.page.get_by_role("link", name=re.compile("the run of research"))
    run = Run.objects.get(tenant_id=tenant.pk)
    assert link.get_attribute("href") == f"/runs/{run.run_id}/?tenant=acme"
    assert at.page.locator("#connect-status[hx-get]").count() == 0
    assert at.page.locator("#key").is_visible()


def test_connecting_works_without_scripts(desk: Desks, tenant: Tenant, person: User) -> None:
    at = desk(person, java_script_enabled=False)
    at.open("/connect/").get_by_role("button", name="Make a key and fill it in").click()
    at.page.get_by_role("link", name="curl").click()
    assert re.search("Bearer go_[0-9a-f]{12}_", at.page.locator("#snippet-sample").inner_text())
    assert not at.page.locator("#snippet-guard").is_visible()
    at.page.get_by_role("link", name="Look now").click()
    at.page.get_by_text("Waiting for the first event of acme").wait_for()
