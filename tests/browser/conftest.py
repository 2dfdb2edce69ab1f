"""Real pages in a real Chromium, in light and dark, wide and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from tests.factories import make_member, make_tenant

_FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Look:
    """How a page is looked at."""

    theme: str
    width: int

    @property
    def height(self) -> int:
        return 900 if self.width > 720 else 740

    def __str__(self) -> str:
        return f"{self.theme}-{self.width}"


LOOKS = [Look(theme, width) for theme in ("light", "dark") for width in (1440, 360)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    return {**browser_type_launch_args, "executable_path": path, "args": _FLAGS}


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def person(tenant: Tenant) -> User:
    return make_member(tenant, Role.ADMIN, username="mara")


class Desk:
    """A signed-in person at a browser; whatever a page complains of is kept."""

    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.context = context
        self.base_url = base_url
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, path: str) -> Page:
        self.page.goto(self.base_url + path)
        return self.page

    def sideways_scroll(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        root = "document.documentElement"
        width = self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
        assert isinstance(width, int)
        return width


class Desks:
    """Opens desks; all are closed after the test."""

    def __init__(self, browser: Browser, server: LiveServer) -> None:
        self._browser = browser
        self._server = server
        self._contexts: list[BrowserContext] = []

    def __call__(self, user: User | None, look: Look = LOOKS[0], **options: Any) -> Desk:
        context = self._browser.new_context(
            viewport={"width": look.width, "height": look.height}, color_scheme=look.theme, **options
        )
        context.set_default_timeout(15_000)
        self._contexts.append(context)
        if user is not None:
            client = Client()
            client.force_login(user)
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": self._server.url}]
            )
        return Desk(context, self._server.url)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def desk(browser: Browser, live_server: LiveServer) -> Iterator[Desks]:
    desks = Desks(browser, live_server)
    yield desks
    desks.close()


@pytest.fixture(params=LOOKS, ids=str)
def look(request: pytest.FixtureRequest) -> Look:
    found: Look = request.param
    return found
