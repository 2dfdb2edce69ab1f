"""The pages of settings, in the order of their links, and who is shown which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import access
from .models import User


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """A page of settings: its view, how the views begin that lead on from it, and who may open it."""

    view: str
    label: str
    may_open: Callable[[User], bool]
    also: tuple[str, ...] = ()


def administers_a_tenant(user: User) -> bool:
    return access.administered_tenants(user).exists()


PAGES = [
    SettingsPage("tenants:keys", "API keys", administers_a_tenant, ("tenants:key-",)),
]


def pages_for(user: User) -> list[SettingsPage]:
    """Return the pages that ``user`` may open; each rule is asked once."""
    asked: dict[Callable[[User], bool], bool] = {}
    for page in PAGES:
        if page.may_open not in asked:
            asked[page.may_open] = page.may_open(user)
    return [page for page in PAGES if asked[page.may_open]]
