from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from policies.publish.policies import Place, Saved, save_policy
from tests.policies.conftest import House

EDIT, LIST, VERSIONS, ROLLBACK = (
    reverse(f"policies:{name}") for name in ("edit", "list", "versions", "rollback")
)


@pytest.fixture
def browser(client: Client, house: House) -> Client:
    """A browser in which the organisation's admin is signed in."""
    client.force_login(house.admin)
    return client


def save(house: House, place: Place, document: dict[str, Any], seen: int = 0, **options: Any) -> Saved:
    saved = save_policy(place, document, seen=seen, actor=house.admin, now=datetime.now(UTC), **options)
    assert saved is not None
    return saved


def sent(step: str = "save", *, seen: int = 0, tools: int = 0, **fields: Any) -> dict[str, Any]:
    """Return what the editor sends of the tenant's policy of research."""
    rows = {"tools-TOTAL_FORMS": tools, "tools-INITIAL_FORMS": 0}
    return {"tenant": "research", "job": "research", "seen": seen, "step": step, **rows, **fields}


def text_of(response: HttpResponse) -> str:
    return response.content.decode()
