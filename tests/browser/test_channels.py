"""A channel in the browser: made without scripts, tried out, its delivery shown, and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from playwright.sync_api import expect
from pytest_django import Settings

from guardops.tenants.models import Tenant, User
from tests.browser.conftest import LOOKS, Desks
from tests.browser.test_every_page import complaints, faults
from tests.runs.notify.http_sink import Sink, http_sink
from tests.runs.notify.test_webhook import proves


@pytest.fixture
def sink(settings: Settings) -> Iterator[Sink]:
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.0/8")]
    with http_sink() as server:
        yield server


def test_a_channel_is_made_tried_out_and_removed(
    desk: Desks, tenant: Tenant, person: User, sink: Sink
) -> None:
    plain = desk(person, java_script_enabled=False).open("/alerts/channels/")
    plain.get_by_role("link", name="Add the first channel").click()
    plain.get_by_role("link", name="Signed webhook").click()
    plain.get_by_label("Name").fill("on call")
    plain.get_by_label("Address").fill("https://10.0.0.1/hook")
    plain.get_by_role("button", name="Add the channel").click()
    expect(plain.locator("main")).to_contain_text("leads to a network that GuardOps may not reach")
    plain.get_by_label("Address").fill(sink.url)
    plain.get_by_role("button", name="Add the channel").click()
    secret = plain.locator("#secret").inner_text()
    plain.get_by_role("link", name="I have copied it").click()

    at = desk(person, LOOKS[3])
    page = at.open(plain.url.partition("/alerts")[1] + plain.url.partition("/alerts")[2])
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator("main")).to_contain_text("“Test from GuardOps” was sent. It answered 202.")
    expect(page.get_by_role("row").filter(has_text="Test from GuardOps")).to_contain_text("Sent")
    (posted,) = sink.posted
    assert json.loads(posted.body)["type"] == "guardops.test"
    assert proves(posted, secret)
    expect(page.locator("body")).not_to_contain_text(secret)
    assert (faults(at), complaints(at), at.sideways_scroll()) == ([], [], 0)

    page.get_by_role("link", name="Remove").click()
    page.get_by_role("button", name="Remove the channel").click()
    expect(page.get_by_role("heading", name="Nobody is told yet")).to_be_visible()
