from __future__ import annotations

import re

import pytest
from django.test import Client
from structlog.contextvars import get_contextvars

pytestmark = pytest.mark.django_db


def test_each_request_gets_a_name_of_its_own(client: Client) -> None:
    names = {client.get("/login/")["X-Request-ID"] for _ in range(2)}
    assert len(names) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)
    assert "request_id" not in get_contextvars()


def test_a_proxys_name_is_kept(client: Client) -> None:
    assert client.get("/login/", headers={"X-Request-ID": "edge-7.a_1"})["X-Request-ID"] == "edge-7.a_1"


@pytest.mark.parametrize("name", ["two words", "x" * 65, "a\r\nSet-Cookie: b=c", "<b>", "ä"])
def test_a_name_that_is_none_is_replaced(client: Client, name: str) -> None:
    assert re.fullmatch(
        r"[0-9a-f]{32}", client.get("/login/", headers={"X-Request-ID": name})["X-Request-ID"]
    )
