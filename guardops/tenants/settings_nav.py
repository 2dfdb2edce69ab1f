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


def anybody(user: User) -> bool:
    return True


def administers_a_tenant(user: User) -> bool:
    return access.administered_tenants(user).exists()


def reads_the_trail(user: User) -> bool:
    return user.is_operator or administers_a_tenant(user)


PAGES = [
    SettingsPage(
        "tenants:organisations",
        "Organisation",
        access.administers_something,
        ("tenants:organisation", "tenants:tenant-"),
    ),
    SettingsPage(
        "tenants:members",
        "Members",
        access.administers_something,
        ("tenants:member", "tenants:invite", "tenants:invitation-"),
    ),
    SettingsPage("tenants:keys", "API keys", administers_a_tenant, ("tenants:key-",)),
    SettingsPage("tenants:audit", "Audit trail", reads_the_trail),
    SettingsPage("runs:storage", "Storage", access.reads_storage),
    SettingsPage("runs:health", "System health", access.reads_storage),
    SettingsPage("tenants:account", "Account", anybody, ("tenants:password-change",)),
]


def pages_for(user: User) -> list[SettingsPage]:
    """Return the pages that ``user`` may open; each rule is asked once."""
    asked: dict[Callable[[User], bool], bool] = {}
    for page in PAGES:
        if page.may_open not in asked:
            asked[page.may_open] = page.may_open(user)
    return [page for page in PAGES if asked[page.may_open]]
