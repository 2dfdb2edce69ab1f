from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from guardops.guard.scenarios.tarpit import Loopback, serving


@pytest.fixture
def web() -> Iterator[httpx.Client]:
    """A client for whom every host is the tarpit's site."""
    with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
        yield client
