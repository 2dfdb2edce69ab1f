from __future__ import annotations

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from guardops.tenants.client_address import client_address


def address(peer: str, forwarded: str | None = None) -> str:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return client_address(RequestFactory().get("/", REMOTE_ADDR=peer, headers=headers))


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
    ],
)
def test_without_a_proxy_it_is_the_peers(peer: str, counted: str) -> None:
    assert address(peer) == counted
    assert address(peer, "203.0.113.9") == counted


@pytest.mark.parametrize(
    ("forwarded", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("10.0.0.1, 203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::/64"),
        ("", "192.0.2.1"),
        ("10.0.0.1, ", "192.0.2.1"),
        ("unknown", "192.0.2.1"),
        ("\0", "192.0.2.1"),
    ],
)
def test_behind_a_proxy_it_is_the_last_that_the_proxy_wrote(
    settings: Settings, forwarded: str, counted: str
) -> None:
    settings.BEHIND_PROXY = True
    assert address("192.0.2.1", forwarded) == counted
