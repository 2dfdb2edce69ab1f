from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guardops.tenants.models import User
from guardops.tenants.trail.entries import Entry
from guardops.tenants.trail.reading import Asked, TrailPage, read_page
from guardops.tenants.trail.scope import trail_scope

Read = Callable[..., TrailPage]


@pytest.fixture
def read() -> Read:
    def read_as(user: User, *, size: int = 50, **asked: Any) -> TrailPage:
        return read_page(trail_scope(user), Asked(**asked), size=size)

    return read_as


def sentence(entry: Entry) -> str:
    """Return what the page says, as one line."""
    change = entry.only_change
    told = f" from {change.old} to {change.new}" if change else ""
    return f"{entry.actor or 'somebody'} {entry.verb} {entry.noun} {entry.name}{told}"
